"""The tuner's strategies beside each other on simulated machines: how soon each finds the best setting, and holds it.

Every run starts at 1/1/1 and has 100 windows, with noise and a slow drift; at window 60 half of the cores go. The best
is found by exhaustive search without noise. The machines are drawn from seeds of their own (DEVELOP=1 draws those that
the strategy was developed on), and a part of them follows a closed formula instead of the simulator that the tuner's
prior comes from.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.machines import PAPER_SYSTEMS, usual_machine
from tuner.simulator import Machine, simulate
from tuner.space import Setting, Space, space_of
from tuner.strategies import make_strategy
from tuner.strategy import Decision, Measurement, Plan, Strategy, System

Array = NDArray[np.float64]

WINDOWS, CHANGE = 100, 60
PARTS = 6  # of a window
NOISES = (0.02, 0.05, 0.10)
GOOD = 0.95  # of the best
DRIFT = 0.05  # deviation of the slow drift
START = Setting(1, 1, 1)
ROUNDS = 8000


@dataclass(frozen=True)
class Law:
    """A machine of another shape: throughput by the universal scalability law of each stage, joined smoothly."""

    cores: float
    agent_rate: float  # steps per second of an agent alone
    contention: float
    coherence: float
    predictor_rate: float
    predictor_gain: float  # exponent of NP
    trainer_rate: float
    trainer_gain: float
    interference: float  # of further threads with all else
    sharpness: float

    def tps(self, setting: Setting) -> float:
        agents, predictors, trainers = setting
        over = max(agents / self.cores, 1.0)
        parallel = agents / (1 + self.contention * (agents - 1) / self.cores + self.coherence * over * math.log2(over))
        played = self.agent_rate * min(parallel, 3 * self.cores * (1 - math.exp(-parallel / (2 * self.cores))))
        predicted = self.predictor_rate * predictors**self.predictor_gain
        trained = self.trainer_rate * trainers**self.trainer_gain
        joined = sum(rate**-self.sharpness for rate in (played, predicted, trained)) ** (-1 / self.sharpness)
        return joined / (1 + self.interference * (predictors + trainers - 2) ** 1.5)


@dataclass(frozen=True)
class Contest:
    """One machine to tune, before and after half of its cores went."""

    name: str
    system: System
    space: Space
    machine: Machine | Law

    def landscape(self, share: float) -> Landscape:
        settings = self.space.settings()
        if isinstance(self.machine, Law):
            law = replace(self.machine, cores=self.machine.cores * share)
            tps = np.array([law.tps(setting) for setting in settings])
        else:
            machine = replace(self.machine, cores=self.machine.cores * share)
            tps = simulate(machine, self.system, settings, rounds=ROUNDS).tps
        table = np.log(tps).reshape(-1, self.space.predictors, self.space.trainers)
        return Landscape(self.space, _smooth(table))


class Landscape:
    """True TPS of every setting; between two numbers of agents that were simulated, interpolated."""

    def __init__(self, space: Space, table: Array) -> None:
        self._steps = np.log(space.agent_steps())
        self._table = table
        self.best = float(np.exp(table.max()))

    def tps(self, setting: Setting) -> float:
        column = self._table[:, setting.predictors - 1, setting.trainers - 1]
        return float(np.exp(np.interp(math.log(setting.agents), self._steps, column)))

    def share(self, setting: Setting) -> float:
        return self.tps(setting) / self.best


def _smooth(table: Array) -> Array:
    """Along the agents: what is left of the simulation's own jitter would be peaks that no machine has."""
    for _ in range(2):
        padded = np.concatenate([table[:1], table, table[-1:]])
        smoothed = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
        smoothed[:4] = table[:4]  # steps of factors there
        table = smoothed
    return table


def make_contests(seed: int, count: int) -> list[Contest]:
    """A sixth are the paper's systems, a third follow the other law, the rest are simulated machines."""
    random = np.random.default_rng(seed)
    contests = []
    for index in range(count):
        cores = int(random.choice([2, 4, 6, 8, 12, 16]))
        envs, t_max, min_batch = [(1, 5, 1), (1, 5, 20), (1, 5, 40), (4, 20, 80)][random.integers(4)]
        gpu = bool(random.random() < 0.6)
        space = space_of(cores, envs_per_agent=envs)
        machine: Machine | Law
        if index % 6 == 0:
            name, machine = list(PAPER_SYSTEMS.items())[index // 6 % len(PAPER_SYSTEMS)]
            machine = _stirred(machine, random)
            cores, envs, gpu, t_max, min_batch = int(machine.cores), 1, True, 5, 1
            space = space_of(cores)
        elif index % 3 == 1:
            name, machine = f"law {index}", _draw_law(random, cores)
        else:
            name, machine = f"machine {index}", usual_machine(random, cores, gpu, breadth=1.2)
        contests.append(Contest(name, System(cores, gpu, envs, t_max, min_batch), space, machine))
    return contests


def _stirred(machine: Machine, random: np.random.Generator) -> Machine:
    """The same, with each cost up to a quarter more or less."""
    costs = {
        name: value * float(np.exp(random.uniform(-0.22, 0.22)))
        for name, value in asdict(machine).items()
        if isinstance(value, float) and name not in ("cores", "queue_batches")
    }
    return replace(machine, **costs)


def _draw_law(random: np.random.Generator, cores: float) -> Law:
    agent_rate = float(np.exp(random.uniform(np.log(50), np.log(800))))
    most = agent_rate * cores
    return Law(
        cores=cores,
        agent_rate=agent_rate,
        contention=random.uniform(0.05, 0.4),
        coherence=random.uniform(0.005, 0.1),
        predictor_rate=most * random.uniform(0.4, 3.0),
        predictor_gain=random.uniform(0.2, 0.9),
        trainer_rate=most * random.uniform(0.4, 3.0),
        trainer_gain=random.uniform(0.2, 0.9),
        interference=random.uniform(0.005, 0.04),
        sharpness=random.uniform(2.0, 5.0),
    )


@dataclass
class RandomSearch:
    """Settings drawn evenly; the best window so far is the incumbent."""

    plan: Plan

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.plan.seed)
        self._best = (-math.inf, self.plan.start)
        self._settings = self.plan.space.settings()
        self._first = True

    def propose(self) -> Setting:
        if self._first:
            self._first = False
            return self.plan.start
        return self._settings[self._random.integers(len(self._settings))]

    def observe(self, measurement: Measurement) -> Decision:
        self._best = max(self._best, (measurement.mean_tps, measurement.setting))
        return Decision("accepted", self._best[1], "the best window so far")

    def random_state(self) -> Any:
        return None


class Optuna:
    """Optuna's default sampler over the same space; the best window so far is the incumbent."""

    def __init__(self, plan: Plan) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._plan = plan
        self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=plan.seed))
        self._study.enqueue_trial(plan.start._asdict())

    def propose(self) -> Setting:
        self._trial = self._study.ask()
        space = self._plan.space
        return Setting(
            self._trial.suggest_int("agents", 1, space.agents, log=True),
            self._trial.suggest_int("predictors", 1, space.predictors),
            self._trial.suggest_int("trainers", 1, space.trainers),
        )

    def observe(self, measurement: Measurement) -> Decision:
        self._study.tell(self._trial, measurement.mean_tps)
        return Decision("accepted", Setting(**self._study.best_params), "the best window so far")

    def random_state(self) -> Any:
        return None


MAKERS: dict[str, Callable[[Plan], Strategy]] = {
    "anneal": make_strategy,
    "paper": make_strategy,
    "random": RandomSearch,
    "optuna": Optuna,
}


@dataclass(frozen=True)
class Run:
    """Shares of the best, window by window: of the incumbent after it, and of the setting that ran in it."""

    held: list[float]
    ran: list[float]
    frozen: float  # of the incumbent at the change, after it

    @property
    def stay(self) -> float:
        """The window from which the incumbent stays good, up to the change; infinite if there is none."""
        return _stay(self.held[:CHANGE])

    @property
    def recovery(self) -> float | None:
        """Windows from the change until the incumbent is good and stays so; None where it never fell."""
        return None if self.frozen >= GOOD else _stay(self.held[CHANGE:])


def _stay(held: list[float]) -> float:
    window = len(held)
    while window > 0 and held[window - 1] >= GOOD:
        window -= 1
    return window + 1 if window < len(held) else math.inf


def run_strategy(
    make: Callable[[Plan], Strategy], plan: Plan, before: Landscape, after: Landscape, noise: float
) -> Run:
    # Not the strategy's own seed: noise and proposals must not be made of the same numbers.
    random = np.random.default_rng([plan.seed, 7919])
    strategy = make(plan)
    drift, held, ran, frozen = 0.0, [], [], 0.0
    for window in range(WINDOWS):
        landscape = before if window < CHANGE else after
        if window == CHANGE:
            frozen = landscape.share(incumbent)
        drift = 0.97 * drift + DRIFT * math.sqrt(1 - 0.97**2) * random.normal()
        setting = strategy.propose()
        factors = np.exp(drift + noise * math.sqrt(PARTS) * random.normal(size=PARTS))
        tps = landscape.tps(setting) * factors
        incumbent = strategy.observe(Measurement(setting, tuple(map(float, tps)), pps=0.0)).incumbent
        held.append(landscape.share(incumbent))
        ran.append(landscape.share(setting))
    return Run(held, ran, frozen)


def run_contest(contest: Contest, strategies: tuple[str, ...], seeds: range) -> list[tuple[str, float, Run]]:
    """Every strategy, noise and seed on one machine."""
    before, after = contest.landscape(1.0), contest.landscape(0.5)
    runs = []
    for strategy in strategies:
        for noise in NOISES:
            for seed in seeds:
                plan = Plan(strategy, START, contest.space, contest.system, seed=seed)
                runs.append((strategy, noise, run_strategy(MAKERS[strategy], plan, before, after, noise)))
    return runs


def summarise(runs: list[Run]) -> dict[str, float | None]:
    stays = [run.stay for run in runs]
    finals = [run.held[CHANGE - 1] for run in runs]
    ends = [run.held[-1] for run in runs]
    recoveries = [run.recovery for run in runs if run.recovery is not None]
    return {
        "stay_median": _percentile(stays, 50),
        "stay_p90": _percentile(stays, 90),
        "final_mean": float(np.mean(finals)),
        "final_p10": _percentile(finals, 10),
        "recovery_median": _percentile(recoveries, 50) if recoveries else None,
        "run_31_60": float(np.mean([run.ran[30:60] for run in runs])),
        "recovery_runs": len(recoveries),
        "end_mean": float(np.mean(ends)),
        "frozen_mean": float(np.mean([run.frozen for run in runs])),
    }


def _percentile(values: list[float], percent: float) -> float:
    """Of values that were met: between two it would be no number where one is infinite."""
    return float(np.percentile(values, percent, method="higher"))
