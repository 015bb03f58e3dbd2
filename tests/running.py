"""Runs of the command line in tests: as a process of their own, as a user starts them."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent


def start(cwd, *words, output=subprocess.PIPE, prefix=()):
    """``prefix`` is a command that starts ours, in a network of its own for example."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{cwd}"}
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "ga3c", *words],
        cwd=cwd,
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process, seconds=60):
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()  # or it would take the cores from all tests that follow
        raise
    return process.returncode, output


def run(cwd, *words, seconds=60):
    return finish(start(cwd, *words), seconds)


def children_of(pid):
    """The agent processes of a server, or of an agents command."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            if int(status.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(status.parent.name))
    return found


def rows_of(path):
    metrics = path / "metrics.jsonl"
    return [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
