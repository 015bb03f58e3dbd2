"""Which agents say nothing although it is their turn: stopped, stuck in their environment, or cut off."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ga3c.messages.member import Member

START_PATIENCE = 10.0  # times STALL_SECONDS, until all environments were made
LOOK_MOST = 0.5  # seconds that count between two looks: the server itself may have been paused


@dataclass
class _Quiet:
    messages: tuple[int, int] = (0, 0)  # heard of it and sent to it when it was last looked at
    seconds: float = 0.0  # attended seconds since these changed while it was its turn


class SilenceWatch:
    """Looks at agents of so many halves again and again."""

    def __init__(self, stall_seconds: float, halves: int) -> None:
        self._stall_seconds = stall_seconds
        self._halves = halves
        self._looked = time.monotonic()
        self._quiet: dict[int, _Quiet] = {}

    def look(self, members: Mapping[int, Member]) -> dict[int, float]:
        """Those of these agents that have been silent for too long, and for how many seconds."""
        now = time.monotonic()
        passed = min(now - self._looked, LOOK_MOST)
        self._looked = now
        self._quiet = {number: self._quiet.get(number, _Quiet()) for number in members}
        silent = {}
        for number, member in members.items():
            quiet = self._quiet[number]
            messages = (member.heard, member.replies)
            its_turn = member.waiting < self._halves
            quiet.seconds = quiet.seconds + passed if its_turn and messages == quiet.messages else 0.0
            quiet.messages = messages
            starting = member.requests < self._halves
            if quiet.seconds > self._stall_seconds * (START_PATIENCE if starting else 1.0):
                silent[number] = quiet.seconds
        return silent
