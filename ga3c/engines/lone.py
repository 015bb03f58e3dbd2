"""The engine whose agents learn by themselves: it holds the shared model, starts them, and counts what they tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ga3c.agents.crew import Agents
from ga3c.agents.places.place import Task
from ga3c.algorithms.rule import make_learning
from ga3c.engines.engine import LOOK_SECONDS, STOP_SECONDS, LogQueue
from ga3c.engines.lone_agent import LoneTask, run_lone_agent
from ga3c.engines.lone_reports import Reports
from ga3c.games.spec import EnvSpec
from ga3c.memory.stats import Stats
from ga3c.models.device import limit_threads
from ga3c.models.model import TrainableModel
from ga3c.models.shared import ProcessLock, SharedModel, SharedNumbers
from ga3c.settings.config import Resolved
from ga3c.system.private_directory import PrivateDirectory


class LoneServer:
    """Owns everything of a run whose agents train, in one thread that hardly does anything."""

    def __init__(self, config: Resolved, spec: EnvSpec, stats: Stats, log_queue: LogQueue) -> None:
        self._give_threads_back: Callable[[], None] = limit_threads(config.torch_threads)
        self._config = config
        self._spec = spec
        self._stats = stats
        self._log_queue = log_queue
        self._directory = PrivateDirectory()
        self._lock_path = self._directory.path / "updates"
        try:
            network = make_learning(config, spec).network
            self._numbers = SharedNumbers.make(config, network)
            self.model = SharedModel(config, network, self._numbers, ProcessLock(self._lock_path))
        except BaseException:  # memory may be short, and nobody stops what was never made
            self._release()
            raise
        self._reports = Reports(stats)
        self._agents = Agents(config, self._reports, stats, self._task)

    @property
    def setting(self) -> dict[str, int]:
        """Agents that still make their environments are counted; predictors and trainers are in the agents."""
        crew = self._agents.crew
        return {"agents": crew.playing + crew.starting, "predictors": 0, "trainers": 0, "remote_agents": 0}

    def prepare(self) -> TrainableModel:
        return self.model

    def start(self, saved: dict[str, Any] | None = None) -> None:
        """Start the agents, from the model as it is now. Games that were under way are not gone on with."""
        self._hear()
        self._agents.want(self._config.agents)
        self._agents.tend()

    def wait(self, seconds: float) -> None:
        """Look after agents and hear their reports for this long. Raises where none of them could go on."""
        until = time.monotonic() + seconds
        while True:
            self._hear()
            if self._reports.failure:
                raise RuntimeError(self._reports.failure)
            self._agents.tend()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, LOOK_SECONDS))

    def stop(self) -> None:
        """End all agents. What they have under way is counted as lost."""
        self._agents.stop(STOP_SECONDS)
        # Agents that were killed did not tell of their last updates, which are in the weights.
        self._stats.add(updates=max(self.model.updates - self._stats.totals.updates, 0))
        self._release()

    def _release(self) -> None:
        self._directory.close()
        self._give_threads_back()

    def state(self) -> None:
        """Where agents in other processes are cannot be told."""

    def _hear(self) -> None:
        self._reports.collect()
        self._numbers.steps.fill_(self._stats.totals.steps)

    def _task(self, agent: int) -> Task:
        task = LoneTask(self._config, self._spec, self._numbers, self._lock_path, agent)
        return run_lone_agent, (task, self._reports.connection_of(agent), self._log_queue)
