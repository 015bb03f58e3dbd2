"""Where agents run: what a process is given, how it ended, and what its caller's process is spared."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ga3c.agents.places import local
from ga3c.agents.places.local import ONE_THREAD, LocalPlace
from ga3c.agents.places.place import how_it_ended
from tests.helpers.command_line import ROOT
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def run():
    """Start a process with this body; all that were started end with the test."""
    processes = []

    def start(body, *given):
        processes.append(LocalPlace().start(7, (body, given)))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.join()


def end_with(code):
    sys.exit(code)


def tell_circumstances(path):
    told = {
        "threads": {name: os.environ.get(name) for name in ONE_THREAD},
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "path": sys.path,
        "arguments": sys.argv,
        "directory": os.getcwd(),
    }
    with open(path, "w") as file:
        json.dump(told, file)


@pytest.mark.processes
def test_a_process_has_its_own_environment_and_not_the_main_module(run, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    process = run(tell_circumstances, tmp_path / "told")
    process.join(30)
    assert process.exitcode == 0
    told = json.loads((tmp_path / "told").read_text())
    assert told["threads"] == ONE_THREAD
    assert told["main"] is None
    assert (told["path"], told["arguments"], told["directory"]) == (sys.path, sys.argv, os.getcwd())
    assert os.environ["OMP_NUM_THREADS"] == "5"


@pytest.mark.processes
def test_how_a_process_ended_is_said(run):
    process = run(end_with, 3)
    process.join(30)
    assert how_it_ended(process) == "ended with code 3"
    process = run(time.sleep, 60)
    assert process.is_alive()
    assert process.exitcode is None
    process.kill()
    process.join(30)
    assert how_it_ended(process) == "was killed by signal 9"


@pytest.mark.processes
def test_what_the_system_refuses_leaves_nothing_open(run, monkeypatch):
    def refuse(*_):
        raise BlockingIOError("no more processes")

    run(end_with, 0).join(30)  # so that what is kept for all processes is there
    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(local.util, "spawnv_passfds", refuse)
    with pytest.raises(BlockingIOError, match="no more processes"):
        run(end_with, 0)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= len(before))


@pytest.mark.processes
def test_ctrl_c_does_not_reach_a_process_that_has_just_started(run):
    """It goes to the whole group, and the child could not ignore it yet."""
    status = Path(f"/proc/{run(time.sleep, 60).pid}/status").read_text()
    blocked = int(status.split("SigBlk:")[1].split()[0], 16)
    assert blocked >> (signal.SIGINT - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


WATCHED = """
import json, multiprocessing, os, sys, threading, time

def seen():
    main = sys.modules["__main__"]
    method = multiprocessing.get_start_method(allow_none=True)
    return main.__name__, id(main), json.dumps(dict(os.environ), sort_keys=True), method

samples, over = set(), threading.Event()

def watch():
    while not over.is_set():
        samples.add(seen())
        time.sleep(0.0005)

before = seen()
threading.Thread(target=watch).start()
import ga3c
summary = ga3c.train(ga3c.Config(game="CartPole-v1", agents=3, envs_per_agent=2, hidden=16, max_steps=1000, run="here",
                                 tensorboard=False))
over.set()
print("STEPS", summary["steps"] >= 1000, "SAME", samples == {before}, seen() == before)
"""


@pytest.mark.processes
def test_other_threads_of_the_caller_see_no_change_while_agents_start(tmp_path):
    """In a script without a guard."""
    (tmp_path / "mine.py").write_text(WATCHED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "STEPS True SAME True True\n"
