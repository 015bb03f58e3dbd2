"""Private directories: what a killed process left is removed by the next start, what is in use is not."""

import subprocess
import sys

import pytest

from ga3c.private import PrivateDirectory

MAKE = "from ga3c.private import PrivateDirectory; print(PrivateDirectory().path, flush=True); input()"


@pytest.fixture
def other(tmp_path, monkeypatch):
    """A process with a directory of its own, and that directory; all of them below one of the test's."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    process = subprocess.Popen([sys.executable, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process, tmp_path / process.stdout.readline().strip()
    process.kill()
    process.communicate()


def test_what_is_in_use_stays(other):
    _, theirs = other
    ours = PrivateDirectory()
    assert theirs.exists()
    assert ours.path.exists()
    assert ours.path.parent == theirs.parent
    ours.close()
    assert theirs.exists()
    assert not ours.path.exists()


def test_what_a_killed_process_left_goes_with_the_next_start(other):
    process, theirs = other
    process.kill()
    process.wait()
    assert theirs.exists()
    PrivateDirectory().close()
    assert not theirs.exists()
