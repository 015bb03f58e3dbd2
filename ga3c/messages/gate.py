"""The way in for agents of other machines: the options of a connection, and the server's socket for them.

The socket is apart from the local one, in a context of its own: keys belong to a socket, and what they cost is the
work of other threads than the one that serves local agents.

That a link is cut is noticed by the system on both sides, as soon with thousands of agents as with one. Signs of life
of ZeroMQ's own are for what the system cannot see: a tunnel whose far end is gone. They are rare, and only the server
asks for them, since libzmq walks through the timers of all connections of a thread with each.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import recv_monitor_message

from ga3c.settings.address import Address, parse_address
from ga3c.settings.declare import ConfigError
from ga3c.system.limits import most_connections
from ga3c.system.logs import SparingLog

if TYPE_CHECKING:
    from ga3c.messages.keys import ServerKeys

log = logging.getLogger(__name__)

IO_THREADS = 4  # of ZeroMQ, among which connections are shared out
MAX_REMOTE = 16_384  # agents of other machines
BACKLOG = 4096  # connections that may wait to be taken in: a whole cluster comes at once
SILENT_SECONDS = 10.0  # a connection of which the other machine confirms nothing for this long is cut
QUIET_SECONDS = 5  # of a connection until the system asks whether the other machine is there, and again each second
HEARTBEAT_SECONDS = 30.0  # between two signs of life that the server asks an agent for
CURVE_BYTES = 64  # more than encryption adds to a message
LINGER_SECONDS = 0.5  # for the last words of a server to those whom they can reach
ZAP_ENDPOINT = "inproc://zeromq.zap.01"  # where ZeroMQ asks whether a key is welcome
ZAP_DOMAIN = b"ga3c"
MONITOR = "inproc://ga3c.gate"
REFUSALS = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH


def set_up_connection(sock: zmq.Socket[bytes], address: Address) -> None:
    """What both ends of a connection between machines have in common: a cut is noticed, and mended by itself."""
    sock.setsockopt(zmq.IPV6, int(address.is_ipv6))
    sock.setsockopt(zmq.TCP_KEEPALIVE, 1)
    sock.setsockopt(zmq.TCP_KEEPALIVE_IDLE, QUIET_SECONDS)
    sock.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 1)
    sock.setsockopt(zmq.TCP_KEEPALIVE_CNT, round(SILENT_SECONDS) - QUIET_SECONDS)
    sock.setsockopt(zmq.TCP_MAXRT, round(1000 * SILENT_SECONDS))


class Gate:
    """The server's socket for agents of other machines. Made by any thread, then used by that of the exchange only."""

    def __init__(self, listen: str, keys: ServerKeys | None, *, largest_message: int) -> None:
        self._keys = keys
        self._refused = SparingLog(log, "%d connection(s) refused: without the right keys, or not of ga3c%s")
        self._context = zmq.Context(IO_THREADS)
        self._zap = self._context.socket(zmq.REP)
        self._zap.setsockopt(zmq.LINGER, 0)
        self._zap.bind(ZAP_ENDPOINT)  # before anyone can ask: unasked, ZeroMQ lets every key in
        address = parse_address("LISTEN", listen)
        self.router: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        set_up_connection(self.router, address)
        self.router.setsockopt(zmq.BACKLOG, BACKLOG)
        self.router.setsockopt(zmq.HEARTBEAT_IVL, round(1000 * HEARTBEAT_SECONDS))
        self.router.setsockopt(zmq.HEARTBEAT_TIMEOUT, round(1000 * SILENT_SECONDS))
        self.router.setsockopt(zmq.HEARTBEAT_TTL, round(1000 * (HEARTBEAT_SECONDS + SILENT_SECONDS)))  # for the agent
        self.router.setsockopt(zmq.LINGER, round(1000 * LINGER_SECONDS))
        self.router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.router.setsockopt(zmq.MAXMSGSIZE, largest_message + CURVE_BYTES)
        if keys is not None:
            self.router.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
            self.router.setsockopt(zmq.CURVE_SERVER, 1)
            self.router.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        self.router.monitor(MONITOR, REFUSALS | zmq.EVENT_DISCONNECTED)
        self._monitor = self._context.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.RCVHWM, 0)  # else ZeroMQ's threads would wait where many connections go at once
        self._monitor.connect(MONITOR)
        try:
            self.router.bind(str(address))
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(f"LISTEN={listen} cannot be listened at: {error.strerror}") from None
        self.endpoint = self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        log.info("agents of other machines may join at %s%s", self.endpoint, "" if keys else " (without keys)")
        self.most = int(min(MAX_REMOTE, most_connections()))  # agents
        if self.most < MAX_REMOTE:
            log.info("there is room for %d of them: 'ulimit -n' says how many files may be open", self.most)

    def register(self, poller: zmq.Poller) -> None:
        for sock in (self.router, self._zap, self._monitor):
            poller.register(sock, zmq.POLLIN)

    def attend(self, ready: dict[object, int]) -> list[int]:
        """Answer whether a key is welcome, and tell of connections that were refused. Returns those that are gone."""
        if self._zap in ready:
            self._judge(self._zap.recv_multipart())
        gone = []
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)
            if event["event"] == zmq.EVENT_DISCONNECTED:
                gone.append(int(event["value"]))
            elif event["event"] != zmq.EVENT_HANDSHAKE_FAILED_AUTH:  # which was told when it was judged
                self._refused.add("")
        return gone

    def close(self) -> None:
        self.router.monitor(None, 0)
        for sock in (self._monitor, self.router, self._zap):
            sock.close()
        self._context.term()

    def _judge(self, question: list[bytes]) -> None:
        version, number, _, address, _, mechanism, *credentials = question
        welcome = mechanism == b"CURVE" and self._keys is not None and credentials == [self._keys.allowed]
        if not welcome:
            self._refused.add(f"; the last came from {address.decode(errors='replace')}")
        code, text = (b"200", b"OK") if welcome else (b"400", b"unknown key")
        self._zap.send_multipart([version, number, code, text, b"", b""])
