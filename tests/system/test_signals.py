"""Signals, however soon one comes after the other."""

import signal
import subprocess
import sys

import pytest

from tests.helpers.command_line import ROOT

NESTED = """
import os, signal, threading
from ga3c.system.signals import stop_requests

with stop_requests() as interrupted:
    class Lock(type(interrupted._cond)):
        def __enter__(self):
            entered = super().__enter__()
            os.kill(os.getpid(), signal.SIGTERM)  # while the first one is being told
            return entered
    interrupted._cond = Lock(threading.Lock())
    os.kill(os.getpid(), signal.SIGINT)
    print(interrupted.is_set())
"""


@pytest.mark.processes
def test_a_signal_while_another_is_handled_waits_for_nothing():
    done = subprocess.run([sys.executable, "-c", NESTED], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr
    assert done.returncode not in (-signal.SIGTERM, -signal.SIGINT)
