"""The sockets: the server's one ROUTER, owned by one thread, and each agent's DEALER.

Everything of an agent travels over one connection: requests, experiences and scores in, replies and STOP out. The
thread sorts what comes in into the two queues; other threads hand it what goes out.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import zmq

from ga3c import wire
from ga3c.envs import EnvSpec
from ga3c.queues import Queue
from ga3c.rollout import Experience
from ga3c.stats import Stats
from ga3c.wire import Header, Kind, Parts, Request, WireError

if TYPE_CHECKING:
    from ga3c.private import PrivateDirectory

log = logging.getLogger(__name__)

DRAIN = 256  # messages sorted before replies get their turn
BAD_LOG_SECONDS = 10.0  # between two lines about bad messages


def identity(run: int, agent: int) -> bytes:
    """The name of an agent's connection; never starts with the zero byte that ZeroMQ keeps for itself."""
    return b"A" + run.to_bytes(8, "little") + agent.to_bytes(4, "little")


@dataclass
class Member:
    """What is counted of one agent: steps that it played and those that came in experiences, and its messages."""

    played: int = 0
    delivered: int = 0
    heard: int = 0  # messages
    requests: int = 0
    replies: int = 0
    last_words: str = ""  # why it ended by itself

    @property
    def waiting(self) -> int:
        """Requests that it waits for the answer of."""
        return self.requests - self.replies


class Exchange:
    """The server's end. Only messages of this run, from agents that were admitted, get through."""

    def __init__(
        self,
        run_id: int,
        spec: EnvSpec,
        requests: Queue[Request],
        experiences: Queue[Experience],
        stats: Stats,
        *,
        largest_message: int,
    ) -> None:
        self._run_id = run_id
        self._spec = spec
        self._requests = requests
        self._experiences = experiences
        self._stats = stats
        self._membership = threading.Lock()
        self._members: dict[int, Member] = {}  # each agent that is admitted
        self._former: set[int] = set()  # agents that left: what still comes from them is late, not bad
        self._outgoing: deque[tuple[int, Parts]] = deque()
        self._bad = 0
        self._bad_logged = 0.0
        self._closed = threading.Event()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._context = zmq.Context()
        self._directory: PrivateDirectory | None = None
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.MAXMSGSIZE, largest_message)
        self.endpoint = self._bind()

    def _bind(self) -> str:
        """An ipc socket in a directory of our own (mode 0700), or loopback TCP where there is no ipc."""
        if zmq.has("ipc"):
            from ga3c.private import PrivateDirectory  # which needs what only systems with ipc have

            self._directory = PrivateDirectory()
            endpoint = f"ipc://{self._directory.path / 'server'}"
            self._router.bind(endpoint)
            return endpoint
        port = self._router.bind_to_random_port("tcp://127.0.0.1")
        return f"tcp://127.0.0.1:{port}"

    # Called by any thread.

    def admit(self, agent: int) -> None:
        with self._membership:
            self._members[agent] = Member()

    def dismiss(self, agent: int) -> int:
        """Take no more messages of this agent. Returns its steps that never arrived in an experience: they are lost."""
        with self._membership:
            member = self._members.pop(agent)
            self._former.add(agent)
            return member.played - member.delivered

    def member(self, agent: int) -> Member:
        """What is counted of it up to now."""
        with self._membership:
            return replace(self._members[agent])

    def send(self, messages: list[tuple[int, Parts]]) -> None:
        self._outgoing.extend(messages)
        # Where the pipe is full, wake-ups enough are under way; where it is closed, nobody needs one.
        with contextlib.suppress(OSError):
            self._wake_out.send(b"!")

    def stop_agent(self, agent: int) -> None:
        self.send([(agent, wire.encode_stop(Header(Kind.STOP, self._run_id, agent)))])

    def close(self) -> None:
        """End ``run``, which then closes the sockets."""
        self._closed.set()
        self.send([])

    # The thread itself.

    def run(self) -> None:
        try:
            poller = zmq.Poller()
            poller.register(self._router, zmq.POLLIN)
            poller.register(self._wake_in.fileno(), zmq.POLLIN)
            while not self._closed.is_set():
                ready = dict(poller.poll(1000))
                if self._wake_in.fileno() in ready:
                    self._wake_in.recv(4096)
                self._send_outgoing()
                if self._router in ready:
                    self._receive()
            self._send_outgoing()
        finally:
            self._release()

    def _release(self) -> None:
        self._router.close()
        self._context.term()
        self._wake_in.close()
        self._wake_out.close()
        if self._directory is not None:
            self._directory.close()

    def _send_outgoing(self) -> None:
        while self._outgoing:
            agent, (head, _) = self._outgoing.popleft()
            with self._membership:
                if agent in self._members:
                    self._members[agent].replies += 1
            try:
                self._router.send_multipart([identity(self._run_id, agent), head], zmq.NOBLOCK)
            except zmq.ZMQError as error:
                # EHOSTUNREACH: the agent is gone, and its end is noticed elsewhere. EAGAIN: it does not read.
                if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                    raise

    def _receive(self) -> None:
        """Sort what has arrived into the queues, each queue in one go."""
        requests: list[Request] = []
        experiences: list[Experience] = []
        for _ in range(DRAIN):
            try:
                parts = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            try:
                self._sort(parts, requests, experiences)
            except WireError as error:
                self._count_bad(error)
        # Experiences first: a predictor that these requests wake up then sees how full the training queue is.
        if experiences:
            self._experiences.put(experiences)
        if requests:
            self._stats.add(steps=sum(request.played for request in requests))
            self._requests.put(requests)

    def _sort(self, parts: list[zmq.Frame], requests: list[Request], experiences: list[Experience]) -> None:
        if len(parts) != 3:
            raise WireError(f"a message of {len(parts)} parts")
        sender, head, body = parts[0].bytes, parts[1].bytes, parts[2].buffer
        header = wire.read_header(head)
        if header.run != self._run_id or sender != identity(self._run_id, header.agent):
            raise WireError(f"a message of agent {header.agent} of run {header.run:016x} from a stranger")
        with self._membership:
            self._take(header, head, body, requests, experiences)

    def _take(
        self, header: Header, head: bytes, body: memoryview, requests: list[Request], experiences: list[Experience]
    ) -> None:
        """Decode a message of this run and count its steps, unless its agent is gone."""
        member = self._members.get(header.agent)
        if member is None:
            if header.agent not in self._former:
                raise WireError(f"agent {header.agent} was not admitted")
            return
        member.heard += 1
        if header.kind == Kind.REQUEST:
            request = wire.decode_request(header, head, body, self._spec)
            member.requests += 1
            member.played += request.played
            requests.append(request)
        elif header.kind == Kind.EXPERIENCE:
            experience = wire.decode_experience(header, head, body, self._spec)
            member.delivered += experience.steps
            experiences.append(experience)
        elif header.kind == Kind.SCORES:
            self._stats.add_games(wire.decode_scores(head))
        elif header.kind == Kind.FAILURE:
            member.last_words = wire.decode_failure(head)
        else:
            raise WireError(f"an agent does not send {header.kind.name}")

    def _count_bad(self, error: WireError) -> None:
        self._stats.add(bad_messages=1)
        self._bad += 1
        now = time.monotonic()
        if now - self._bad_logged > BAD_LOG_SECONDS:
            log.warning("%d bad message(s) dropped, the last one: %s", self._bad, error)
            self._bad, self._bad_logged = 0, now


class AgentLink:
    """An agent's end: one DEALER that sends everything and receives replies and STOP."""

    def __init__(self, endpoint: str, run: int, agent: int, *, patience: float) -> None:
        self._context = zmq.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.IDENTITY, identity(run, agent))
        self._dealer.setsockopt(zmq.LINGER, 0)
        self._dealer.setsockopt(zmq.RCVTIMEO, round(patience * 1000))
        self._dealer.connect(endpoint)

    def send(self, messages: list[Parts]) -> None:
        for head, body in messages:
            self._dealer.send(head, zmq.SNDMORE)
            self._dealer.send(body)

    def receive(self) -> bytes | None:
        """The next message of the server, or None if there was none for as long as the patience lasts."""
        try:
            message: bytes = self._dealer.recv()
        except zmq.Again:
            return None
        return message

    def close(self, linger: float = 0.0) -> None:
        """Leave; what was sent gets so many seconds to arrive."""
        self._dealer.close(round(linger * 1000))
        self._context.term()
