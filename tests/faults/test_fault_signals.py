"""Ctrl-C and SIGTERM at any moment: a clean end, soon, with nothing left behind."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ga3c.runs.checkpoint import load_newest
from tests.helpers.command_line import QUICK, ROOT, all_gone, children_of, finish, start, summary_of, trains
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.processes

PONG = ["GAME=Pong", "LOG_SECONDS=0.5", "RUN=here"]
SOON = 20.0  # seconds for a clean end; 3 on a quiet machine
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def members_of(session):
    """The processes of a session: those that a run has started, also where their parent is gone."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rsplit(")", 1)[1].split()[3]) == session:
                found.append(int(status.parent.name))
    return found


def pending(pid):
    """Signals that the process has not taken yet."""
    status = Path(f"/proc/{pid}/status").read_text()
    return any(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd")))


def python_was_not_up(code, output, number):
    """Whether Python was interrupted before it came to our code, which may leave it nothing to say, or a traceback."""
    return (not output and code == -number) or ("KeyboardInterrupt" in output and f'"{ROOT / "ga3c"}' not in output)


def check_clean_end(process, path, seconds, number):
    """How long it took to end after this moment; a signal has just been sent."""
    sent = time.monotonic()
    code, output = finish(process)
    took = time.monotonic() - sent
    wait_until(all_gone(members_of(process.pid)), 5)
    if python_was_not_up(code, output, number):
        assert not path.exists()
        return took
    assert code == 0, output
    assert "Traceback" not in output
    assert took < seconds, output
    if "first prediction" in output:
        load_newest(path)
    if path.exists():
        assert summary_of(path)["exit_reason"] == "interrupted"
    return took


@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGINT, 10)])
def test_a_signal_ends_the_run_cleanly_and_soon(tmp_path, number, times):
    process = start(tmp_path, *QUICK, "RUN=here")
    wait_until(trains(tmp_path / "here"), 120)
    assert len(children_of(process.pid)) >= 2
    for _ in range(times):
        process.send_signal(number)
        wait_until(lambda: not pending(process.pid))
    took = check_clean_end(process, tmp_path / "here", SOON, number)
    print(f"ended after {took:.2f} s")
    load_newest(tmp_path / "here")


def interrupt_while_starting(tmp_path, number, moment):
    process = start(tmp_path, *PONG, afresh=True)
    moment(process)
    process.send_signal(number)
    return check_clean_end(process, tmp_path / "here", SOON, number)


def loaded(name):
    """When the process has this library."""
    return lambda process: wait_until(lambda: name in Path(f"/proc/{process.pid}/maps").read_text())


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, lambda process: None),
        (signal.SIGTERM, loaded("libc")),
        (signal.SIGINT, loaded("numpy")),
        (signal.SIGTERM, loaded("libtorch")),
        (signal.SIGTERM, lambda process: wait_until(lambda: children_of(process.pid))),
    ],
    ids=["at once", "as Python starts", "importing", "importing torch", "starting agents"],
)
def test_a_signal_while_the_run_starts(tmp_path, number, moment):
    interrupt_while_starting(tmp_path, number, moment)


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("seconds", [tenths / 10 for tenths in range(0, 61, 2)])
def test_a_signal_at_every_moment_of_the_start(tmp_path, number, seconds):
    def moment(process):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)

    took = interrupt_while_starting(tmp_path, number, moment)
    print(f"{number.name} after {seconds:.1f} s: ended after {took:.2f} s")


@pytest.mark.parametrize(("number", "agents"), [(signal.SIGTERM, 1), (signal.SIGINT, 4)])
def test_a_signal_to_the_whole_group_while_agents_start(tmp_path, number, agents):
    """As a terminal's Ctrl-C or a cluster's end of a job: agents hear it too, some before they can ignore it."""
    process = start(tmp_path, *QUICK, "AGENTS=6", "RUN=here")
    wait_until(lambda: len(children_of(process.pid)) > agents)  # one of them is none
    os.killpg(process.pid, number)
    check_clean_end(process, tmp_path / "here", SOON, number)


SLOW_DISK = """
import os, time
from pathlib import Path
sync = os.fsync

def fsync(number):
    if os.readlink(f"/proc/self/fd/{number}").find(".safetensors") > 0:
        Path("saving").touch()
        while not Path("told").exists():
            time.sleep(0.01)
    sync(number)

os.fsync = fsync
"""


def test_a_signal_while_a_checkpoint_is_written(tmp_path):
    process = start(tmp_path, *QUICK, "RUN=here", "CHECKPOINT_SECONDS=1", patch=SLOW_DISK)
    wait_until((tmp_path / "saving").exists, 120)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: not pending(process.pid))
    (tmp_path / "told").touch()
    took = check_clean_end(process, tmp_path / "here", SOON, signal.SIGTERM)
    print(f"ended after {took:.2f} s")
    assert load_newest(tmp_path / "here")[2]["updates"] == summary_of(tmp_path / "here")["updates"]


@pytest.mark.long
@BOTH
def test_a_signal_while_a_large_checkpoint_is_written(tmp_path, number):
    process = start(tmp_path, *PONG, "NETWORK=large-1", "AGENTS=1", "CHECKPOINT_SECONDS=2")
    checkpoints = tmp_path / "here" / "checkpoints"
    wait_until(lambda: list(checkpoints.glob(".*.safetensors.*")), 120)
    process.send_signal(number)
    took = check_clean_end(process, tmp_path / "here", 10.0, number)
    size = max(path.stat().st_size for path in checkpoints.iterdir())
    print(f"ended after {took:.2f} s with a checkpoint of {size / 1e6:.0f} MB")
