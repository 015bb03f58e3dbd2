"""Deaths of agent processes: how long to wait before a replacement, and when replacing does not help any more."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import NamedTuple

DEATHS_TOLERATED = 10  # of one kind, or two of each agent if that is more: all may be killed at once
DEATHS_WINDOW = 60.0  # seconds in which more deaths than that are too many
STEPS_PER_DEATH = 100  # played between two deaths, on average: a game that gets so far is worth another agent
BLOW_SECONDS = 1.0  # deaths this close together are one blow, which replacements are not a part of
BACKOFF_SECONDS = 0.25  # before the replacements after a blow; doubles with each further one in the next seconds
BACKOFF_MOST = 4.0
BACKOFF_WINDOW = 10.0


class Death(NamedTuple):
    time: float
    steps: int  # that all agents had played by then


class Deaths:
    """Those of late, by their kind."""

    def __init__(self) -> None:
        self._recent: defaultdict[str, deque[Death]] = defaultdict(deque)
        self._blows: deque[Death] = deque()

    def add(self, kind: str, now: float, *, started: float, steps: int = 0, window: float = DEATHS_WINDOW) -> bool:
        """Note the death of a process that was started then; returns whether it is a blow of its own."""
        death = Death(now, steps)
        self._recent[kind].append(death)
        _forget(self._recent[kind], now - window)
        blow = not self._blows or now - self._blows[-1].time > BLOW_SECONDS or started > self._blows[-1].time
        if blow:
            self._blows.append(death)
        _forget(self._blows, now - BACKOFF_WINDOW)
        return blow

    def count(self, kind: str) -> int:
        return len(self._recent[kind])

    def too_many(self, kind: str, agents: int) -> bool:
        """Whether there are more than are tolerated, and too little was played since the first of them."""
        return self.count(kind) > max(DEATHS_TOLERATED, 2 * agents) and _unpaid(self._recent[kind]) > 0

    @property
    def backoff(self) -> float:
        """Seconds to wait before a replacement; what is played between blows makes up for them."""
        return float(min(BACKOFF_SECONDS * 2 ** max(_unpaid(self._blows), 0), BACKOFF_MOST))

    def clear(self) -> None:
        self._recent.clear()


def _unpaid(deaths: deque[Death]) -> int:
    """How many deaths since the first of these the steps played since then do not make up for."""
    return len(deaths) - 1 - (deaths[-1].steps - deaths[0].steps) // STEPS_PER_DEATH


def _forget(deaths: deque[Death], before: float) -> None:
    while deaths and deaths[0].time < before:
        deaths.popleft()
