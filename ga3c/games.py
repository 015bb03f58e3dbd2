"""The one small interface of K environments that play in step, and what all of them have in common.

They reset on the step *after* an episode's end; that step is no data, and ``Played.real`` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium.vector import VectorEnv

from ga3c.stagger import Cuts

FRAME = 84  # pixels of a side
STACK = 4  # frames of an observation


@dataclass(frozen=True)
class EnvSpec:
    """What the networks and the wire have to know of an environment. Observations are ``(stack, *frame)``."""

    frame: tuple[int, ...]
    stack: int
    dtype: str
    actions: int

    @property
    def is_image(self) -> bool:
        return len(self.frame) == 2

    @cached_property
    def frame_bytes(self) -> int:
        return math.prod(self.frame) * np.dtype(self.dtype).itemsize

    @property
    def observation(self) -> tuple[int, ...]:
        return (self.stack, *self.frame)


@dataclass(frozen=True)
class Finished:
    """A whole game that ended: its unclipped score and its steps."""

    score: float
    steps: int


class Played(NamedTuple):
    """What one step of K environments gave."""

    observations: np.ndarray  # (K, stack, *frame)
    rewards: np.ndarray  # (K,) float32, unclipped
    terminated: np.ndarray  # (K,) bool: nothing follows, so the bootstrap is 0
    truncated: np.ndarray  # (K,) bool: cut short, so the bootstrap is V of this very observation
    real: np.ndarray  # (K,) bool: False where the step only reset the environment
    finished: tuple[Finished, ...]


class Playable(Protocol):
    """K environments that are stepped together, once they have begun."""

    spec: EnvSpec
    count: int

    def step(self, actions: np.ndarray) -> Played: ...
    def close(self) -> None: ...


class Games(Playable, Protocol):
    """K environments that begin together."""

    def reset(self, seed: int, stagger: int = 0) -> np.ndarray:
        """Begin; with ``stagger``, each environment has one game cut within so many steps, when is left to chance."""


class Scores:
    """Adds up the unclipped rewards of whole games."""

    def __init__(self, count: int) -> None:
        self._score = [0.0] * count
        self._steps = [0] * count

    def add(self, rewards: np.ndarray, real: np.ndarray, over: np.ndarray) -> tuple[Finished, ...]:
        for game, (reward, counts) in enumerate(zip(rewards.tolist(), real.tolist(), strict=True)):
            if counts:
                self._score[game] += reward
                self._steps[game] += 1
        return tuple(self._finish(game) for game, ended in enumerate(over.tolist()) if ended)

    def drop(self, games: np.ndarray) -> None:
        """These games are cut, so they have no score."""
        for game in np.flatnonzero(games).tolist():
            self._finish(game)

    def _finish(self, game: int) -> Finished:
        finished = Finished(self._score[game], self._steps[game])
        self._score[game], self._steps[game] = 0.0, 0
        return finished


class VectorGames:
    """What K environments on a Gymnasium vector environment with next-step resets have in common."""

    _vector: VectorEnv[Any, Any, Any]

    def __init__(self, count: int) -> None:
        self.count = count
        self._begin(seed=0, stagger=0)

    def _begin(self, seed: int, stagger: int) -> None:
        self._scores = Scores(self.count)
        self._over = np.zeros(self.count, dtype=bool)  # the next step only resets
        self._cuts = Cuts(self.count, seed, stagger) if stagger else None

    def _begin_cut(
        self, observations: Any, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """What a step gave, with new games where the step before cut the old ones.

        The vector environment knows nothing of that and has played them on, which must not be seen.
        """
        if self._cuts is None or not self._cuts.made.any():
            return observations, rewards, terminated, truncated
        cut = self._cuts.made
        observations, _ = self._vector.reset(options={"reset_mask": cut})
        return observations, np.where(cut, 0.0, rewards), terminated & ~cut, truncated & ~cut

    def _played(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        over: np.ndarray,
    ) -> Played:
        real, self._over = ~self._over, over
        played = Played(
            observations=observations,
            rewards=rewards.astype(np.float32),
            terminated=terminated,
            truncated=truncated & ~terminated,
            real=real,
            finished=self._scores.add(rewards, real, over),
        )
        return played if self._cuts is None else self._cut(played, self._cuts)

    def _cut(self, played: Played, cuts: Cuts) -> Played:
        truncated = played.truncated
        cuts.step(under_way=played.real & ~played.terminated & ~truncated)
        self._scores.drop(cuts.made)
        self._over |= cuts.made
        if cuts.over:
            self._cuts = None
        return played._replace(truncated=truncated | cuts.made)

    def close(self) -> None:
        self._vector.close()
