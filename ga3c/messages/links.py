"""The agent's end of its connection to the server: one DEALER, on this machine or from another one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import zmq

from ga3c.memory.experience import Schema
from ga3c.memory.turn import Turn
from ga3c.messages import wire
from ga3c.messages.wire import Header, Kind, Parts
from ga3c.settings.address import parse_address

if TYPE_CHECKING:
    from ga3c.messages.compression import Compressor
    from ga3c.messages.keys import AgentKeys

CONNECT_SECONDS = 2.0  # that a connection may take, or it is tried anew: a link that is back is used soon
RETRY_SECONDS, RETRY_MOST = 0.2, 2.0  # before a connection is tried again; doubles each time
LOCAL, REMOTE = b"A", b"N"  # what names of connections begin with; ZeroMQ keeps the zero byte for itself


def identity(run: int, agent: int) -> bytes:
    """The name of a local agent's connection."""
    return LOCAL + run.to_bytes(8, "little") + agent.to_bytes(4, "little")


class Link:
    """An agent's end: one DEALER that sends everything and receives replies and STOP."""

    def __init__(self, name: bytes) -> None:
        self._context = zmq.Context()
        self._dealer: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.IDENTITY, name)
        self._dealer.setsockopt(zmq.LINGER, 0)

    def send(self, *messages: Parts) -> None:
        for head, body in messages:
            self._dealer.send(head, zmq.SNDMORE)
            self._dealer.send(body)

    def say(self, run: int, turn: Turn, schema: Schema, waited: float = 0.0) -> None:
        """Send what comes of a turn: the request last, since it makes the server act.

        ``waited``: seconds in which the agent had nothing to do since it sent the last one.
        """
        agent, half = turn.request.agent, turn.request.half
        for experience in turn.experiences:
            self.send(wire.encode_experience(run, half, experience, schema))
        if turn.finished:
            self.send(wire.encode_scores(Header(Kind.SCORES, run, agent, half), turn.finished))
        self.send(wire.encode_request(run, turn.request, round(1e6 * waited)))

    def close(self, linger: float = 0.0) -> None:
        """Leave; what was sent gets so many seconds to arrive."""
        self._dealer.close(round(linger * 1000))
        self._context.term()


class AgentLink(Link):
    """The end of an agent that was admitted."""

    def __init__(self, endpoint: str, run: int, agent: int, *, patience: float) -> None:
        super().__init__(identity(run, agent))
        self._dealer.setsockopt(zmq.RCVTIMEO, round(patience * 1000))
        self._dealer.connect(endpoint)

    def receive(self) -> bytes | None:
        """The next message of the server, or None if there was none for as long as the patience lasts."""
        try:
            return self._dealer.recv()
        except zmq.Again:
            return None


class NetworkLink(Link):
    """A connection to a server on another machine; when it has broken, another one is needed."""

    def __init__(self, server: str, keys: AgentKeys | None) -> None:
        # Not at the top: asyncio and ssl come with it, which no agent of the server's own machine needs.
        from zmq.utils.monitor import recv_monitor_message

        from ga3c.messages.gate import set_up_connection

        super().__init__(REMOTE + secrets.token_bytes(16))
        self._next_event = recv_monitor_message
        self.broken = False
        self.refused = False  # for the keys that it came with
        address = parse_address("SERVER", server)
        self._loopback = address.is_loopback
        self._compressor: Compressor | None = None
        set_up_connection(self._dealer, address)
        self._dealer.setsockopt(zmq.SNDHWM, 0)  # it sends no more than it is asked for, and must not wait
        self._dealer.setsockopt(zmq.CONNECT_TIMEOUT, round(1000 * CONNECT_SECONDS))
        self._dealer.setsockopt(zmq.RECONNECT_IVL, round(1000 * RETRY_SECONDS))
        self._dealer.setsockopt(zmq.RECONNECT_IVL_MAX, round(1000 * RETRY_MOST))
        if keys is not None:
            self._dealer.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
            self._dealer.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
            self._dealer.setsockopt(zmq.CURVE_SERVERKEY, keys.server)
        self._monitor = self._dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        self._poller = zmq.Poller()
        self._poller.register(self._dealer, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._dealer.connect(str(address))

    def compress(self, compress: bool | None) -> None:
        """From now on, as COMPRESS of the server says."""
        from ga3c.messages.compression import Compressor

        self._compressor = Compressor(compress, loopback=self._loopback)

    def send(self, *messages: Parts) -> None:
        super().send(*(map(self._compressor.pack, messages) if self._compressor is not None else messages))

    def receive(self, seconds: float) -> bytes | None:
        """The next message of the server, or None if there was none for so long, or the connection broke."""
        ready = dict(self._poller.poll(round(1000 * seconds)))
        if self._dealer in ready:
            return self._dealer.recv()
        if self._monitor in ready:
            event = self._next_event(self._monitor)["event"]
            self.broken = self.broken or event == zmq.EVENT_DISCONNECTED
            self.refused = self.refused or event == zmq.EVENT_HANDSHAKE_FAILED_AUTH
        return None

    def close(self, linger: float = 0.0) -> None:
        self._dealer.disable_monitor()
        self._monitor.close()
        super().close(linger)
