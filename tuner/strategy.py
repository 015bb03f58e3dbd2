"""What a strategy is told and what it answers, and the two simplest ones.

A strategy is pure: the same plan and the same measurements bring the same proposals and the same decisions, so that a
recorded trace can be fed to it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, variance
from typing import Any, Protocol

import numpy as np

from tuner.space import Setting, Space


@dataclass(frozen=True)
class System:
    """What is known of a machine and a run before anything is measured."""

    cores: int
    gpu: bool = False
    envs_per_agent: int = 1
    t_max: int = 5
    min_batch: int = 1


@dataclass(frozen=True)
class Plan:
    """All that a strategy is made of; the first line of a trace."""

    strategy: str
    start: Setting
    space: Space
    system: System
    seed: int = 0
    window: float = 60.0  # seconds
    lag_limit: float = 0.0  # updates, mean over a window; 0: none


@dataclass(frozen=True)
class Measurement:
    """One window under one setting, after it had settled."""

    setting: Setting  # as it really was
    tps: tuple[float, ...]  # updates of at least MIN_BATCH per second, of each equal part of the window
    pps: float
    prediction_queue: float = 0.0  # requests, mean
    training_queue: tuple[float, ...] = (0.0,)  # experiences, mean of each part
    lag_mean: float = 0.0
    lag_max: float = 0.0
    stale: float = 0.0  # share of the steps that were thrown away as too old
    problem: str = ""  # why what was proposed could not be measured; nothing else counts then

    @property
    def mean_tps(self) -> float:
        return fmean(self.tps)

    @property
    def spread(self) -> float | None:
        """Variance of the mean, relative to it, from what the parts differ by; None where they do not tell."""
        mean = self.mean_tps
        if mean <= 0 or len(self.tps) < 2:
            return None
        return variance(part / mean for part in self.tps) / len(self.tps)


@dataclass(frozen=True)
class Decision:
    """What became of a trial, and why, in words for a reader."""

    verdict: str  # start, accepted, refused, kept (the incumbent, measured again), returned, reopened, failed
    incumbent: Setting  # from now on
    reason: str
    temperature: float = 0.0


class Strategy(Protocol):
    """``propose`` and ``observe`` take turns."""

    def propose(self) -> Setting: ...

    def observe(self, measurement: Measurement) -> Decision: ...

    def random_state(self) -> Any:
        """The state of the random numbers, as JSON can hold it: a trace has it in each row."""


@dataclass
class Off:
    """Measures, and changes nothing."""

    plan: Plan

    def propose(self) -> Setting:
        return self.plan.start

    def observe(self, measurement: Measurement) -> Decision:
        return Decision("kept", self.plan.start, measurement.problem or "the tuner is off")

    def random_state(self) -> Any:
        return None


@dataclass
class Paper:
    """The walk of the GA3C paper, section 4.3: one number up or down by one, kept if TPS rose above the incumbent's."""

    plan: Plan
    _random: np.random.Generator = field(init=False)
    _incumbent: Setting = field(init=False)
    _best: float | None = field(init=False, default=None)  # TPS of the incumbent, when it was measured

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.plan.seed)
        self._incumbent = self.plan.start

    def propose(self) -> Setting:
        if self._best is None:
            return self._incumbent
        while True:
            numbers = list(self._incumbent)
            numbers[self._random.integers(3)] += 1 if self._random.random() < 0.5 else -1
            if (setting := Setting(*numbers)) in self.plan.space:
                return setting

    def observe(self, measurement: Measurement) -> Decision:
        if measurement.problem:
            return Decision("failed", self._incumbent, measurement.problem)
        tps, best = measurement.mean_tps, self._best
        if best is None:
            self._best = tps
            return Decision("start", self._incumbent, f"{tps:.2f} TPS to compare with")
        if tps > best:
            self._incumbent, self._best = measurement.setting, tps
            return Decision("accepted", self._incumbent, f"{tps:.2f} TPS, above {best:.2f}")
        return Decision("refused", self._incumbent, f"{tps:.2f} TPS, not above {best:.2f} of {self._incumbent}")

    def random_state(self) -> Any:
        return self._random.bit_generator.state["state"]
