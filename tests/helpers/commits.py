"""The code of another commit beside the one here, both run by the same interpreter."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.helpers.sources import ROOT


def code_of(commit, directory):
    """The packages of a commit, put into a new directory; of no commit what stands here, changed or not."""
    if not commit:
        return ROOT
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    return Path(directory)


def start_code(code, *words, **options):
    """Start the command line of that code, and of no other that is installed."""
    return subprocess.Popen(
        [sys.executable, "-m", "ga3c", *map(str, words)],
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def finish_code(process, seconds):
    """Wait for its end; what it printed is told if that is not a good one."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode:
        raise RuntimeError(f"{' '.join(process.args[1:])} ended with {process.returncode}:\n{output}")
