"""The replay memory as the server sees it: what agents play goes in, and updates follow from steps.

Between steps or, with CONCURRENT=1, while TARGET_PERIOD steps are played: then the memory does not change until these
steps and the updates that belong to them are done, and both begin anew together, with the newest version as target.
Both meet in ``hold``, which is asked whenever somebody could play on. So what is drawn never depends on who was faster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ga3c.games.spec import EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.stats import Stats
from ga3c.settings.config import Resolved

if TYPE_CHECKING:
    import torch

    from ga3c.memory.drawn import Batch
    from ga3c.memory.ring import Replay


class Learner(Protocol):
    """Whose updates learn from a memory: a model, as far as a memory knows it."""

    acts_by_target: bool

    @property
    def spec(self) -> EnvSpec: ...
    @property
    def device(self) -> torch.device: ...
    def renew_target(self) -> None: ...


class ReplayMemory:
    """Steps are kept and drawn by chance, as often as the settings say: BATCH of them for each TRAIN_PERIOD steps."""

    def __init__(
        self, config: Resolved, stats: Stats, *, bound: int = 0, on_room: Callable[[], None] = lambda: None
    ) -> None:
        self._config = config
        self._stats = stats
        self._on_room = on_room
        self._changed = threading.Condition()
        self._closed = False
        self._ring: Replay | None = None
        self._learner: Learner | None = None
        self._arrived: list[Experience] = []  # that no update can draw yet
        self._left: set[int] = set()  # agents that nothing more comes of
        self._steps = 0  # of these
        self._stored = 0  # steps that were stored the last time
        self._credit = 0.0  # updates that follow from what was stored, and were not granted
        self._granted = self._taken = self._made = 0  # updates
        self._since_target = 0  # steps stored since the target was renewed
        stats.ledger.eager = True  # nothing is missing of a step that was played
        stats.set(memory_full=0.0, replay_ratio_asked=config.batch / config.train_period)

    def attach(self, learner: Learner) -> None:
        """Keep the steps near this model, whose target is renewed at the right moments."""
        import torch

        from ga3c.memory.replay_size import pick_replay_device
        from ga3c.memory.ring import Replay

        config, spec = self._config, learner.spec
        device = pick_replay_device(config.replay_device, spec, config.replay_steps, learner.device)
        self._ring = Replay(
            spec, config.replay_steps, n_step=config.n_step, discount=config.discount, device=device, to=learner.device
        )
        self._random = torch.Generator(device).manual_seed(config.seed)
        self._learner = learner
        learner.acts_by_target = config.concurrent
        learner.renew_target()

    def add(self, experiences: list[Experience]) -> None:
        with self._changed:
            self._arrived += experiences
            self._steps += sum(experience.steps for experience in experiences)

    def forget(self, agent: int) -> None:
        """What it has under way will never be complete."""
        with self._changed:
            self._left.add(agent)

    def hold(self) -> bool:
        """Whether those who play have to wait; asked whenever they could go on, which is when a window may end."""
        with self._changed:
            if self._trains and self._config.concurrent and self._steps < self._config.target_period:
                return False
            if self._made < self._granted:
                return True
            self._store()
            self._grant()
            return not self._config.concurrent and self._made < self._granted

    def take(self) -> Batch | None:
        with self._changed:
            if self._closed or self._taken == self._granted:
                return None
            self._taken += 1
        return self._draw()

    def consumer(self) -> ReplayConsumer:
        return ReplayConsumer(self)

    def fresh(self, sample: Batch, updates: int) -> Batch:
        """Old steps are what a replay memory is for."""
        return sample

    def batch(self, sample: Batch, make: Callable[[list[Experience]], Any]) -> Batch:
        """It was gathered on the device."""
        return sample

    def learned(self, sample: Batch, version: int) -> None:
        self._stats.set(memory_full=len(self._drawable) / self._config.replay_steps)
        self._finish()

    def dropped(self, sample: Batch, why: Literal["stale_steps", "lost_steps"]) -> None:
        """Its steps are still there."""
        self._finish()

    @property
    def full(self) -> bool:
        with self._changed:
            behind = self._made < self._granted
            return behind and (not self._config.concurrent or self._steps >= self._config.target_period)

    def __len__(self) -> int:
        return len(self._arrived)

    def state(self) -> list[Experience]:
        """What is stored is not kept; what is under way is, since it did not end."""
        with self._changed:
            return list(self._arrived)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def give_up(self) -> None:
        """What came in a window that was cut is thrown away."""
        with self._changed:
            self._stats.ledger.settle(self._arrived)
            self._stats.add(lost_steps=self._steps)
            self._arrived, self._steps = [], 0

    @property
    def _drawable(self) -> Replay:
        assert self._ring is not None
        return self._ring

    @property
    def _trains(self) -> bool:
        """Enough was stored, be it still there or not."""
        return self._drawable.inserted >= self._config.replay_start

    def _store(self) -> None:
        """Let what arrived be drawn, in an order that does not depend on who was faster."""
        ring, arrived = self._drawable, self._arrived
        arrived.sort(key=lambda experience: (experience.agent, experience.env, experience.first_step))
        for experience in arrived:
            ring.add(
                (experience.agent, experience.env),
                experience.frames,
                experience.fields["actions"],
                experience.fields["rewards"],
                terminated=experience.terminated,
                truncated=experience.truncated,
            )
        for agent in sorted(self._left):
            for env in range(self._config.envs_per_agent):
                ring.forget((agent, env))
        self._left.clear()
        ring.flush()
        self._stats.ledger.settle(arrived)
        self._stats.add(stored_steps=self._steps)
        self._since_target += self._steps
        self._stored, self._arrived, self._steps = self._steps, [], 0

    def _grant(self) -> None:
        """Updates follow from what was stored: now, or while as many steps are played again."""
        config = self._config
        assert self._learner is not None
        if not self._trains:
            self._since_target = 0
            return
        self._credit += self._stored / config.train_period
        if config.concurrent or self._since_target >= config.target_period:
            self._since_target = 0
            self._learner.renew_target()
        updates = int(self._credit)
        self._credit -= updates
        self._granted += updates
        if updates:
            self._changed.notify_all()

    def _draw(self) -> Batch:
        return self._drawable.sample(self._config.batch, self._random)

    def _finish(self) -> None:
        with self._changed:
            self._made += 1
            done = self._made == self._granted
        if done:
            self._on_room()

    def _wait(self, consumer: ReplayConsumer) -> Batch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or consumer.closed or self._taken < self._granted)
            if self._closed or consumer.closed:
                return None
            self._taken += 1
        return self._draw()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class ReplayConsumer:
    """One trainer's view of the memory: its loop ends when the memory closes or this consumer does."""

    def __init__(self, memory: ReplayMemory) -> None:
        self._memory = memory
        self.closed = False

    def __iter__(self) -> Iterator[Batch]:
        while (batch := self._memory._wait(self)) is not None:
            yield batch

    def close(self) -> None:
        self.closed = True
        self._memory._wake()
