"""What is skipped where there is no wheel of Warp."""

import importlib.util
import os

import pytest

missing = importlib.util.find_spec("warp") is None
assert not (missing and os.environ.get("CI") == "true"), "CI has to install ga3c[emulator]"
WITHOUT_WARP = pytest.mark.skipif(missing, reason="Warp is not installed")
