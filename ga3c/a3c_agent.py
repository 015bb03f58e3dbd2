"""The agent of ALGO=a3c: it plays, predicts and trains by itself, with a copy of the model that all agents share."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from ga3c.agent import begin_players, describe_failure, set_up_process
from ga3c.config import Config
from ga3c.envs import EnvSpec
from ga3c.learner import Learner
from ga3c.reports import Reporter, ServerGone
from ga3c.rollout import Experience
from ga3c.rounds import Rounds
from ga3c.shared_model import ProcessLock, SharedModel, SharedNumbers
from ga3c.stats import Stats
from ga3c.trainer import NotFinite

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class A3CTask:
    """All that the process of an agent has to know."""

    config: Config
    spec: EnvSpec
    numbers: SharedNumbers
    lock: Path
    agent: int


def run_a3c_agent(
    task: A3CTask, connection: socket.socket, log_queue: multiprocessing.Queue[logging.LogRecord]
) -> None:
    """The body of an agent process: play and train until the server says STOP or is gone."""
    set_up_process(log_queue, niceness=0)  # there is nobody to give way to: agents do all the work
    stats = Stats()
    reporter = Reporter(connection, stats)
    try:
        _work(task, stats, reporter)
    except ServerGone:
        pass
    except Exception as error:
        log.exception("agent %d failed", task.agent)
        with contextlib.suppress(ServerGone):
            reporter.fail(describe_failure(error), for_all=isinstance(error, NotFinite))
        sys.exit(1)  # which waits until the queue has taken the traceback
    log_queue.cancel_join_thread()  # a good end must not wait for a log that nobody reads any more


def _work(task: A3CTask, stats: Stats, reporter: Reporter) -> None:
    config, spec, agent = task.config, task.spec, task.agent
    model = SharedModel(config, spec, task.numbers, ProcessLock(task.lock))
    learner = Learner(config, spec, stats, model, steps=lambda: int(task.numbers.steps))
    trainer = learner.trainer()

    def train(experiences: list[Experience]) -> None:
        trainer.train(experiences)
        model.catch_up()  # also where they were too old, or not finite: with the same weights the next would be so too

    rounds = Rounds(config, spec, learner.predictor(run_id=0), train, stats)
    stats.ledger.open(agent, config.envs_per_agent or 1)
    players = []
    try:
        for player, messages in begin_players(config, run=0, agent=agent):
            players.append(player)
            rounds.join(player, messages)
        model.catch_up()  # environments take time to make
        while True:
            rounds.play()
            if reporter.due:
                reporter.report()
                if reporter.told_to_leave():
                    break
    finally:
        rounds.give_up([agent])
        reporter.report()
    for player in players:
        player.close()
