"""An agent for a server on another machine: it plays as a local one does, and joins again whenever it has to.

It joins over a connection with a random name, and over another one after each that broke: nothing that was meant for
the old number can reach the new one. Its environments stay. Never imports torch.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import secrets
import sys
import time
from contextlib import closing
from typing import NamedTuple, NoReturn

import ga3c
from ga3c.agents.player import Player, begin_players
from ga3c.agents.process import PATIENCE, set_up_process
from ga3c.agents.silence import START_PATIENCE
from ga3c.messages import wire
from ga3c.messages.keys import AgentKeys
from ga3c.messages.links import RETRY_MOST, RETRY_SECONDS, NetworkLink
from ga3c.messages.wire import Join, Kind, LayoutError, WireError
from ga3c.settings.config import TRAVELLING, Resolved
from ga3c.settings.declare import ConfigError

log = logging.getLogger(__name__)

# How the process ends, beyond 0 for SIGTERM and 1 for a failure.
RUN_OVER = 3  # the server said STOP
UNFIT = 4  # this machine cannot play what the server wants

ANSWER_SECONDS = 5.0  # that a server has to welcome an agent
COMPLAIN_SECONDS = 60.0  # between two lines about a server that does not answer


class RemoteTask(NamedTuple):
    """All that the process has to know; the rest is told by the server."""

    server: str
    keys: AgentKeys | None
    number: int  # among the agents of its machine; the first speaks for all, where what they say is the same
    steps: ctypes.Array[ctypes.c_uint64]  # played by each of them


class Welcome(NamedTuple):
    """What a server gives to an agent that joins."""

    run: int
    agent: int
    config: Resolved


class RemoteAgent:
    """``serve`` is the body of the process."""

    def __init__(self, task: RemoteTask) -> None:
        self._task = task
        self._token = secrets.token_bytes(wire.TOKEN_BYTES)
        self._config: Resolved | None = None
        self._players: list[Player] = []
        self._answered = time.monotonic()
        self._complained = -COMPLAIN_SECONDS
        self._parent = multiprocessing.parent_process()

    def serve(self) -> NoReturn:
        """Play until the server says STOP; one that only vanished is waited for."""
        pause = RETRY_SECONDS
        while True:
            with closing(NetworkLink(self._task.server, self._task.keys)) as link:
                welcome = self._join(link)
                if welcome is not None:
                    self._begin(link, welcome)
                    self._play(link, welcome)
                    pause = RETRY_SECONDS
                    continue
            time.sleep(pause)
            pause = min(2 * pause, RETRY_MOST)

    def _join(self, link: NetworkLink) -> Welcome | None:
        link.send(wire.encode_join(Join(self._token, ga3c.__version__)))
        until = time.monotonic() + ANSWER_SECONDS
        while not link.broken and time.monotonic() < until:
            head = self._receive(link)
            if head is not None and (header := wire.read_header(head)).kind == Kind.WELCOME:
                self._answered = time.monotonic()
                return Welcome(header.run, header.agent, read_settings(head))
        self._complain(link)
        return None

    def _begin(self, link: NetworkLink, welcome: Welcome) -> None:
        link.compress(welcome.config.compress)
        again = "again " if self._players else ""
        log.info("joined %s %sas agent %d: %s", self._task.server, again, welcome.agent, welcome.config.game)
        if welcome.config == self._config:
            for player in self._players:
                link.say(welcome.run, player.rejoin(welcome.agent), player.acting.schema)
            return
        for player in self._players:
            player.close()
        self._players.clear()
        for player, turn in begin_players(welcome.config, welcome.agent):
            self._players.append(player)
            link.say(welcome.run, turn, player.acting.schema)
        self._config = welcome.config

    def _play(self, link: NetworkLink, welcome: Welcome) -> None:
        """Answer predictions with play, until the connection breaks or the number is void."""
        heard = time.monotonic()
        waited = 0.0  # seconds without anything to do, since the last request
        while not link.broken:
            before = time.monotonic()
            head = self._receive(link)
            now = time.monotonic()
            waited += now - before
            if head is not None:
                heard = now
                header = wire.read_header(head)
                if header.kind != Kind.REPLY:
                    return
                player = self._players[header.half]
                reply = wire.decode_reply(header, head)
                link.say(welcome.run, player.play(reply), player.acting.schema, waited)
                waited = 0.0
                self._task.steps[self._task.number] += len(reply.outputs)
            elif now - heard > START_PATIENCE * welcome.config.stall_seconds:
                log.warning("%s was silent for %.0f s", self._task.server, now - heard)
                return
        log.warning("the connection to %s is lost; joining again", self._task.server)

    def _receive(self, link: NetworkLink) -> bytes | None:
        """What the server says, if it says something."""
        head = link.receive(PATIENCE)
        if head is None:
            if self._parent is not None and not self._parent.is_alive():
                sys.exit(1)
            return None
        kind = wire.read_header(head).kind
        if kind == Kind.STOP:
            for player in self._players:
                player.close()
            sys.exit(RUN_OVER)
        return head

    def _complain(self, link: NetworkLink) -> None:
        now = time.monotonic()
        told = now - self._complained < COMPLAIN_SECONDS
        if told or self._task.number > 0 or not (link.refused or now - self._answered > ANSWER_SECONDS):
            return
        self._complained = now
        if link.refused:
            log.error("%s refuses the keys of this machine; trying again", self._task.server)
        else:
            log.warning("no answer from %s: is it there, and are the keys right? Trying again", self._task.server)


def read_settings(head: bytes) -> Resolved:
    """The settings that a server sent: those that playing needs, and no others."""
    settings = wire.decode_welcome(head)
    if settings.keys() != set(TRAVELLING):
        raise WireError(f"settings of another version: {', '.join(settings.keys() ^ set(TRAVELLING))}")
    return Resolved.from_mapping(settings)


def run_remote_agent(task: RemoteTask, log_queue: multiprocessing.Queue[logging.LogRecord]) -> None:
    """The body of the process."""
    set_up_process(log_queue)
    try:
        RemoteAgent(task).serve()
    except LayoutError as error:
        log.error("%s is of another version of ga3c: %s", task.server, error)
        sys.exit(UNFIT)
    except ConfigError as error:
        log.error("this machine cannot play what %s wants: %s", task.server, error)
        sys.exit(UNFIT)
    except Exception:
        log.exception("an agent failed")
        sys.exit(1)
