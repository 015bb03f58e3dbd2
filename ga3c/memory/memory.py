"""Memories: where experiences wait to be learnt. A queue is a memory whose steps leave when they are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from ga3c.memory.experience import Experience
from ga3c.memory.queue import Consumer, Queue
from ga3c.memory.stats import Stats
from ga3c.settings.config import Resolved


class Memory(Protocol):
    def add(self, experiences: list[Experience]) -> None: ...
    def take(self) -> list[Experience] | None:
        """What the next update learns from, if there is enough, without waiting."""

    def consumer(self) -> Consumer[Experience]:
        """The same for a thread, which waits."""

    def learned(self, experiences: list[Experience]) -> None:
        """An update has learnt from these."""

    def dropped(self, experiences: list[Experience], why: Literal["stale_steps", "lost_steps"]) -> None:
        """No update will learn from these."""

    @property
    def full(self) -> bool:
        """Whoever fills it has to wait."""

    def __len__(self) -> int:
        """Experiences in it."""

    def state(self) -> list[Experience]:
        """What a checkpoint keeps, for ``add``."""

    def close(self) -> None:
        """End the loops of all who take."""

    def give_up(self) -> None:
        """Nobody takes any more: what is left is lost, and counted."""


class TrainingQueue(Queue[Experience]):
    """First in, first out: each step is learnt from once, or thrown away and counted."""

    def __init__(
        self, config: Resolved, stats: Stats, *, bound: int = 0, on_room: Callable[[], None] = lambda: None
    ) -> None:
        """Full from ``bound`` experiences on; 0: never."""
        super().__init__(lambda experience: experience.steps, least=config.min_batch, bound=bound, on_room=on_room)
        self._stats = stats

    def add(self, experiences: Iterable[Experience]) -> None:
        self.put(experiences)

    def learned(self, experiences: list[Experience]) -> None:
        self._stats.ledger.settle(experiences)

    def dropped(self, experiences: list[Experience], why: Literal["stale_steps", "lost_steps"]) -> None:
        self._stats.ledger.settle(experiences)
        self._stats.add(**{why: sum(experience.steps for experience in experiences)})

    def state(self) -> list[Experience]:
        return self.waiting

    def give_up(self) -> None:
        self.dropped(self.drain(), "lost_steps")


MEMORIES = {"queue": TrainingQueue}  # by their names in the recipes


def make_memory(
    config: Resolved, stats: Stats, *, bound: int = 0, on_room: Callable[[], None] = lambda: None
) -> Memory:
    """The memory of the recipe; ``on_room`` is called when it was full and is not any more."""
    return MEMORIES[config.recipe.memory](config, stats, bound=bound, on_room=on_room)
