"""The agent: K environments that act on predictions, and the process that runs them. Never imports torch."""

from __future__ import annotations

import logging
import logging.handlers
import multiprocessing
import os
import sys
from dataclasses import dataclass
from types import FrameType

from ga3c.agents.player import Player, begin_players
from ga3c.games.checked_game import GameFault
from ga3c.messages import wire
from ga3c.messages.links import AgentLink
from ga3c.messages.wire import Header, Kind
from ga3c.settings.config import Resolved
from ga3c.system.signals import follow_parent

log = logging.getLogger(__name__)

NICENESS = 5  # below the server's threads: an agent that waits costs nothing, a trainer that waits costs everything
PATIENCE = 1.0  # seconds without a message after which an agent looks whether its server is still there
LAST_WORDS_SECONDS = 1.0  # that an agent which fails takes, at most, to tell the server why


@dataclass(frozen=True)
class AgentTask:
    """All that an agent process has to know."""

    config: Resolved
    endpoint: str
    run: int
    agent: int


def run_agent(task: AgentTask, log_queue: multiprocessing.Queue[logging.LogRecord]) -> None:
    """The body of an agent process: play until the server says STOP or is gone."""
    set_up_process(log_queue)
    link = None
    try:
        link = AgentLink(task.endpoint, task.run, task.agent, patience=PATIENCE)
        _serve(task, link)
    except Exception as error:
        log.exception("agent %d failed", task.agent)
        if link is not None:
            header = Header(Kind.FAILURE, task.run, task.agent)
            link.send(wire.encode_failure(header, describe_failure(error)))
            link.close(LAST_WORDS_SECONDS)
        sys.exit(1)  # which waits until the queue has taken the traceback
    link.close()
    log_queue.cancel_join_thread()  # a good end must not wait for a log that nobody reads any more


def describe_failure(error: Exception) -> str:
    """Last words: a game that broke is named in its fault, anything else by its kind."""
    return str(error) if isinstance(error, GameFault) else f"{type(error).__name__}: {error}"


def _serve(task: AgentTask, link: AgentLink) -> None:
    players: list[Player] = []
    parent = multiprocessing.parent_process()
    assert parent is not None
    for player, turn in begin_players(task.config, task.agent):
        players.append(player)
        link.say(task.run, turn, player.acting.schema)
    while True:
        head = link.receive()
        if head is None:
            if not parent.is_alive():
                break
            continue
        header = wire.read_header(head)
        if header.kind == Kind.STOP:
            break
        player = players[header.half]
        link.say(task.run, player.play(wire.decode_reply(header, head)), player.acting.schema)
    for player in players:
        player.close()


def set_up_process(log_queue: multiprocessing.Queue[logging.LogRecord], niceness: int = NICENESS) -> None:
    follow_parent(_leave)
    os.nice(niceness)
    root = logging.getLogger()
    root.handlers[:] = [logging.handlers.QueueHandler(log_queue)]
    root.setLevel(logging.INFO)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
