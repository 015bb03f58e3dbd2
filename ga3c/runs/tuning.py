"""The tuner of a run: what it plans with, the server as it sees it, and when it begins and ends."""

from __future__ import annotations

import logging
from pathlib import Path

from ga3c.engines.server import Server
from ga3c.memory.stats import Stats
from ga3c.settings.config import Resolved
from ga3c.system.limits import available_cores, available_memory, most_agents
from tuner.controller import Controller
from tuner.record import Record
from tuner.space import Setting, Space, space_of
from tuner.strategy import Plan, Strategy, System
from tuner.window import Counters

log = logging.getLogger(__name__)

AGENT_MEMORY = 120e6  # bytes, where the system does not tell
STOP_SECONDS = 0.5


def make_start(config: Resolved) -> Setting:
    return Setting(config.agents, config.predictors, config.trainers)


def make_plan(config: Resolved, *, gpu: bool, agent_memory: float) -> Plan:
    """The plan of a run whose settings are resolved, on this machine."""
    envs = config.envs_per_agent
    start = make_start(config)
    bounds = space_of(available_cores(), envs_per_agent=envs, memory=available_memory(), agent_memory=agent_memory)
    agents = int(min(bounds.agents, most_agents()))
    return Plan(
        strategy=config.tuner,
        start=start,
        space=Space(*map(max, (agents, bounds.predictors, bounds.trainers), start)),  # what the user asked for is in it
        system=System(available_cores(), gpu, envs, config.t_max, config.min_batch),
        seed=config.seed,
        window=config.tuner_window,
        lag_limit=config.tuner_lag,
    )


class TunableServer:
    """A server through the eyes of ``tuner.controller``."""

    def __init__(self, server: Server, stats: Stats) -> None:
        self._server = server
        self._stats = stats

    def apply(self, setting: Setting) -> None:
        self._server.resize(**setting._asdict())

    @property
    def setting(self) -> Setting:
        now = self._server.setting
        return Setting(self._server.agents_playing, now["predictors"], now["trainers"])

    def unsettled(self) -> str:
        return self._server.unsettled()

    def counters(self) -> Counters:
        now = self._stats.snapshot()
        totals = now.totals
        return Counters(
            seconds=now.seconds,
            updates=int(totals["full_updates"]),
            steps=int(totals["steps"]),
            stale_steps=int(totals["stale_steps"]),
            agents_started=self._server.agents_started,
            looks=int(totals["looks"]),
            prediction_queue=int(totals["prediction_queue"]),
            training_queue=int(totals["training_queue"]),
            lags=now.lags,
        )


class Tuning:
    """The tuner of one run. A resumed run is put to where its tuner was, before all agents have started."""

    def __init__(self, config: Resolved, server: Server, stats: Stats, directory: Path, *, gpu: bool) -> None:
        self._config = config
        self._gpu = gpu
        self._server = server
        self._tunable = TunableServer(server, stats)
        self._record = Record(directory)
        self._resumed = self._record.resumable(make_plan(config, gpu=gpu, agent_memory=AGENT_MEMORY))
        self._controller: Controller | None = None
        if self._resumed is not None and self._resumed.trials:
            last = self._resumed.trials[-1]
            incumbent, given = last.decision.incumbent, make_start(config)
            if given != self._resumed.plan.start:
                log.warning("%s is not taken: the tuner goes on from %s, where it was", given, incumbent)
            self._tunable.apply(incumbent)
            stats.pass_over(last.seconds)  # so that times in the trace never run backwards

    def begin(self) -> None:
        """Start to tune, once agents play: what one of them needs can be seen then."""
        plan = make_plan(self._config, gpu=self._gpu, agent_memory=self._server.agent_memory() or AGENT_MEMORY)
        self._controller = Controller(self._tunable, plan, self._record, _make_strategy, self._resumed)
        self._controller.start()

    def stop(self) -> None:
        if self._controller is not None:
            self._controller.stop(STOP_SECONDS)


def _make_strategy(plan: Plan) -> Strategy:
    from tuner.strategies import make_strategy  # by the thread that tunes: what strategies import delays nobody

    return make_strategy(plan)
