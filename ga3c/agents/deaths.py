"""Deaths of agent processes: how long to wait before a replacement, and when replacing does not help any more."""

from __future__ import annotations

from collections import defaultdict, deque
from multiprocessing.context import SpawnProcess

DEATHS_TOLERATED = 10  # of one kind, or two of each agent if that is more: all may be killed at once
DEATHS_WINDOW = 60.0  # seconds in which more deaths than that are too many
BLOW_SECONDS = 1.0  # deaths this close together are one blow, which replacements are not a part of
BACKOFF_SECONDS = 0.25  # before the replacements after a blow; doubles with each further one in the next seconds
BACKOFF_MOST = 4.0
BACKOFF_WINDOW = 10.0


class Deaths:
    """Those of late, by their kind."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)
        self._blows: deque[float] = deque()

    def add(self, kind: str, now: float, *, started: float, window: float = DEATHS_WINDOW) -> bool:
        """Note the death of a process that was started then; returns whether it is a blow of its own."""
        recent = self._times[kind]
        recent.append(now)
        _forget(recent, now - window)
        blow = not self._blows or now - self._blows[-1] > BLOW_SECONDS or started > self._blows[-1]
        if blow:
            self._blows.append(now)
        _forget(self._blows, now - BACKOFF_WINDOW)
        return blow

    def count(self, kind: str) -> int:
        return len(self._times[kind])

    def too_many(self, kind: str, agents: int) -> bool:
        return self.count(kind) > max(DEATHS_TOLERATED, 2 * agents)

    @property
    def backoff(self) -> float:
        """Seconds to wait before a replacement."""
        return float(min(BACKOFF_SECONDS * 2 ** (len(self._blows) - 1), BACKOFF_MOST))

    def clear(self) -> None:
        self._times.clear()


def how_it_ended(process: SpawnProcess) -> str:
    code = process.exitcode
    return f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"


def _forget(times: deque[float], before: float) -> None:
    while times and times[0] < before:
        times.popleft()
