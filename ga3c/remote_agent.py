"""An agent for a server on another machine: it plays as a local one does, and joins again whenever it has to.

It joins over a connection with a random name, and over another one after each that broke: nothing that was meant for
the old number can reach the new one. Its environments stay. Never imports torch.
"""

from __future__ import annotations

import logging
import multiprocessing
import secrets
import sys
import time
from contextlib import closing
from typing import NamedTuple, NoReturn

import zmq
from zmq.utils.monitor import recv_monitor_message

import ga3c
from ga3c import wire
from ga3c.address import parse_address
from ga3c.agent import PATIENCE, Player, begin_players, set_up_process
from ga3c.config import AGENT_SETTINGS, Config
from ga3c.exchange import REMOTE, Link
from ga3c.keys import AgentKeys
from ga3c.network import set_up_connection
from ga3c.settings import ConfigError
from ga3c.silence import START_PATIENCE
from ga3c.wire import Join, Kind, LayoutError, WireError

log = logging.getLogger(__name__)

# How the process ends, beyond 0 for SIGTERM and 1 for a failure.
RUN_OVER = 3  # the server said STOP
UNFIT = 4  # this machine cannot play what the server wants

ANSWER_SECONDS = 5.0  # that a server has to welcome an agent
CONNECT_SECONDS = 2.0  # that a connection may take, or it is tried anew: a link that is back is used soon
RETRY_SECONDS, RETRY_MOST = 0.2, 2.0  # before a connection is tried again; doubles each time
COMPLAIN_SECONDS = 60.0  # between two lines about a server that does not answer


class RemoteTask(NamedTuple):
    """All that the process has to know; the rest is told by the server."""

    server: str
    keys: AgentKeys | None
    speaks: bool  # for all of its machine, where what it says is the same for all


class Place(NamedTuple):
    """What a server gives to an agent that joins."""

    run: int
    agent: int
    config: Config


class NetworkLink(Link):
    """A connection to a server on another machine; when it has broken, another one is needed."""

    def __init__(self, task: RemoteTask) -> None:
        super().__init__(REMOTE + secrets.token_bytes(16))
        self.broken = False
        self.refused = False  # for the keys that it came with
        address = parse_address("SERVER", task.server)
        set_up_connection(self._dealer, address)
        self._dealer.setsockopt(zmq.SNDHWM, 0)  # it sends no more than it is asked for, and must not wait
        self._dealer.setsockopt(zmq.CONNECT_TIMEOUT, round(1000 * CONNECT_SECONDS))
        self._dealer.setsockopt(zmq.RECONNECT_IVL, round(1000 * RETRY_SECONDS))
        self._dealer.setsockopt(zmq.RECONNECT_IVL_MAX, round(1000 * RETRY_MOST))
        if task.keys is not None:
            self._dealer.setsockopt(zmq.CURVE_PUBLICKEY, task.keys.public)
            self._dealer.setsockopt(zmq.CURVE_SECRETKEY, task.keys.secret)
            self._dealer.setsockopt(zmq.CURVE_SERVERKEY, task.keys.server)
        self._monitor = self._dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        self._poller = zmq.Poller()
        self._poller.register(self._dealer, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._dealer.connect(str(address))

    def receive(self, seconds: float) -> bytes | None:
        """The next message of the server, or None if there was none for so long, or the connection broke."""
        ready = dict(self._poller.poll(round(1000 * seconds)))
        if self._dealer in ready:
            return self._dealer.recv()
        if self._monitor in ready:
            event = recv_monitor_message(self._monitor)["event"]
            self.broken = self.broken or event == zmq.EVENT_DISCONNECTED
            self.refused = self.refused or event == zmq.EVENT_HANDSHAKE_FAILED_AUTH
        return None

    def close(self, linger: float = 0.0) -> None:
        self._dealer.disable_monitor()
        self._monitor.close()
        super().close(linger)


class RemoteAgent:
    """``serve`` is the body of the process."""

    def __init__(self, task: RemoteTask) -> None:
        self._task = task
        self._token = secrets.token_bytes(wire.TOKEN_BYTES)
        self._config: Config | None = None
        self._players: list[Player] = []
        self._answered = time.monotonic()
        self._complained = -COMPLAIN_SECONDS
        self._parent = multiprocessing.parent_process()

    def serve(self) -> NoReturn:
        """Play until the server says STOP; one that only vanished is waited for."""
        pause = RETRY_SECONDS
        while True:
            with closing(NetworkLink(self._task)) as link:
                place = self._join(link)
                if place is not None:
                    self._begin(link, place)
                    self._play(link, place.config)
                    pause = RETRY_SECONDS
                    continue
            time.sleep(pause)
            pause = min(2 * pause, RETRY_MOST)

    def _join(self, link: NetworkLink) -> Place | None:
        link.send([wire.encode_join(Join(self._token, ga3c.__version__))])
        until = time.monotonic() + ANSWER_SECONDS
        while not link.broken and time.monotonic() < until:
            head = self._receive(link)
            if head is not None and (header := wire.read_header(head)).kind == Kind.WELCOME:
                self._answered = time.monotonic()
                return Place(header.run, header.agent, read_settings(head))
        self._complain(link)
        return None

    def _begin(self, link: NetworkLink, place: Place) -> None:
        again = "again " if self._players else ""
        log.info("joined %s %sas agent %d: %s", self._task.server, again, place.agent, place.config.game)
        if place.config == self._config:
            for player in self._players:
                link.send(player.rejoin(place.run, place.agent))
            return
        for player in self._players:
            player.close()
        self._players.clear()
        for player, messages in begin_players(place.config, place.run, place.agent):
            self._players.append(player)
            link.send(messages)
        self._config = place.config

    def _play(self, link: NetworkLink, config: Config) -> None:
        """Answer predictions with play, until the connection breaks or the number is void."""
        heard = time.monotonic()
        while not link.broken:
            head = self._receive(link)
            if head is not None:
                heard = time.monotonic()
                header = wire.read_header(head)
                if header.kind != Kind.REPLY:
                    return
                link.send(self._players[header.half].play(wire.decode_reply(header, head)))
            elif time.monotonic() - heard > START_PATIENCE * config.stall_seconds:
                log.warning("%s was silent for %.0f s", self._task.server, time.monotonic() - heard)
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
        return None if kind == Kind.PROBE else head

    def _complain(self, link: NetworkLink) -> None:
        now = time.monotonic()
        told = now - self._complained < COMPLAIN_SECONDS
        if told or not self._task.speaks or not (link.refused or now - self._answered > ANSWER_SECONDS):
            return
        self._complained = now
        if link.refused:
            log.error("%s refuses the keys of this machine; trying again", self._task.server)
        else:
            log.warning("no answer from %s: is it there, and are the keys right? Trying again", self._task.server)


def read_settings(head: bytes) -> Config:
    """The settings that a server sent: those that playing needs, and no others."""
    settings = wire.decode_welcome(head)
    if settings.keys() != set(AGENT_SETTINGS):
        raise WireError(f"settings of another version: {', '.join(settings.keys() ^ set(AGENT_SETTINGS))}")
    return Config.from_mapping(settings)


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
