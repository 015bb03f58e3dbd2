"""Two runs on one machine, and limits of the system that are too low: refused or ended with a sentence that helps."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys

import pytest
from running import QUICK, ROOT, children_of, finish, run, start, summary_of, trains
from waiting import wait_until


def test_two_runs_that_start_at_once_do_not_meet(tmp_path):
    words = [*QUICK, "MAX_STEPS=2000"]
    both = [start(tmp_path, *words) for _ in range(2)]
    for process in both:
        code, output = finish(process)
        assert code == 0, output
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 2
    for path in runs:
        summary = summary_of(path)
        assert summary["exit_reason"] == "max_steps"
        assert summary["bad_messages"] == 0


def test_a_run_directory_is_for_one_run_at_a_time(tmp_path):
    process = start(tmp_path, *QUICK, "RUN=here")
    wait_until(trains(tmp_path / "here"), 120)
    for words in (["RUN=here"], ["RESUME=here"]):
        code, output = run(tmp_path, *QUICK, *words)
        assert code == 2, output
        assert "another run writes to here at this moment" in output
    process.kill()
    finish(process)
    code, output = run(tmp_path, *QUICK, "RESUME=here", "MAX_STEPS=500")  # the kernel has given it back
    assert "another run" not in output


def limited(kind, soft, hard=None):
    return lambda: resource.setrlimit(kind, (soft, soft if hard is None else hard))


def test_too_few_open_files_are_refused_with_what_is_needed(tmp_path):
    code, output = run(tmp_path, *QUICK, "AGENTS=100", preexec_fn=limited(resource.RLIMIT_NOFILE, 200))
    assert code == 2, output
    assert re.search(r"100 agents need about (\d+) open files, and the limit is 200: 'ulimit -n \1' raises it", output)
    assert not (tmp_path / "runs").exists()


def test_a_soft_limit_on_open_files_is_raised(tmp_path):
    code, output = run(tmp_path, *QUICK, "MAX_STEPS=500", preexec_fn=limited(resource.RLIMIT_NOFILE, 32, 1024))
    assert code == 0, output


def test_open_files_that_run_out_later_end_the_run_with_the_limit(tmp_path):
    process = start(tmp_path, *QUICK, "RUN=here")
    wait_until(trains(tmp_path / "here"), 120)
    used = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used, used))
    agent = children_of(process.pid)[-1]
    os.kill(agent, signal.SIGKILL)
    code, output = finish(process)
    assert code == 1, output
    reason = summary_of(tmp_path / "here")["exit_reason"]
    assert "Too many open files. The limit on open files is reached. 2 agents need about" in reason
    assert "'ulimit -n" in reason


@pytest.fixture
def as_nobody(tmp_path_factory):
    """A directory, and how to start a process there as a user for whom the limit holds: for root it does not."""
    if os.geteuid() != 0:
        return tmp_path_factory.mktemp("limits"), {}
    user = {"user": 65534, "group": 65534, "extra_groups": []}
    path = tmp_path_factory.mktemp("limits")
    for place in (path, *path.parents[:2]):
        place.chmod(0o755)
    shutil.chown(path, 65534, 65534)
    probe = subprocess.run([sys.executable, "-c", "import torch"], cwd=path, capture_output=True, **user)
    if probe.returncode or not os.access(ROOT, os.R_OK):
        pytest.skip("what is installed cannot be read by another user")
    return path, user


def test_too_few_processes_are_refused_with_what_is_needed(as_nobody):
    path, user = as_nobody
    code, output = run(path, *QUICK, "AGENTS=100", preexec_fn=limited(resource.RLIMIT_NPROC, 300), **user)
    assert code == 2, output
    told = r"100 agents need about \d+ processes and threads, and this user has \d+ of 300 in use: 'ulimit -u \d+'"
    assert re.search(told, output), output


def test_processes_that_run_out_later_end_the_run_with_the_limit(as_nobody):
    path, user = as_nobody
    process = start(path, *QUICK, "RUN=here", **user)
    wait_until(trains(path / "here"), 120)
    resource.prlimit(process.pid, resource.RLIMIT_NPROC, (1, 1))
    os.kill(children_of(process.pid)[-1], signal.SIGKILL)
    code, output = finish(process)
    assert code == 1, output
    assert (
        "The limit on processes and threads is reached. 2 agents need about" in summary_of(path / "here")["exit_reason"]
    )
