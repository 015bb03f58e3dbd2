"""Runs of the command line in tests: as a process of their own, as a user starts them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.helpers.prepared import Forked

ROOT = Path(__file__).parent.parent.parent
STARTED = []
QUICK = [
    "GAME=CartPole-v1",
    "AGENTS=2",
    "ENVS_PER_AGENT=2",
    "MIN_BATCH=10",
    "HIDDEN=16",
    "LOG_SECONDS=0.5",
    "TENSORBOARD=0",
]


def start(cwd, *words, patch="", through=(), output=subprocess.PIPE, afresh=False, **options):
    """Start a run; ``patch`` is Python that is done before, and ``through`` the command that starts it.

    It begins with everything imported, unless it is to start ``afresh``, as users' runs do: where the start itself is
    looked at, or what a process has loaded.
    """
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{cwd}"}
    program = ["-m", "ga3c"]
    if patch:
        (Path(cwd) / "patched.py").write_text(
            f"{patch}\nimport sys\nfrom ga3c.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
        )
        program = ["patched.py"]
    if not (afresh or through or options):
        process = Forked(words, cwd=cwd, env=environment, file="patched.py" if patch else "", stdout=output)
        STARTED.append(process)
        return process
    process = subprocess.Popen(
        [*through, sys.executable, *program, *words],
        cwd=cwd,
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )
    STARTED.append(process)
    return process


def end_all():
    """End what a test that failed has left running: it would take the cores from all tests that follow."""
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def finish(process, seconds=120):
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, output


def run(cwd, *words, seconds=120, **options):
    return finish(start(cwd, *words, **options), seconds)


def summary_of(path):
    return json.loads((path / "summary.json").read_text())


def trains(path):
    """Whether the run has made an update; for ``wait_until``."""
    return lambda: any(row["updates"] for row in rows_of(path))


def children_of(pid):
    """The processes that a server has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return found


def all_gone(pids):
    """Whether all of these processes have ended, taken note of or not; for ``wait_until``."""

    def ended(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    return lambda: all(map(ended, pids))


def rows_of(path):
    """The rows of the log, without one that is just being written."""
    metrics = path / "metrics.jsonl"
    return [json.loads(line) for line in metrics.read_text().split("\n")[:-1]] if metrics.exists() else []
