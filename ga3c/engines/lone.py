"""The server of ALGO=a3c: it holds the shared model, starts agents that do all the work, and counts what they tell."""

from __future__ import annotations

import logging
import multiprocessing
import time

from ga3c.agents.crew import Agents, Task
from ga3c.engines.lone_agent import A3CTask, run_a3c_agent
from ga3c.engines.lone_reports import Reports
from ga3c.engines.server import LOOK_SECONDS, STOP_SECONDS
from ga3c.engines.workers import set_up_torch
from ga3c.games.spec import EnvSpec
from ga3c.memory.stats import Stats
from ga3c.models.shared import ProcessLock, SharedModel, SharedNumbers
from ga3c.settings.config import Config
from ga3c.system.private_directory import PrivateDirectory


class A3CServer:
    """Owns everything of a run with A3C, in one thread that hardly does anything."""

    def __init__(
        self, config: Config, spec: EnvSpec, stats: Stats, log_queue: multiprocessing.Queue[logging.LogRecord]
    ) -> None:
        set_up_torch(config)
        self._config = config
        self._spec = spec
        self._stats = stats
        self._log_queue = log_queue
        self._directory = PrivateDirectory()
        self._lock_path = self._directory.path / "updates"
        self._numbers = SharedNumbers.make(config, spec)
        self.model = SharedModel(config, spec, self._numbers, ProcessLock(self._lock_path))
        self._reports = Reports(stats)
        self._agents = Agents(config, self._reports, stats, self._task)

    @property
    def setting(self) -> dict[str, int]:
        """Agents that still make their environments are counted; predictors and trainers are in the agents."""
        crew = self._agents.crew
        return {"agents": crew.playing + crew.starting, "predictors": 0, "trainers": 0, "remote_agents": 0}

    @property
    def agents_playing(self) -> int:
        return self._agents.crew.playing

    def start(self) -> None:
        """Start the agents, from the model as it is now."""
        self._hear()
        self._agents.want(self._config.agents or 1)
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
        self._directory.close()

    def _hear(self) -> None:
        self._reports.collect()
        self._numbers.steps.fill_(self._stats.totals.steps)

    def _task(self, agent: int) -> Task:
        task = A3CTask(self._config, self._spec, self._numbers, self._lock_path, agent)
        return run_a3c_agent, (task, self._reports.connection_of(agent), self._log_queue)
