"""How torch's threads wait for each other, for processes that are ours alone: it is read once, when torch is loaded."""

from __future__ import annotations

import os


def wait_patiently() -> None:
    """Let threads that wait sleep.

    They would spin, which is a little quicker where all cores are theirs. Where players or other programs need a core,
    a spinning thread takes it from the one that it waits for: an update by two threads then takes ten times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
