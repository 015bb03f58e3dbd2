"""What is known of a landscape: a Gaussian belief over log TPS of every setting, which each window narrows.

Means of single settings fail as soon as windows are noisy; here what was measured tells about neighbours too. The
belief before the first window comes from simulated machines with these cores, whose costs are drawn around the usual:
their mean says what is likely, their covariance which settings rise and fall together. Added to it are how far a real
landscape may be from all of them, an unknown speed of the machine, and a drift over time that all settings share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tuner.machines import usual_machine
from tuner.simulator import simulate
from tuner.space import Setting, Space, thread_steps
from tuner.strategy import System

Array = NDArray[np.float64]

WINDOWS_KEPT = 150
MACHINES = 16  # simulated for the prior
ROUNDS = 800
CORES_LEFT = (1.0, 1.0, 0.75, 0.5)  # shares of the cores: another program may have the others

# Deviations of log TPS.
SPEED = 3.0  # of machines from each other: nothing is known of it
ALONE, TOGETHER = 0.3, 0.3  # of a landscape from the simulated ones, by each number alone and by all together
SCALES = (0.6, 1.2)  # of these two; which one it is, the windows tell
DRIFT, DRIFT_WINDOWS = 0.06, 40.0  # of all settings together over time, and how many windows it remembers
EPOCH_KEEPS = 0.9  # of the covariance with windows from before a change of the machine
STEP = 0.25  # of a sudden change of all settings together
STEP_WINDOWS = 12  # since the change, at most: an older one has become knowledge
STEP_BEFORE = 3  # windows before the change, at least

AGENT_DOUBLINGS, THREAD_DOUBLINGS = 1.2, 1.0  # how far apart settings are that tell little about each other


@dataclass(frozen=True)
class Prior:
    """Mean and covariance of log TPS over the settings of a space, but for the machine's speed, before any window."""

    settings: tuple[Setting, ...]
    mean: Array
    simulated: Array  # covariance of the simulated machines
    apart: Array  # covariance of how far a landscape may be from them, to be scaled


@dataclass(frozen=True)
class MeasuredWindow:
    index: int  # of the setting
    time: float  # in windows
    value: float  # log TPS
    epoch: int  # counts the changes of the machine


@dataclass(frozen=True)
class Change:
    """A sudden change of the machine."""

    windows: int  # since then
    gain: float  # of log TPS, by all windows since
    evidence: float  # log odds of the windows with it over those without


@lru_cache(maxsize=64)
def make_prior(space: Space, system: System, agents: tuple[int, ...]) -> Prior:
    """Over the settings of a space that are worth telling apart, and those with these numbers of agents."""
    settings = space.settings(*agents)
    shapes = _simulated_shapes(space, system, settings)
    mean = shapes.mean(axis=0)
    deviations = shapes - mean
    return Prior(tuple(settings), mean, deviations.T @ deviations / (len(shapes) - 1), _apart(settings))


def _simulated_shapes(space: Space, system: System, settings: list[Setting]) -> Array:
    """Log TPS of each simulated machine (rows) at each setting, less its own mean."""
    random = np.random.default_rng(0)
    coarse = _coarse(space)
    agents = np.log([setting.agents for setting in settings])
    steps = np.log(coarse)
    threads = [(p, t) for p in thread_steps(space.predictors) for t in thread_steps(space.trainers)]
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


@dataclass(frozen=True)
class Fit:
    """The windows explained with one scale of what the simulator does not know."""

    scale: float
    share: float  # of the belief
    covariance: Array  # (windows, settings), but for speed and drift
    variance: Array  # of the settings
    inverse: Array  # of the covariance between windows
    weights: Array  # of the windows in a mean


class Surrogate:
    """The belief, and the windows that it rests on."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.index = {setting: index for index, setting in enumerate(prior.settings)}
        self.windows: list[MeasuredWindow] = []
        self._agents = sorted({setting.agents for setting in prior.settings})
        self._epoch = 0
        self._noise = 0.05
        self._fits: list[Fit] = []  # made when they are needed
        self._gains: dict[int, tuple[Array, Array]] = {}

    def begin_epoch(self, change: Change) -> None:
        """The machine has changed: what was measured before tells less from now on, and nothing about its speed.

        A machine with half of the speed is most likely one with half of the cores: what was known for some number of
        agents then holds for half as many.
        """
        self._epoch += 1
        before = len(self.windows) - change.windows
        self.windows = [
            replace(window, index=self._nearest(self.prior.settings[window.index], math.exp(change.gain)))
            for window in self.windows[:before]
        ] + [replace(window, epoch=self._epoch) for window in self.windows[before:]]
        self._fits = []

    def change(self) -> Change:
        """The most likely moment of a sudden change of all settings together, at least two windows ago.

        It has to explain them better than that one of them was disturbed.
        """
        fit = self._likeliest()
        same = sum(window.epoch == self._epoch for window in self.windows)
        best = Change(1, 0.0, -math.inf)
        for count in range(2, min(STEP_WINDOWS, same - STEP_BEFORE) + 1):
            evidence, gain = _step(fit, slice(-count, None))
            evidence -= max(0.0, *(self.disturbance(ago) for ago in range(count)))
            if evidence > best.evidence:
                best = Change(count, gain, evidence)
        return best

    def disturbance(self, ago: int) -> float:
        """Log odds that a window (0: the last) was disturbed, over that it was not."""
        at = len(self.windows) - 1 - ago
        return _step(self._likeliest(), slice(at, at + 1))[0]

    def drop(self, ago: int) -> None:
        """Forget a window that was disturbed."""
        del self.windows[len(self.windows) - 1 - ago]
        self._fits = []

    def add(self, index: int, time: float, value: float) -> None:
        """A window of log TPS ``value`` under the setting with this index; times are in windows."""
        self.windows = [*self.windows, MeasuredWindow(index, time, value, self._epoch)][-WINDOWS_KEPT:]
        self._fits = []

    def set_noise(self, noise: float) -> None:
        """The deviation of every window from what it measures."""
        self._noise = noise
        self._fits = []

    def measured(self) -> set[int]:
        """Settings, by index, with a window of this epoch."""
        return {window.index for window in self.windows if window.epoch == self._epoch}

    def mean(self) -> Array:
        """Log TPS of every setting at the time of the last window."""
        time = self.windows[-1].time if self.windows else 0.0
        return _mix([(fit.share, *self._at(fit, slice(None), time)) for fit in self._fitted()])[0]

    def expect(self, index: int, time: float) -> tuple[float, float]:
        """Mean and deviation of log TPS at a setting and a time, without the noise of its window."""
        one = slice(index, index + 1)
        mean, deviation = _mix([(fit.share, *self._at(fit, one, time)) for fit in self._fitted()])
        return float(mean[0]), float(deviation[0])

    def gain_over(self, one: int) -> tuple[Array, Array]:
        """Mean and deviation of log TPS of every setting over this one's, at the same time."""
        fits = self._fitted()
        if one not in self._gains:
            self._gains[one] = _mix([(fit.share, *self._gain_over(fit, one)) for fit in fits])
        return self._gains[one]

    def _gain_over(self, fit: Fit, one: int) -> tuple[Array, Array]:
        """Mean and variance. What all settings share, speed and drift, falls out of differences between them."""
        to_windows = fit.covariance - fit.covariance[:, one : one + 1]
        mean = self.prior.mean - self.prior.mean[one] + fit.weights @ to_windows
        apart = fit.variance + fit.variance[one] - 2 * self._with(fit, one)
        return mean, apart - _explained(fit, to_windows)

    def _at(self, fit: Fit, settings: slice, time: float) -> tuple[Array, Array]:
        """Mean and variance at a time of this epoch."""
        times = np.array([window.time for window in self.windows])
        same = np.array([window.epoch == self._epoch for window in self.windows])
        with_windows = fit.covariance[:, settings] + (same * (SPEED**2 + drift_covariance(time, times)))[:, None]
        variance = fit.variance[settings] + SPEED**2 + DRIFT**2
        return self.prior.mean[settings] + fit.weights @ with_windows, variance - _explained(fit, with_windows)

    def _with(self, fit: Fit, one: int) -> Array:
        """Covariance of every setting with this one."""
        covariance: Array = self.prior.simulated[one] + fit.scale**2 * self.prior.apart[one]
        return covariance

    def _fitted(self) -> list[Fit]:
        """A fit for each scale; the better it explains the windows, the larger its share."""
        if not self._fits:
            tried = [self._fit(scale) for scale in SCALES]
            most = max(evidence for evidence, _ in tried)
            total = sum(math.exp(evidence - most) for evidence, _ in tried)
            self._fits = [replace(fit, share=math.exp(evidence - most) / total) for evidence, fit in tried]
            self._gains = {}
        return self._fits

    def _likeliest(self) -> Fit:
        return max(self._fitted(), key=lambda fit: fit.share)

    def _fit(self, scale: float) -> tuple[float, Fit]:
        """The log likelihood of the windows, but for a constant, and the fit."""
        indices = np.array([window.index for window in self.windows], dtype=np.int64)
        times = np.array([window.time for window in self.windows])
        epochs = np.array([window.epoch for window in self.windows])
        values = np.array([window.value for window in self.windows]) - self.prior.mean[indices]
        covariance = self.prior.simulated[indices] + scale**2 * self.prior.apart[indices]
        variance = np.diag(self.prior.simulated) + scale**2 * np.diag(self.prior.apart)
        same = epochs[:, None] == epochs[None, :]
        together = SPEED**2 + drift_covariance(times[:, None], times[None, :])
        shape = covariance[:, indices]
        between = np.where(same, shape + together, EPOCH_KEEPS * shape) + self._noise**2 * np.eye(len(indices))
        inverse: Array = np.asarray(np.linalg.inv(between), dtype=np.float64)
        weights = inverse @ values
        evidence = -0.5 * float(values @ weights + np.linalg.slogdet(between)[1])
        covariance *= np.where(epochs == self._epoch, 1.0, EPOCH_KEEPS)[:, None]
        return evidence, Fit(scale, 0.0, covariance, variance, inverse, weights)

    def _nearest(self, setting: Setting, factor: float) -> int:
        """The setting with about this factor as many agents."""
        wanted = math.log(setting.agents * factor)
        agents = min(self._agents, key=lambda number: abs(math.log(number) - wanted))
        return self.index[setting._replace(agents=agents)]


def _step(fit: Fit, windows: slice) -> tuple[float, float]:
    """Log odds that these windows share a step of unknown size, over that they do not, and its expected size.

    It would add STEP² to the covariance between them: what that changes follows from the fit without it.
    """
    signal = float(fit.weights[windows].sum())
    explained = 1 + STEP**2 * float(fit.inverse[windows, windows].sum())
    evidence = 0.5 * (STEP**2 * signal**2 / explained - math.log(explained))
    return evidence, STEP**2 * signal / explained


def _explained(fit: Fit, with_windows: Array) -> Array:
    """The variance that the windows take away."""
    explained: Array = ((fit.inverse @ with_windows) * with_windows).sum(axis=0)
    return explained


def _mix(parts: list[tuple[float, Array, Array]]) -> tuple[Array, Array]:
    """Mean and deviation over several beliefs, each with its share, mean and variance."""
    mean: Array = sum((share * its_mean for share, its_mean, _ in parts), start=np.zeros(1))
    square: Array = sum((share * (its_mean**2 + variance) for share, its_mean, variance in parts), start=np.zeros(1))
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def drift_covariance(one: Array | float, other: Array) -> Array:
    covariance: Array = DRIFT**2 * np.exp(-np.abs(one - other) / DRIFT_WINDOWS)
    return covariance
