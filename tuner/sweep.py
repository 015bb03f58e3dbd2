"""A strategy that maps the landscape: a coarse grid of the space in turn, pass after pass, each in another order."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tuner.space import Setting
from tuner.strategy import Decision, Measurement, Plan


class Sweep:
    def __init__(self, plan: Plan) -> None:
        self._random = np.random.default_rng(plan.seed)
        self._grid = [Setting(*numbers) for numbers in product(*(_doublings(most) for most in plan.space.most))]
        self._left: list[Setting] = []
        self._measured: dict[Setting, list[float]] = {}
        self._incumbent = plan.start
        self._passes = 0

    def propose(self) -> Setting:
        if not self._left:
            self._left = [self._grid[index] for index in self._random.permutation(len(self._grid))]
            self._passes += 1
        return self._left.pop()

    def observe(self, measurement: Measurement) -> Decision:
        if measurement.problem:
            return Decision("failed", self._incumbent, measurement.problem)
        tps = measurement.mean_tps
        self._measured.setdefault(measurement.setting, []).append(tps)
        best = max(self._measured, key=lambda setting: float(np.mean(self._measured[setting])))
        verdict = "accepted" if best == measurement.setting else "returned"
        if best == self._incumbent:
            verdict = "refused"
        self._incumbent = best
        left = f"{len(self._left)} left of pass {self._passes}"
        return Decision(verdict, best, f"{tps:.2f} TPS; {best} is the best mean so far; {left}")

    def random_state(self) -> Any:
        return self._random.bit_generator.state["state"]


def _doublings(most: int) -> list[int]:
    """1, 2, 4 … and, unless it is close to the last of them, the most."""
    numbers = [2**power for power in range(most.bit_length())]
    return numbers if most < 1.5 * numbers[-1] else [*numbers, most]
