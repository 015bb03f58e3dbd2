"""What is known of a landscape: a Gaussian belief over log TPS of every setting, which each window narrows.

Means of single settings fail as soon as windows are noisy; here what was measured tells about neighbours too. The
belief before the first window comes from simulated machines with these cores, whose costs are drawn around the usual:
their mean says what is likely, their covariance which settings rise and fall together. Added to it are how far a real
landscape may be from all of them, an unknown speed of the machine, and a drift over time that all settings share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tuner.machines import usual_machine
from tuner.simulator import simulate
from tuner.space import Setting, Space
from tuner.strategy import System

Array = NDArray[np.float64]

WINDOWS_KEPT = 150
MACHINES = 16  # simulated for the prior
ROUNDS = 800
CORES_LEFT = (1.0, 1.0, 0.75, 0.5)  # shares of the cores: another program may have the others

SPEED = 3.0  # the deviations below are of log TPS
ALONE, TOGETHER = 0.3, 0.3  # of a landscape from the simulated ones
DRIFT, DRIFT_WINDOWS = 0.06, 40.0
AGENT_DOUBLINGS, THREAD_DOUBLINGS = 1.2, 1.0  # how far apart settings are that tell little about each other


@dataclass(frozen=True)
class Prior:
    """Mean and covariance of log TPS over the settings of a space, before anything is measured."""

    settings: tuple[Setting, ...]
    mean: Array
    covariance: Array


@dataclass(frozen=True)
class Window:
    index: int  # of the setting
    time: float  # in windows
    value: float  # log TPS
    noise: float  # its deviation


@lru_cache(maxsize=64)
def make_prior(space: Space, system: System, agents: tuple[int, ...]) -> Prior:
    """Over the settings of a space that are worth telling apart, and those with these numbers of agents."""
    settings = space.settings(*agents)
    shapes = _simulated_shapes(space, system, settings)
    mean = shapes.mean(axis=0)
    apart = shapes - mean
    covariance = apart.T @ apart / (len(shapes) - 1) + _apart(settings) + SPEED**2
    return Prior(tuple(settings), mean, covariance)


def _simulated_shapes(space: Space, system: System, settings: list[Setting]) -> Array:
    """Log TPS of each simulated machine (rows) at each setting, less its own mean."""
    random = np.random.default_rng(0)
    coarse = _coarse(space)
    agents = np.log([setting.agents for setting in settings])
    steps = np.log(coarse)
    threads = [(p, t) for p in range(1, space.predictors + 1) for t in range(1, space.trainers + 1)]
    grid = [Setting(number, p, t) for p, t in threads for number in coarse]
    column = {pair: index for index, pair in enumerate(threads)}
    pairs = np.array([column[setting.predictors, setting.trainers] for setting in settings])
    machines = [
        usual_machine(random, max(1.0, system.cores * CORES_LEFT[index % len(CORES_LEFT)]), system.gpu)
        for index in range(MACHINES)
    ]
    tps = np.log(simulate(machines, system, grid, rounds=ROUNDS).tps).reshape(MACHINES, len(threads), len(coarse))
    shapes = np.empty((MACHINES, len(settings)))
    for machine, pair in np.ndindex(MACHINES, len(threads)):
        shapes[machine, pairs == pair] = np.interp(agents[pairs == pair], steps, tps[machine, pair])
    shapes -= shapes.mean(axis=1, keepdims=True)
    return shapes


def _coarse(space: Space) -> list[int]:
    """Numbers of agents a factor of about 1.6 apart."""
    steps, number = [], 1.0
    while number < space.agents:
        steps.append(round(number))
        number *= 1.6
    return sorted({*steps, space.agents})


def _apart(settings: list[Setting]) -> Array:
    """Covariance of how a landscape may differ from the simulated ones: in each number for itself, and together."""
    numbers = np.log2(np.array(settings, dtype=float))
    numbers /= np.array([AGENT_DOUBLINGS, THREAD_DOUBLINGS, THREAD_DOUBLINGS])
    squares = (numbers[:, None, :] - numbers[None, :, :]) ** 2
    covariance: Array = ALONE**2 * np.exp(-0.5 * squares).sum(axis=-1)
    covariance += TOGETHER**2 * np.exp(-0.5 * squares.sum(axis=-1))
    return covariance


class Surrogate:
    """The belief, and the windows that it rests on."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.index = {setting: index for index, setting in enumerate(prior.settings)}
        self.forget()

    def forget(self) -> None:
        """Begin again from the prior: the machine has changed."""
        self.windows: list[Window] = []
        self._refresh()

    def add(self, window: Window) -> None:
        self.windows = [*self.windows, window][-WINDOWS_KEPT:]
        self._refresh()

    def set_noise(self, noise: float) -> None:
        """One deviation for all windows: it is known better than that of each."""
        self.windows = [Window(window.index, window.time, window.value, noise) for window in self.windows]
        self._refresh()

    def expect(self, index: int, time: float) -> tuple[float, float]:
        """Mean and deviation of log TPS at a setting and a time, without the noise of its window."""
        prior = self.prior
        with_windows = prior.covariance[index, self._indices] + drift_covariance(time, self._times)
        weights = np.linalg.solve(self._between, with_windows)
        mean = prior.mean[index] + weights @ (self._values - prior.mean[self._indices])
        variance = prior.covariance[index, index] + DRIFT**2 - weights @ with_windows
        return float(mean), float(np.sqrt(max(variance, 0.0)))

    def mean(self) -> Array:
        """Log TPS of every setting at the time of the last window."""
        time = self._times[-1] if self.windows else 0.0
        with_windows = self.prior.covariance[:, self._indices] + drift_covariance(time, self._times)
        weights = np.linalg.solve(self._between, self._values - self.prior.mean[self._indices])
        mean: Array = self.prior.mean + with_windows @ weights
        return mean

    def gain_over(self, one: int) -> tuple[Array, Array]:
        """Mean and deviation of log TPS of every setting over this one's, at the same time."""
        covariance = self.prior.covariance
        # Covariances of differences to that one: what all settings share, speed and drift, falls out of them.
        to_windows = covariance[:, self._indices] - covariance[one, self._indices]
        solved = np.linalg.solve(self._between, to_windows.T)
        prior_mean = self.prior.mean
        mean = prior_mean - prior_mean[one] + solved.T @ (self._values - prior_mean[self._indices])
        before = np.diag(covariance) + covariance[one, one] - 2 * covariance[:, one]
        variance = before - np.einsum("sw,ws->s", to_windows, solved)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _refresh(self) -> None:
        self._indices = np.array([window.index for window in self.windows], dtype=np.int64)
        self._times = np.array([window.time for window in self.windows])
        self._values = np.array([window.value for window in self.windows])
        noises = np.array([window.noise for window in self.windows])
        self._between = (
            self.prior.covariance[np.ix_(self._indices, self._indices)]
            + drift_covariance(self._times[:, None], self._times[None, :])
            + np.diag(noises**2)
        )


def drift_covariance(one: Array | float, other: Array) -> Array:
    covariance: Array = DRIFT**2 * np.exp(-np.abs(one - other) / DRIFT_WINDOWS)
    return covariance
