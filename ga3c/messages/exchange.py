"""The server's end of all connections: a ROUTER, owned by one thread. The agents' ends are in ``links``.

Everything of an agent travels over one connection: requests, experiences and scores in, replies and STOP out. The
thread sorts what comes in and books it (``ga3c.memory.intake``); other threads hand it what goes out. Where the server
listens for agents of other machines, these have a ROUTER of their own, and join by themselves instead of being
admitted.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import zmq

from ga3c.games.spec import EnvSpec
from ga3c.memory.experience import Schema
from ga3c.memory.intake import Intake
from ga3c.memory.ledger import LedgerError
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Answer
from ga3c.messages import wire
from ga3c.messages.compression import Decompressor
from ga3c.messages.links import REMOTE, identity
from ga3c.messages.member import Member, Members
from ga3c.messages.wire import Buffer, Header, Kind, LayoutError, WireError
from ga3c.system.logs import SparingLog
from ga3c.system.private_directory import PrivateDirectory

if TYPE_CHECKING:
    from ga3c.messages.gate import Gate

log = logging.getLogger(__name__)

DRAIN = 256  # messages sorted before replies get their turn
WAITING_MOST = 64  # messages of one connection that wait to be sorted; beyond, its sender waits, and no memory grows
JOINS_TOLD = 50  # agents of other machines of which each has a line when it joins; of more there are only a few lines


class Outgoing(NamedTuple):
    """A message to an agent; a reply has the version that it was predicted with."""

    agent: int
    head: bytes
    version: int | None = None


class Exchange:
    """The server's end. Only messages of this run, from agents that were admitted, get through."""

    def __init__(
        self,
        run_id: int,
        spec: EnvSpec,
        schema: Schema,
        intake: Intake,
        stats: Stats,
        *,
        largest_message: int,
        halves: int,
        gate: Gate | None = None,
        welcome: dict[str, Any] | None = None,
        on_leave: Callable[[int], None] = lambda agent: None,
    ) -> None:
        """With a ``gate``, ``welcome`` is what agents that join there are told: the settings that they need."""
        self._run_id = run_id
        self._spec = spec
        self._schema = schema
        self._intake = intake
        self._stats = stats
        self._on_leave = on_leave  # of an agent, by its number
        self._halves = halves  # of an agent, each of which waits for one reply at a time
        self._membership = threading.Lock()
        self._members = Members()
        self._outgoing: deque[Outgoing] = deque()
        self._bad = SparingLog(log, "%d bad message(s) dropped, the last one: %s")
        self._many_joined = SparingLog(log, "%d more agent(s) joined, the last one: %s", logging.INFO)
        self._closed = threading.Event()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._context = zmq.Context()
        self._directory = PrivateDirectory()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.RCVHWM, WAITING_MOST)
        self._router.setsockopt(zmq.MAXMSGSIZE, largest_message)
        self.endpoint = f"ipc://{self._directory.path / 'server'}"
        self._router.bind(self.endpoint)
        self._gate = gate
        self._decompressor = Decompressor(largest_message)
        self._welcome = welcome
        self._idle = self._held = 0.0  # seconds of these, likewise
        self._received = self._unpacked = self._sent = 0  # bytes of agents of other machines that are not counted yet

    # Called by any thread.

    def admit(self, agent: int, envs: int) -> None:
        with self._membership:
            self._members.add(agent, Member(identity(self._run_id, agent)))
            self._stats.ledger.open(agent, envs)

    def dismiss(self, agent: int) -> int:
        """Take no more messages of this agent. Returns its steps that never arrived in an experience: they are lost."""
        with self._membership:
            self._members.remove(agent)
            lost = self._stats.ledger.leave(agent)
        self._on_leave(agent)
        return lost

    def member(self, agent: int) -> Member:
        """What is counted of it up to now."""
        with self._membership:
            return replace(self._members.present[agent])

    def remote_members(self) -> dict[int, Member]:
        """All agents of other machines. They are no copies, of which thousands would take time: only to be read."""
        with self._membership:
            return dict(self._members.remote)

    def gone(self) -> dict[int, str]:
        """Agents of other machines that are there no more, and what became of each, until they are dismissed."""
        with self._membership:
            return dict(self._members.gone)

    def refuse_more(self) -> None:
        """Whoever wants to join from now on is told to STOP."""
        self._welcome = None

    def reply(self, answers: list[Answer]) -> None:
        """Send what was predicted."""
        self._send(
            Outgoing(
                agent,
                wire.encode_reply(Header(Kind.REPLY, self._run_id, agent, reply.half, reply.version), reply.outputs)[0],
                reply.version,
            )
            for agent, reply in answers
        )

    def stop_agent(self, agent: int) -> None:
        self._send([Outgoing(agent, Header(Kind.STOP, self._run_id, agent).pack())])

    def close(self) -> None:
        """End ``run``, which then closes the sockets."""
        self._closed.set()
        self._send([])

    def _send(self, messages: Iterable[Outgoing]) -> None:
        self._outgoing.extend(messages)
        # Where the pipe is full, wake-ups enough are under way; where it is closed, nobody needs one.
        with contextlib.suppress(OSError):
            self._wake_out.send(b"!")

    # The thread itself.

    def run(self) -> None:
        try:
            poller = zmq.Poller()
            poller.register(self._router, zmq.POLLIN)
            poller.register(self._wake_in.fileno(), zmq.POLLIN)
            if self._gate is not None:
                self._gate.register(poller)
            while not self._closed.is_set():
                ready = dict(poller.poll(1000))
                if self._wake_in.fileno() in ready:
                    self._wake_in.recv(4096)
                self._send_outgoing()
                if self._router in ready:
                    self._receive(self._router)
                if self._gate is not None:
                    gone = self._gate.attend(ready)
                    if gone:
                        with self._membership:
                            for connection in gone:
                                self._members.lose(connection)
                    if self._gate.router in ready:
                        self._receive(self._gate.router)
            self._send_outgoing()
        finally:
            self._release()

    def _release(self) -> None:
        self._router.close()
        self._context.term()
        if self._gate is not None:
            self._gate.close()
        self._wake_in.close()
        self._wake_out.close()
        self._directory.close()

    def _send_outgoing(self) -> None:
        now = time.monotonic() if self._outgoing else 0.0
        while self._outgoing:
            agent, head, version = self._outgoing.popleft()
            with self._membership:
                member = self._members.present.get(agent)
                if member is not None:
                    if version is not None:
                        if member.held:
                            self._held += now - member.held
                            member.held = 0.0
                        member.replies += 1
                        member.version = max(member.version, version)
                    self._post(member.route, head)
                elif agent in self._members.former:  # which may not have heard yet that it has to STOP
                    self._post(self._members.former[agent], head)

    def _post(self, route: bytes, head: bytes) -> None:
        router = self._router
        if self._gate is not None and route.startswith(REMOTE):
            router = self._gate.router
            self._sent += len(head)
        try:
            router.send_multipart([route, head], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            # EHOSTUNREACH: the end of an agent is noticed elsewhere. EAGAIN: it does not read.
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise

    def _receive(self, router: zmq.Socket[bytes]) -> None:
        """Sort what has arrived, which then goes on in one go."""
        for _ in range(DRAIN):
            try:
                parts = router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            try:
                self._sort(parts, remote=router is not self._router)
            except (WireError, LedgerError) as error:
                self._stats.add(bad_messages=1)
                self._bad.add(error)
        self._intake.pass_on()
        if router is not self._router:
            self._count_traffic()

    def _count_traffic(self) -> None:
        self._stats.add(
            network_in=self._received,
            network_unpacked=self._unpacked,
            network_out=self._sent,
            remote_idle=self._idle,
            remote_held=self._held,
        )
        self._received = self._unpacked = self._sent = 0
        self._idle = self._held = 0.0

    def _sort(self, parts: list[zmq.Frame], *, remote: bool) -> None:
        if len(parts) != 3:
            raise WireError(f"a message of {len(parts)} parts")
        sender, head, body = parts[0].bytes, parts[1].bytes, parts[2].buffer
        if sender.startswith(REMOTE) != remote:
            raise WireError("a message over a connection of a wrong name")
        try:
            header = wire.read_header(head)
        except LayoutError:
            if remote:  # it then sees which layout is spoken here
                self._post(sender, Header(Kind.REJOIN, self._run_id, 0).pack())
            raise
        if remote and self._gate is not None and header.kind == Kind.JOIN:
            self._join(self._gate, sender, wire.decode_join(head), parts[1])
            return
        with self._membership:
            known = self._members.present.get(header.agent)
            route = known.route if known is not None else self._members.former.get(header.agent)
            if remote and (header.run != self._run_id or known is None):
                self._post(sender, Header(Kind.REJOIN, self._run_id, header.agent).pack())
            if header.run != self._run_id or route != sender:
                raise WireError(f"a message of agent {header.agent} of run {header.run:016x} from a stranger")
            if known is not None:
                if header.compressed and not remote:
                    raise WireError(f"agent {header.agent} compresses on one machine")
                self._take(known, header, head, self._unpack(header, head, body) if remote else body)

    def _join(self, gate: Gate, sender: bytes, join: wire.Join, frame: zmq.Frame) -> None:
        """Give a number to an agent of another machine, instead of the one that it may have had."""
        welcome = self._welcome
        if welcome is None:
            self._post(sender, Header(Kind.STOP, self._run_id, 0).pack())
            return
        envs = welcome["envs_per_agent"]
        with self._membership:
            others = len(self._members.remote)
            if others >= gate.most:
                raise WireError(f"more than {gate.most} agents of other machines")
            number = self._stats.number_agent()
            self._members.add(number, Member(sender, token=join.token, connection=int(frame.get("__fd"))))
            self._stats.ledger.open(number, envs)
        if others < JOINS_TOLD:
            log.info("agent %d of %s joined (ga3c %s)", number, frame.get("Peer-Address"), join.version)
        else:
            self._many_joined.add(f"{number} of {frame.get('Peer-Address')}")
        self._post(sender, wire.encode_welcome(Header(Kind.WELCOME, self._run_id, number), welcome)[0])

    def _unpack(self, header: Header, head: bytes, body: memoryview) -> Buffer:
        """The body of a message of another machine as it was before it was compressed."""
        self._received += len(head) + len(body)
        whole = self._decompressor.unpack(body) if header.compressed else body
        self._unpacked += len(head) + len(whole)
        return whole

    def _note_wait(self, member: Member, waited: float) -> None:
        """Of a request of an agent of another machine: how long it had nothing to do, and whether it waits for us."""
        now = time.monotonic()
        if member.asked:
            self._idle += min(waited, now - member.asked)  # it cannot have had more, whatever it says
        member.asked = now
        if member.waiting == self._halves:
            member.held = now

    def _take(self, member: Member, header: Header, head: bytes, body: Buffer) -> None:
        """Decode a message of an agent of this run, and book it."""
        if header.half >= self._halves:
            raise WireError(f"agent {header.agent} has no half {header.half}")
        match header.kind:
            case Kind.REQUEST:
                if member.waiting >= self._halves:
                    raise WireError(f"agent {header.agent} asks again before it was answered")
                request = wire.decode_request(header, head, body, self._spec)
                self._intake.request(request)
                member.requests += 1
                member.played += request.played
                if member.token:
                    self._note_wait(member, header.version / 1e6)
            case Kind.EXPERIENCE:
                experience = wire.decode_experience(header, head, body, self._spec, self._schema)
                if experience.version > member.version:
                    raise WireError(f"agent {header.agent} was never told of version {experience.version}")
                self._intake.experience(experience)
            case Kind.SCORES:
                games = wire.decode_scores(head)
                # A reply is played once, and a step ends each game once: no more scores come, however many are sent.
                if body or member.scores >= member.replies:
                    raise WireError(f"scores of agent {header.agent} that no step can have ended with")
                member.scores += 1
                self._intake.scores(games)
            case Kind.FAILURE:
                member.last_words = wire.decode_failure(head)
            case _:
                raise WireError(f"an agent does not send {header.kind.name}")
        member.heard += 1  # only now: one that talks nonsense is as silent as one that says nothing
