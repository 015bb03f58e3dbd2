"""How torch's threads wait for each other, for processes that are ours alone: it is read once, when torch is loaded."""

from __future__ import annotations

import os

# Of GNU's OpenMP, which torch is built with on Linux. Active, since else a process whose threads have several teams, as
# predictors and trainers do, hardly spins at all; and so many times, which is some microseconds.
HOW_TO_WAIT = {"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "1000"}


def wait_patiently() -> None:
    """Let threads that wait spin a little, and sleep then.

    A thread that spins for long where players or other programs need a core takes it from the one that it waits for: an
    update by two threads took ten times as long. One that sleeps at once is woken late: two were no quicker than one.
    """
    if not HOW_TO_WAIT.keys() & os.environ.keys():
        os.environ.update(HOW_TO_WAIT)
