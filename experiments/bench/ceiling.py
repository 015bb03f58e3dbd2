"""The ceiling: what the cores could give if nothing had to be shared or sent.

One independent worker per core plays and trains alone in one thread, with the same environments, network, batches,
optimizer and MIN_BATCH as the server. Their steps per second together are what efficiency is a share of.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from experiments.processes import Orders, Processes
from ga3c.algorithms.rule import make_acting
from ga3c.games.make import make_games
from ga3c.memory.memory import make_memory
from ga3c.memory.rollout import Rollout
from ga3c.memory.stats import Stats
from ga3c.settings.config import Resolved
from ga3c.system.limits import available_cores

ENVS = (8, 16, 32)  # environments of a worker: the best of these counts
START_SECONDS = 180.0  # for all environments to be made, at most
WARM_TURNS = 40  # before the first measurement: experiences of full length are under way then


@dataclass(frozen=True)
class Rates:
    pps: float
    trained_per_second: float


class LoneWorker:
    """Environments, model and trainer of one thread."""

    def __init__(self, config: Resolved, envs: int) -> None:
        from experiments.bench.stages import settle
        from ga3c.engines.workers import Workers
        from ga3c.models.batches import Batches

        self._random = np.random.default_rng(config.seed)
        self._games = make_games(config, envs)
        spec = self._games.spec
        self._stats = Stats()
        self._waiting = make_memory(config, self._stats)
        workers = Workers(config, spec, self._waiting, self._stats)
        settle(workers.model)
        self._model, self._trainer = workers.model, workers.trainer()
        self._batches = Batches(spec, workers.model.device)
        self._acting = make_acting(config, spec)
        self._rollout = Rollout(
            spec, envs, self._acting, t_max=config.t_max, reward_clip=config.reward_clip, spread=True
        )
        self._observations = self._games.reset(config.seed)
        for _ in range(WARM_TURNS):
            self.turn()

    def turn(self) -> None:
        """One step of all environments, and the updates that it makes possible."""
        prediction = self._model.predict(self._batches.prediction([self._observations]))
        self._waiting.add(list(self._rollout.finish(prediction.outputs)))
        actions, kept = self._acting.act(prediction.outputs, self._random)
        played = self._games.step(actions)
        self._rollout.record(self._observations, actions, kept, prediction.version, played)
        self._observations = played.observations
        self._stats.add(steps=int(played.real.sum()))
        while (batch := self._waiting.take()) is not None:
            self._trainer.train(batch)

    def counts(self) -> tuple[float, int, int]:
        return time.monotonic(), self._stats.totals.steps, self._stats.totals.samples


def work_alone(orders: Orders, config: Resolved, counts: tuple[int, ...]) -> None:
    """The body of a worker's process: it plays from ``play`` to ``end``, and tells the rates since ``begin``."""
    workers = {envs: LoneWorker(config, envs) for envs in counts}
    orders.answer()
    while (order := orders.next())[0] == "play":
        worker = workers[order[1]]
        while not orders.waiting():
            worker.turn()
        if orders.next()[0] != "begin":
            return
        before = worker.counts()
        while not orders.waiting():
            worker.turn()
        if orders.next()[0] != "stop":
            return
        seconds, steps, samples = (now - then for now, then in zip(worker.counts(), before, strict=True))
        orders.answer(Rates(steps / seconds, samples / seconds))


class Ceiling:
    """One lone worker per core, each with environments for every count; they wait while nothing is measured."""

    def __init__(self, config: Resolved, processes: Processes, counts: tuple[int, ...] = ENVS) -> None:
        config = config.replace(torch_threads=1)
        self._processes = [
            processes.start(f"lone worker {core}", work_alone, config.replace(seed=config.seed + core), counts)
            for core in range(available_cores())
        ]

    def wait_until_ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        for process in self._processes:
            process.answer(max(until - time.monotonic(), 1.0))

    def measure(self, envs: int, *, settle_seconds: float, seconds: float) -> Rates:
        """The workers' rates together, each with this many environments."""
        for process in self._processes:
            process.tell("play", envs)
        time.sleep(settle_seconds)
        for process in self._processes:
            process.tell("begin")
        time.sleep(seconds)
        for process in self._processes:
            process.tell("stop")
        rates: list[Rates] = [process.answer() for process in self._processes]
        return Rates(sum(one.pps for one in rates), sum(one.trained_per_second for one in rates))
