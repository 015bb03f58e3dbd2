"""Memories: where steps are until they are learnt. A queue is a memory whose steps leave when they are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Protocol

from ga3c.memory.experience import Experience
from ga3c.memory.queue import Queue
from ga3c.memory.replay import Learner, ReplayMemory
from ga3c.memory.stats import Stats
from ga3c.settings.config import Resolved


class Taker(Protocol):
    """One thread's view of a memory: a loop over what updates learn from, which ends when it is closed."""

    def __iter__(self) -> Iterator[Any]: ...
    def close(self) -> None: ...


class Memory(Protocol):
    """What an update learns from, a sample, is the memory's own business."""

    def attach(self, learner: Learner) -> None:
        """Before anything is taken: whose updates learn from it."""

    def add(self, experiences: list[Experience]) -> None: ...
    def forget(self, agent: int) -> None:
        """Nothing more comes of this agent."""

    def hold(self) -> bool:
        """Whether those who play have to wait; asked whenever they could go on."""

    def take(self) -> Any | None:
        """What the next update learns from, if there is enough, without waiting."""

    def consumer(self) -> Taker:
        """The same for a thread, which waits."""

    def fresh(self, sample: Any, updates: int) -> Any:
        """What of it is not too old to be learnt from after so many updates."""

    def batch(self, sample: Any, make: Callable[[list[Experience]], Any]) -> Any:
        """The sample as one batch on the learner's device, where ``make`` makes one of experiences."""

    def learned(self, sample: Any, version: int) -> None:
        """An update of this version has learnt from it."""

    def dropped(self, sample: Any, why: Literal["stale_steps", "lost_steps"]) -> None:
        """No update will learn from it."""

    @property
    def full(self) -> bool:
        """Those who play have to wait now."""

    def __len__(self) -> int:
        """Experiences that wait in it."""

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
        self._oldest = config.oldest

    def attach(self, learner: Learner) -> None:
        """Experiences are learnt from by whoever takes them."""

    def add(self, experiences: Iterable[Experience]) -> None:
        self.put(experiences)

    def forget(self, agent: int) -> None:
        """What it sent is learnt from all the same."""

    def hold(self) -> bool:
        return self.full

    def fresh(self, experiences: list[Experience], updates: int) -> list[Experience]:
        oldest = updates - self._oldest
        if not self._oldest or all(experience.version >= oldest for experience in experiences):
            return experiences
        self.dropped([some for some in experiences if some.version < oldest], "stale_steps")
        return [some for some in experiences if some.version >= oldest]

    def batch(self, experiences: list[Experience], make: Callable[[list[Experience]], Any]) -> Any:
        return make(experiences)

    def learned(self, experiences: list[Experience], version: int) -> None:
        self._stats.add_lags([version - experience.version for experience in experiences])
        self._stats.add(stored_steps=sum(experience.steps for experience in experiences))
        self._stats.ledger.settle(experiences)

    def dropped(self, experiences: list[Experience], why: Literal["stale_steps", "lost_steps"]) -> None:
        self._stats.ledger.settle(experiences)
        self._stats.add(**{why: sum(experience.steps for experience in experiences)})

    def state(self) -> list[Experience]:
        return self.waiting

    def give_up(self) -> None:
        self.dropped(self.drain(), "lost_steps")


MEMORIES: dict[str, Callable[..., Memory]] = {"queue": TrainingQueue, "replay": ReplayMemory}  # as recipes name them


def make_memory(
    config: Resolved, stats: Stats, *, bound: int = 0, on_room: Callable[[], None] = lambda: None
) -> Memory:
    """The memory of the recipe; ``on_room`` is called when it was full and is not any more."""
    return MEMORIES[config.recipe.memory](config, stats, bound=bound, on_room=on_room)
