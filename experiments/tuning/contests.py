"""Simulated machines to compare the tuner's strategies on, with their true landscapes.

A part of them follows a closed formula instead of the simulator that the tuner's prior comes from.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.machines import PAPER_SYSTEMS, usual_machine
from tuner.simulator import Machine, simulate
from tuner.space import Setting, Space, space_of
from tuner.strategy import System

Array = NDArray[np.float64]

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
        return float(joined / (1 + self.interference * (predictors + trainers - 2) ** 1.5))


@dataclass(frozen=True)
class Contest:
    """One machine to tune, before and after half of its cores went."""

    name: str
    system: System
    space: Space
    machine: Machine | Law

    def landscape(self, share: float) -> TrueLandscape:
        settings = self.space.settings()
        if isinstance(self.machine, Law):
            law = replace(self.machine, cores=self.machine.cores * share)
            tps = np.array([law.tps(setting) for setting in settings])
        else:
            machine = replace(self.machine, cores=self.machine.cores * share)
            tps = simulate(machine, self.system, settings, rounds=ROUNDS).tps
        table = np.log(tps).reshape(-1, self.space.predictors, self.space.trainers)
        return TrueLandscape(self.space, _smooth(table))


class TrueLandscape:
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
    costs: dict[str, Any] = {
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
