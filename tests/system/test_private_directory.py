"""Private directories: what a killed process left is removed by the next start, what is in use is not."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ga3c.system.private_directory import PrivateDirectory
from tests.helpers.exchange_at_work import Office

MAKE = "from ga3c.system.private_directory import PrivateDirectory; print(PrivateDirectory().path, flush=True); input()"


@pytest.fixture
def other(temporary):
    """A process with a directory of its own, and that directory; all of them below one of the test's."""
    process = subprocess.Popen([sys.executable, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


@pytest.mark.processes
def test_what_is_in_use_stays(other):
    _, theirs = other
    ours = PrivateDirectory()
    assert theirs.exists()
    assert ours.path.exists()
    assert ours.path.parent == theirs.parent
    ours.close()
    assert theirs.exists()
    assert not ours.path.exists()


@pytest.mark.processes
def test_what_a_killed_process_left_goes_with_the_next_start(other):
    process, theirs = other
    process.kill()
    process.wait()
    assert theirs.exists()
    PrivateDirectory().close()
    assert not theirs.exists()


def test_where_names_are_too_long_for_sockets_they_are_elsewhere(temporary, monkeypatch):
    long = temporary / ("cluster-job-" * 9)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    office = Office()
    endpoint = Path(office.exchange.endpoint.removeprefix("ipc://"))
    assert endpoint.is_socket()
    office.close()
    assert not endpoint.parent.exists()
    assert not list(long.iterdir())
