"""Which tests need processes of their own is known, so that those which do not can be run by themselves."""

import contextlib
import multiprocessing.process
import subprocess
import sys

import pytest

from tests.helpers.prepared import Forked

SENTENCE = "this test starts a process: mark it @pytest.mark.processes"


@contextlib.contextmanager
def no_processes():
    """Whoever starts a Python process meanwhile fails the test."""
    begin = subprocess.Popen.__init__

    def refuse(*_, **__):
        pytest.fail(SENTENCE)

    def refuse_python(self, command, *more, **named):
        if not isinstance(command, str) and sys.executable in map(str, command):
            pytest.fail(SENTENCE)
        begin(self, command, *more, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(multiprocessing.process.BaseProcess, "start", refuse)
        patched.setattr(subprocess.Popen, "__init__", refuse_python)
        patched.setattr(Forked, "__init__", refuse)
        yield
