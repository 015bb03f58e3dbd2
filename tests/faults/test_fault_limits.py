"""Two runs on one machine, and limits of the system that are too low: refused or ended with a sentence that helps."""

import os
import re
import resource
import signal
import subprocess
import sys

import pytest

from tests.helpers.command_line import QUICK, children_of, finish, run, start, summary_of, trains
from tests.helpers.needed import lacks
from tests.helpers.waiting import wait_until


@pytest.mark.processes
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


@pytest.mark.processes
def test_a_run_directory_is_for_one_run_at_a_time(tmp_path):
    start(tmp_path, *QUICK, "RUN=here", "CHECKPOINT_SECONDS=0.5")
    wait_until(lambda: list(tmp_path.glob("here/checkpoints/*.safetensors")), 120)
    for words in (["RUN=here"], ["RESUME=here"]):
        code, output = run(tmp_path, *QUICK, *words)
        assert code == 2, output
        assert "another run writes to here at this moment" in output


def limited(kind, soft, hard=None):
    return lambda: resource.setrlimit(kind, (soft, soft if hard is None else hard))


@pytest.mark.processes
def test_too_few_open_files_are_refused_with_what_is_needed(tmp_path):
    code, output = run(tmp_path, *QUICK, "AGENTS=100", preexec_fn=limited(resource.RLIMIT_NOFILE, 200))
    assert code == 2, output
    assert re.search(r"100 agents need about (\d+) open files, and the limit is 200: 'ulimit -n \1' raises it", output)
    assert not (tmp_path / "runs").exists()


@pytest.mark.processes
def test_a_soft_limit_on_open_files_is_raised(tmp_path):
    code, output = run(tmp_path, *QUICK, "MAX_STEPS=500", preexec_fn=limited(resource.RLIMIT_NOFILE, 16, 1024))
    assert code == 0, output


@pytest.mark.processes
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


# The limit on processes does not hold for root, so what has to meet it runs as nobody, who may still read everything.
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
AS_NOBODY += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
THROUGH = AS_NOBODY if os.geteuid() == 0 else []
needs_user = pytest.mark.skipif(
    bool(THROUGH) and lacks("setpriv"), reason="nothing here starts a process as another user than root"
)


@pytest.mark.processes
@needs_user
def test_too_few_processes_are_refused_with_what_is_needed(tmp_path):
    code, output = run(
        *(tmp_path, *QUICK, "AGENTS=100"), through=THROUGH, preexec_fn=limited(resource.RLIMIT_NPROC, 300)
    )
    assert code == 2, output
    told = r"100 agents need about \d+ processes and threads, and this user has \d+ of 300 in use: 'ulimit -u \d+'"
    assert re.search(told, output), output


@pytest.mark.long
@needs_user
def test_processes_that_run_out_later_end_the_run_with_the_limit(tmp_path):
    process = start(tmp_path, *QUICK, "RUN=here", through=THROUGH)
    wait_until(trains(tmp_path / "here"), 120)
    lower = f"import resource; resource.prlimit({process.pid}, resource.RLIMIT_NPROC, (1, 1))"
    subprocess.run([*THROUGH, sys.executable, "-c", lower], check=True)
    os.kill(children_of(process.pid)[-1], signal.SIGKILL)
    code, output = finish(process)
    assert code == 1, output
    reason = summary_of(tmp_path / "here")["exit_reason"]
    assert "The limit on processes and threads is reached. 2 agents need about" in reason
