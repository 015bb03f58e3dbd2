"""Tests beside each other in several processes, of one call of pytest or more, and some with the machine to themselves.

Those are marked ``alone``, because they measure times or look at what all processes share, or ``long``.
"""

import contextlib
import fcntl
import os
from pathlib import Path

HERE = Path(__file__).parent.parent


@contextlib.contextmanager
def _held(path, kind):
    """A lock on a file or folder that is there anyway: the system takes it back from a process that dies."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        # Also of copies of it in processes that were forked meanwhile, for which closing it would wait.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@contextlib.contextmanager
def turn(alone):
    """Beside others that are not alone, or when they have ended."""
    with contextlib.ExitStack() as stack:
        # Whoever waits to be alone holds the door, or others would come and go for as long as there are some.
        with _held(HERE / "conftest.py", fcntl.LOCK_EX):
            stack.enter_context(_held(HERE, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        yield
