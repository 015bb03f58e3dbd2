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
EPOCH_KEEPS = 0.7  # of the covariance with windows from before a change of the machine
AGENT_DOUBLINGS, THREAD_DOUBLINGS = 1.2, 1.0  # how far apart settings are that tell little about each other


@dataclass(frozen=True)
class Prior:
    """Mean and covariance of log TPS over the settings of a space, but for the machine's speed, before any window."""

    settings: tuple[Setting, ...]
    mean: Array
    covariance: Array


@dataclass(frozen=True)
class Window:
    index: int  # of the setting
    time: float  # in windows
    value: float  # log TPS
    epoch: int  # counts the changes of the machine


@lru_cache(maxsize=64)
def make_prior(space: Space, system: System, agents: tuple[int, ...]) -> Prior:
    """Over the settings of a space that are worth telling apart, and those with these numbers of agents."""
    settings = space.settings(*agents)
    shapes = _simulated_shapes(space, system, settings)
    mean = shapes.mean(axis=0)
    apart = shapes - mean
    covariance = apart.T @ apart / (len(shapes) - 1) + _apart(settings)
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
        self.windows: list[Window] = []
        self._epoch = 0
        self._refresh()

    def begin_epoch(self) -> None:
        """The machine has changed: what was measured before tells less from now on, and nothing about its speed."""
        self._epoch += 1
        self._refresh()

    def add(self, index: int, time: float, value: float) -> None:
        """A window of log TPS ``value`` under the setting with this index; times are in windows."""
        self.windows = [*self.windows, Window(index, time, value, self._epoch)][-WINDOWS_KEPT:]
        self._refresh()

    def set_noise(self, noise: float) -> None:
        """The deviation of every window from what it measures."""
        self._noise = noise
        self._refresh()

    def mean(self) -> Array:
        """Log TPS of every setting at the time of the last window."""
        mean: Array = self.prior.mean + self._with_windows(slice(None), self._last_time) @ self._weights
        return mean

    def expect(self, index: int, time: float) -> tuple[float, float]:
        """Mean and deviation of log TPS at a setting and a time, without the noise of its window."""
        with_windows = self._with_windows(index, time)
        mean = self.prior.mean[index] + with_windows @ self._weights
        variance = self.prior.covariance[index, index] + SPEED**2 + DRIFT**2
        variance -= with_windows @ np.linalg.solve(self._between, with_windows)
        return float(mean), float(np.sqrt(max(variance, 0.0)))

    def gain_over(self, one: int) -> tuple[Array, Array]:
        """Mean and deviation of log TPS of every setting over this one's, at the same time."""
        covariance = self.prior.covariance
        # Covariances of differences to that one: what all settings share, speed and drift, falls out of them.
        to_windows = self._kept * (covariance[:, self._indices] - covariance[one, self._indices])
        mean = self.prior.mean - self.prior.mean[one] + to_windows @ self._weights
        before = np.diag(covariance) + covariance[one, one] - 2 * covariance[:, one]
        variance = before - np.einsum("sw,ws->s", to_windows, np.linalg.solve(self._between, to_windows.T))
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _with_windows(self, index: int | slice, time: float) -> Array:
        """Covariance of a setting, or of all, at a time of this epoch with every window."""
        same = self._epochs == self._epoch
        shape = self.prior.covariance[index][..., self._indices]
        covariance: Array = self._kept * shape + same * (SPEED**2 + drift_covariance(time, self._times))
        return covariance

    def _refresh(self) -> None:
        self._indices = np.array([window.index for window in self.windows], dtype=np.int64)
        self._times = np.array([window.time for window in self.windows])
        self._last_time = self.windows[-1].time if self.windows else 0.0
        self._epochs = np.array([window.epoch for window in self.windows])
        self._kept = np.where(self._epochs == self._epoch, 1.0, EPOCH_KEEPS)
        same = self._epochs[:, None] == self._epochs[None, :]
        shape = self.prior.covariance[np.ix_(self._indices, self._indices)]
        together = SPEED**2 + drift_covariance(self._times[:, None], self._times[None, :])
        self._between = np.where(same, shape + together, EPOCH_KEEPS * shape) + self._noise**2 * np.eye(len(same))
        values = np.array([window.value for window in self.windows])
        self._weights = np.linalg.solve(self._between, values - self.prior.mean[self._indices])

    _noise = 0.05


def drift_covariance(one: Array | float, other: Array) -> Array:
    covariance: Array = DRIFT**2 * np.exp(-np.abs(one - other) / DRIFT_WINDOWS)
    return covariance
