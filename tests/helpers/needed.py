"""Commands of the system that some tests need."""

import os
import shutil


def lacks(*commands):
    """Whether one of them is not there, for which a test is skipped; CI has to have them all."""
    missing = [command for command in commands if shutil.which(command) is None]
    assert not (missing and os.environ.get("CI") == "true"), f"CI has to install {', '.join(missing)}"
    return bool(missing)
