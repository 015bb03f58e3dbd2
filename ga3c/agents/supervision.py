"""Processes of agents, whoever they play for: started, replaced not too soon after they died, and ended."""

from __future__ import annotations

import multiprocessing.connection
import time
from dataclasses import dataclass

from ga3c.agents.deaths import DEATHS_WINDOW, Deaths
from ga3c.agents.places.place import Place, Running, Task


@dataclass
class AgentProcess:
    """One process, and what is known of it."""

    process: Running
    started: float
    plays: bool = False
    leaving_since: float | None = None
    quiet: float = 0.0  # seconds of silence that it was killed for
    found_dead: float | None = None  # when


class Supervision:
    """Processes by the numbers of their agents. For one thread: on Linux they die with the one that started them."""

    def __init__(self, place: Place) -> None:
        self.agents: dict[int, AgentProcess] = {}
        self.deaths = Deaths()
        self._place = place
        self._start_after = 0.0

    @property
    def may_start(self) -> bool:
        """Whether the pause after the last blow is over."""
        return time.monotonic() >= self._start_after

    def start(self, number: int, task: Task) -> None:
        """Raises OSError where the system refuses it."""
        self.agents[number] = AgentProcess(self._place.start(number, task), time.monotonic())

    def pause(self, seconds: float) -> None:
        """Start none for so long."""
        self._start_after = time.monotonic() + seconds

    def note_death(self, agent: AgentProcess, kind: str, steps: int, window: float = DEATHS_WINDOW) -> bool:
        """With the steps that all have played by now; returns whether it is a blow of its own."""
        blow = self.deaths.add(kind, time.monotonic(), started=agent.started, steps=steps, window=window)
        if blow:  # else the pause after it goes on: where many die one after the other, it would never end
            self.pause(self.deaths.backoff)
        return blow

    def wait(self, seconds: float) -> None:
        """Until one of them ends, or for so long."""
        multiprocessing.connection.wait([agent.process.sentinel for agent in self.agents.values()], timeout=seconds)

    def end(self) -> list[int]:
        """Kill all that are left; returns their numbers."""
        for agent in self.agents.values():
            agent.process.kill()
        for agent in self.agents.values():
            agent.process.join(1.0)
        left = list(self.agents)
        self.agents.clear()
        return left
