"""Which agents say nothing although it is their turn: stopped, stuck in their environment, or cut off."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ga3c.messages.member import Member

START_PATIENCE = 10.0  # times STALL_SECONDS, until all environments were made
LOOK_MOST = 0.5  # seconds that count between two looks: the server itself may have been paused


@dataclass(slots=True)
class _Quiet:
    messages: tuple[int, int]  # heard of it and sent to it when it was last looked at
    since: float  # attended seconds when these changed, or it was not its turn


class SilenceWatch:
    """Looks at agents of so many halves again and again."""

    def __init__(self, stall_seconds: float, halves: int) -> None:
        self._stall_seconds = stall_seconds
        self._halves = halves
        self._looked = time.monotonic()
        self._attended = 0.0  # seconds in which the server was there to hear somebody
        self._quiet: dict[int, _Quiet] = {}

    def attend(self) -> None:
        """Let the time count since this was called last, even if there is no look at anybody."""
        now = time.monotonic()
        self._attended += min(now - self._looked, LOOK_MOST)
        self._looked = now

    def look(self, members: Mapping[int, Member]) -> dict[int, float]:
        """Those of these agents that have been silent for too long, and for how many seconds."""
        self.attend()
        for number in self._quiet.keys() - members.keys():
            del self._quiet[number]
        silent = {}
        for number, member in members.items():
            quiet = self._quiet.get(number)
            messages = (member.heard, member.replies)
            its_turn = member.waiting < self._halves
            if quiet is None:
                self._quiet[number] = _Quiet(messages, self._attended)
                continue
            if its_turn and messages == quiet.messages:
                seconds = self._attended - quiet.since
                starting = member.requests < self._halves
                if seconds > self._stall_seconds * (START_PATIENCE if starting else 1.0):
                    silent[number] = seconds
            else:
                quiet.messages, quiet.since = messages, self._attended
        return silent
