"""What a test needs and is not there: elsewhere it is skipped, in CI it fails."""

import os
import subprocess
import sys

import pytest

from tests.helpers.needed import lacks

NEEDY = """
import pytest

def test_needy():
    pytest.importorskip("a_package_that_nobody_has")
"""


@pytest.mark.processes
@pytest.mark.parametrize(("ci", "code", "said"), [("", 0, "1 skipped"), ("true", 1, "ModuleNotFoundError")])
def test_a_missing_package_is_a_failure_in_ci_alone(tmp_path, ci, code, said):
    (tmp_path / "test_needy.py").write_text(NEEDY)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stdout
    assert said in done.stdout


def test_so_is_a_missing_command(monkeypatch):
    monkeypatch.setenv("CI", "")
    assert lacks("sh", "a_command_that_nobody_has")
    monkeypatch.setenv("CI", "true")
    assert not lacks("sh")
    with pytest.raises(AssertionError, match="CI has to install a_command_that_nobody_has"):
        lacks("sh", "a_command_that_nobody_has")
