"""The one small interface of K environments that play in step, and what all of them have in common.

They reset on the step *after* an episode's end; that step is no data, and ``Played.real`` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from ga3c.settings.groups import GameSettings

FRAME = 84  # pixels of a side
SMALL = 25  # pixels of a side, at most, of an image that is no picture but a board or a map: it is taken as it is
STACK = 4  # frames of an observation


@dataclass(frozen=True)
class Discrete:
    """An action is one of ``n``, by its number."""

    n: int


@dataclass(frozen=True)
class Box:
    """An action is an array of numbers between these bounds."""

    shape: tuple[int, ...]
    low: float
    high: float


@dataclass(frozen=True)
class EnvSpec:
    """What the networks and the wire have to know of an environment. Observations are ``(stack, *frame)``."""

    frame: tuple[int, ...]  # of an image (height, width), or (channels, height, width)
    stack: int
    dtype: str
    action: Discrete | Box
    remarks: tuple[str, ...] = field(default=(), compare=False)  # what a user has to know of how it is played

    @property
    def is_image(self) -> bool:
        return len(self.frame) > 1

    @property
    def is_small(self) -> bool:
        return self.is_image and max(self.frame[-2:]) <= SMALL

    @property
    def channels(self) -> int:
        """Of all frames of an image together."""
        return self.stack * math.prod(self.frame[:-2])

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


class Stage(Games, Protocol):
    """One environment that shows itself."""

    fps: float

    def pictures(self) -> list[np.ndarray]:
        """What there is to see since the last step: (height, width, 3) uint8 each."""


class Backend(Protocol):
    """Where environments come from: a module with these functions."""

    def plays(self, game: str) -> bool:
        """Whether a game of this name is its own."""

    def make(self, config: GameSettings, count: int) -> Games: ...
    def stage(self, config: GameSettings) -> Stage: ...
    def sticky_probability(self, config: GameSettings) -> float:
        """STICKY, also where nothing is said."""

    def usual_envs(self, agents: int) -> int:
        """Environments of each of so many agents, where nothing is said."""
