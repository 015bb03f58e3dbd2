"""The code of another commit beside the one here, both run by the same interpreter."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.helpers.sources import PACKAGES, ROOT


def code_of(commit, directory):
    """The packages of a commit in a new directory; of no commit those that stand here, changed or not."""
    directory = Path(directory)
    if commit:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(directory, filter="data")
    else:  # a copy, so that they can be worked on meanwhile
        for package in PACKAGES:
            shutil.copytree(
                ROOT / package, directory / package, ignore=shutil.ignore_patterns("results", "__pycache__")
            )
    return directory


class Running(subprocess.Popen):
    """The command line of that code, and of no other that is installed; what it prints is kept."""

    def __init__(self, code, *words, **options):
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 (a pipe would fill, and hold it up)
        super().__init__(
            [sys.executable, "-m", "ga3c", *words],
            cwd=code,
            env={**os.environ, "PYTHONPATH": str(code)},
            stdout=self._output,
            stderr=subprocess.STDOUT,
            **options,
        )

    def finish(self, seconds):
        """Wait for a good end."""
        if self.wait(seconds):
            raise RuntimeError(f"{self} ended with {self.returncode}:\n{self.printed}")

    @property
    def printed(self):
        self._output.seek(0)
        return self._output.read()

    def __str__(self):
        return " ".join(self.args[2:])
