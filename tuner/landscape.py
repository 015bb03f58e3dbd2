"""The landscape that a trace leaves: what was measured, and the calibrated simulator where nothing was.

Calibrated means: the belief that starts from simulated machines (``tuner.surrogate``), after all windows of the trace.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean

import numpy as np

from tuner.space import Setting
from tuner.strategy import Measurement
from tuner.surrogate import Surrogate, make_prior
from tuner.trace import Trace

LEAST_NOISE = 0.01  # deviation of log TPS


class Nearest:
    """The place of the setting that the simulator knows and that is nearest, number by number, to a given one."""

    def __init__(self, surrogate: Surrogate) -> None:
        self._index = surrogate.index
        self._known = [np.unique(numbers) for numbers in np.array(surrogate.prior.settings).T]

    def __call__(self, setting: Setting) -> int:
        nearest = (
            int(known[np.abs(np.log(known / number)).argmin()])
            for known, number in zip(self._known, setting, strict=True)
        )
        return self._index[Setting(*nearest)]


class TraceLandscape:
    def __init__(self, surrogate: Surrogate, measured: dict[Setting, list[float]]) -> None:
        self.measured = measured
        self.settings = list(surrogate.prior.settings)
        self._nearest = Nearest(surrogate)
        self._log_tps = surrogate.mean()

    def is_measured(self, setting: Setting) -> bool:
        return setting in self.measured

    def tps(self, setting: Setting) -> float:
        """The mean of its windows, else what the simulator makes of the others'."""
        if setting in self.measured:
            return fmean(self.measured[setting])
        return math.exp(self._log_tps[self._nearest(setting)])


def landscape_of(trace: Trace) -> TraceLandscape:
    """As it is after the trace: of a setting, only windows since the machine changed count, where there are some."""
    trials = [trial for trial in trace.trials if not trial.measurement.problem]
    agents = {trial.measurement.setting.agents for trial in trials}
    surrogate = Surrogate(make_prior(trace.plan.space, trace.plan.system, tuple(sorted(agents))))
    surrogate.set_noise(_noise([trial.measurement for trial in trials if trial.measurement.mean_tps > 0]))
    nearest = Nearest(surrogate)
    windows: list[tuple[Setting, float]] = []
    since = 0  # the first of them after the last change of the machine
    for trial in trials:
        setting, tps = trial.measurement.setting, trial.measurement.mean_tps
        windows.append((setting, tps))
        if tps > 0:
            surrogate.add(nearest(setting), trial.seconds / trace.plan.window, math.log(tps))
        if trial.decision.verdict == "reopened":
            change = surrogate.change()
            surrogate.begin_epoch(change)
            since = len(windows) - change.windows
    return TraceLandscape(surrogate, _by_setting(windows[:since]) | _by_setting(windows[since:]))


def _by_setting(windows: list[tuple[Setting, float]]) -> dict[Setting, list[float]]:
    rates = defaultdict(list)
    for setting, tps in windows:
        rates[setting].append(tps)
    return dict(rates)


def _noise(windows: list[Measurement]) -> float:
    spreads = [window.spread for window in windows if window.spread is not None]
    return max(LEAST_NOISE, math.sqrt(fmean(spreads))) if spreads else LEAST_NOISE
