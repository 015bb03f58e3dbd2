"""Made-up traces of the tuner, and landscapes of them."""

import numpy as np

from tuner.space import Setting, Space
from tuner.strategies import make_strategy
from tuner.strategy import Measurement, Plan, System
from tuner.trace import FILE, Trace, Trial, header_line, trial_line

WINDOW, SETTLING = 10.0, 2.0
HOSTILE = '</script><img src=x onerror=alert(1)> & "quotes" \'n \x1b[31m'


def true_tps(setting):
    """Best at 6/2/2."""
    agents, predictors, trainers = setting
    return 12.0 - 0.3 * (agents - 6) ** 2 - 0.5 * (predictors - 2) ** 2 - 0.5 * (trainers - 2) ** 2


def plan_of(strategy="paper", seed=3):
    return Plan(strategy, Setting(1, 1, 1), Space(12, 4, 4), System(cores=4), seed, WINDOW, lag_limit=30.0)


def measure(setting, random, problem=""):
    if problem:
        return Measurement(setting, (0.0,), 0.0, problem=problem)
    tps = tuple(float(true_tps(setting) * (1 + 0.03 * random.normal())) for _ in range(4))
    return Measurement(setting, tps, sum(tps) * 5, 0.5, (1.0, 2.0), 4.0 + setting.agents, 12.0)


def make_trace(windows=30, *, plan=None, problems=None, seed=0):
    """A run of a strategy on a made-up machine; ``problems`` are windows that fail, with their reasons."""
    plan = plan or plan_of()
    strategy, random, incumbent, trials = make_strategy(plan), np.random.default_rng(seed), plan.start, []
    for number in range(1, windows + 1):
        proposed = strategy.propose()
        measurement = measure(proposed, random, (problems or {}).get(number, ""))
        decision = strategy.observe(measurement)
        ended = number * (WINDOW + SETTLING)
        trial = Trial(
            number, ended, SETTLING, WINDOW, incumbent, proposed, measurement, decision, strategy.random_state()
        )
        trials.append(trial)
        incumbent = decision.incumbent
    return Trace(plan, tuple(trials))


def write(path, trace, end=""):
    path.mkdir(parents=True, exist_ok=True)
    text = header_line(trace.plan) + "".join(map(trial_line, trace.trials)) + end
    (path / FILE).write_text(text, encoding="utf-8")
    return path


class Known:
    """A landscape of what a trace measured; settings that it did not have a TPS that shows it."""

    SIMULATED = 1.25

    def __init__(self, trace):
        self.measured = {}
        for trial in trace.trials:
            if not trial.measurement.problem:
                self.measured.setdefault(trial.measurement.setting, []).append(trial.measurement.mean_tps)
        self.settings = trace.plan.space.settings()

    def tps(self, setting):
        return float(np.mean(self.measured[setting])) if setting in self.measured else self.SIMULATED

    def is_measured(self, setting):
        return setting in self.measured
