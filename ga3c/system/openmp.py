"""How torch's threads wait for each other, for processes that are ours alone: it is read once, when torch is loaded."""

from __future__ import annotations

import os

SPINS = 1000  # about a microsecond, in GNU's OpenMP, which torch is built with on Linux


def wait_patiently() -> None:
    """Let threads that wait spin a little, and sleep then.

    A thread that spins where players or other programs need a core takes it from the one that it waits for: an update
    by two threads took ten times as long. One that sleeps at once is woken late: two threads were no quicker than one.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
