"""The agent that plays, predicts and trains by itself, with a copy of the model that all agents share."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ga3c.agents.player import Player, begin_players
from ga3c.agents.process import describe_failure, set_up_process
from ga3c.algorithms.rule import make_learning
from ga3c.engines.lone_reports import Reporter, ServerGone
from ga3c.engines.rounds import Rounds
from ga3c.engines.trainer import UpdatesNotFinite
from ga3c.engines.workers import Workers
from ga3c.games.spec import EnvSpec
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.models.shared import ProcessLock, SharedModel, SharedNumbers
from ga3c.settings.config import Resolved
from ga3c.system.malloc import keep_freed_memory

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoneTask:
    """All that the process of an agent has to know."""

    config: Resolved
    spec: EnvSpec
    numbers: SharedNumbers
    lock: Path
    agent: int


class LoneAgent:
    """Players with a predictor and a trainer of their own, around a copy of the shared model."""

    def __init__(self, task: LoneTask, stats: Stats) -> None:
        config, numbers = task.config, task.numbers
        network = make_learning(config, task.spec).network
        self.model = SharedModel(config, network, numbers, ProcessLock(task.lock))
        memory = make_memory(config, stats)
        workers = Workers(config, task.spec, memory, stats, self.model, steps=lambda: int(numbers.steps))
        self._trainer = workers.trainer()
        self._rounds = Rounds(workers.predictor(), self._train, memory, stats)
        self._config = config
        self._number = task.agent
        self._players: list[Player] = []
        stats.ledger.open(self._number, config.envs_per_agent)

    def begin(self) -> None:
        for player, turn in begin_players(self._config, self._number):
            self._players.append(player)
            self._rounds.join(player, turn)
        self.model.catch_up()  # with what others have trained meanwhile: environments take time to make

    def play(self) -> None:
        """One step of all environments, and the updates that it makes possible."""
        self._rounds.play()

    def stop(self) -> None:
        self._rounds.give_up([self._number])
        for player in self._players:
            player.close()

    def _train(self, sample: Any) -> None:
        self._trainer.train(sample)
        # Also where they were too old or not finite: by the same weights, the next ones would be so too.
        self.model.catch_up()


def run_lone_agent(
    task: LoneTask, connection: socket.socket, log_queue: multiprocessing.Queue[logging.LogRecord]
) -> None:
    """The body of an agent process: play and train until the server says STOP or is gone."""
    keep_freed_memory()
    set_up_process(log_queue, niceness=0)  # there is nobody to give way to: agents do all the work
    asked_to_leave: list[int] = []
    # Not in the middle of an update, where nobody could tell what became of its steps.
    signal.signal(signal.SIGTERM, lambda number, frame: asked_to_leave.append(number))
    stats = Stats()
    reporter = Reporter(connection, stats)
    try:
        agent = LoneAgent(task, stats)
        try:
            agent.begin()
            while not asked_to_leave:
                agent.play()
                if reporter.due:
                    reporter.report()
                    if reporter.told_to_leave():
                        break
        finally:
            agent.stop()
            reporter.report()
    except ServerGone:
        pass
    except Exception as error:
        log.exception("agent %d failed", task.agent)
        with contextlib.suppress(ServerGone):
            reporter.fail(describe_failure(error), for_all=isinstance(error, UpdatesNotFinite))
        sys.exit(1)  # which waits until the queue has taken the traceback
    log_queue.cancel_join_thread()  # a good end must not wait for a log that nobody reads any more
