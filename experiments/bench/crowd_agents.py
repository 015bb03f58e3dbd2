"""The agents of the crowd: connections that join, ask and deliver as agents do, many to a process, without games."""

from __future__ import annotations

import resource
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import zmq

import ga3c
from experiments.processes import Orders
from ga3c.algorithms.rule import make_acting
from ga3c.games.make import make_games
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience, Schema
from ga3c.memory.turn import Request
from ga3c.messages import wire
from ga3c.messages.compression import Compressor
from ga3c.messages.gate import set_up_connection
from ga3c.messages.keys import AgentKeys
from ga3c.messages.links import REMOTE
from ga3c.messages.wire import Join, Kind, Parts
from ga3c.settings.address import parse_address
from ga3c.settings.config import Resolved
from ga3c.settings.declare import ConfigError

FILES = 100  # that a process needs beside its connections
FILES_PER_CONNECTION = {"gate": 1, "agents": 2}
BLOCK = 50  # steps of an experience
RECORDED = 300  # steps of chance
UNDER_WAY = 64  # requests of a process that wait for their reply
REPLY_SECONDS = 60.0
BATCH = 250  # connections that join at a time
CONNECTIONS_PER_THREAD = 500  # of ZeroMQ: else timers would cost these processes what they never cost an agent


@dataclass(frozen=True)
class Recording:
    """What agents show: frames of a game that was played by chance."""

    spec: EnvSpec
    schema: Schema
    frames: np.ndarray

    def request(self, run: int, agent: int, at: int) -> Parts:
        at %= RECORDED - self.spec.stack
        observations = self.frames[None, at : at + self.spec.stack]
        return wire.encode_request(run, Request(agent, 0, 0, b"\0", observations))

    def block(self, run: int, agent: int, first_step: int) -> Parts:
        length = self.spec.stack - 1 + BLOCK + self.schema.reached
        at = first_step % (RECORDED - length)
        fields = {field.name: np.zeros((BLOCK, *field.shape), field.dtype) for field in self.schema.fields}
        experience = Experience(agent, 0, first_step, 0, self.frames[at : at + length], fields)
        return wire.encode_experience(run, 0, experience, self.schema)


def record(config: Resolved, stack: int | None) -> Recording:
    """With ``stack`` frames to an observation instead of the game's own number."""
    games, chance = make_games(config, 1), np.random.default_rng(0)
    assert isinstance(games.spec.action, Discrete)
    games.reset(0)
    shown = [games.step(chance.integers(0, games.spec.action.n, 1)).observations[0, -1] for _ in range(RECORDED)]
    games.close()
    spec = replace(games.spec, stack=stack or games.spec.stack)
    return Recording(spec, make_acting(config, spec).schema, np.stack(shown))


class Connection:
    """One agent."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        keys: AgentKeys,
        number: int,
        pack: Callable[[Parts], Parts] = lambda parts: parts,
    ) -> None:
        self.run = self.agent = self.steps = 0
        self._pack = pack
        self._token = number.to_bytes(wire.TOKEN_BYTES, "little")
        self._dealer: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.IDENTITY, REMOTE + self._token)
        self._dealer.setsockopt(zmq.LINGER, 0)
        self._dealer.setsockopt(zmq.RCVTIMEO, round(1000 * REPLY_SECONDS))
        self._dealer.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
        self._dealer.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        self._dealer.setsockopt(zmq.CURVE_SERVERKEY, keys.server)
        set_up_connection(self._dealer, parse_address("SERVER", endpoint))
        self._dealer.connect(endpoint)
        self.send(wire.encode_join(Join(self._token, ga3c.__version__)))

    def send(self, parts: Parts) -> None:
        head, body = self._pack(parts)
        self._dealer.send(head, zmq.SNDMORE)
        self._dealer.send(body)

    def receive(self, kind: Kind) -> None:
        while (header := wire.read_header(self._dealer.recv())).kind != kind:
            if header.kind in (Kind.REJOIN, Kind.STOP):
                raise RuntimeError(f"an agent was told to {header.kind.name}")
        self.run, self.agent = header.run, header.agent


def crowd_in(
    orders: Orders, config: Resolved, recording: Recording, endpoint: str, keys: AgentKeys, count: int
) -> None:
    """The body of a process with so many agents."""
    raise_files(FILES + FILES_PER_CONNECTION["agents"] * count)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1 + count // CONNECTIONS_PER_THREAD)
    context.set(zmq.MAX_SOCKETS, count + 16)
    numbers = iter(np.random.default_rng().integers(0, 2**62, count).tolist())
    pack = Compressor(config.compress, loopback=True).pack
    connections: list[Connection] = []
    orders.answer()
    while (order := orders.next())[0] != "end":
        before = time.process_time()
        match order:
            case ("join",):
                for start in range(0, count, BATCH):
                    joining = [
                        Connection(context, endpoint, keys, next(numbers), pack)
                        for _ in range(min(BATCH, count - start))
                    ]
                    for connection in joining:
                        connection.receive(Kind.WELCOME)
                    connections += joining
                orders.answer()
            case ("messages", seconds, _):
                sent, took = ask(connections, recording, seconds)
                orders.answer((sent, took, time.process_time() - before))
            case ("blocks", seconds, rate):
                sent, took = deliver(connections, recording, seconds, rate)
                orders.answer((sent, took, time.process_time() - before))
    context.destroy(linger=0)


def raise_files(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ConfigError(f"so many connections need {needed} open files in a process: 'ulimit -n {needed}' as root")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def in_turn(connections: list[Connection]) -> Iterator[Connection]:
    while True:
        yield from connections


def ask(connections: list[Connection], recording: Recording, seconds: float) -> tuple[int, float]:
    """As many requests as get through; one after the other asks, and waits for its reply."""
    waiting: deque[Connection] = deque()
    sent, started = 0, time.monotonic()
    for connection in in_turn(connections):
        connection.send(recording.request(connection.run, connection.agent, sent))
        waiting.append(connection)
        sent += 1
        if len(waiting) >= min(UNDER_WAY, len(connections)):
            waiting.popleft().receive(Kind.REPLY)
            if time.monotonic() - started > seconds:
                break
    for connection in waiting:
        connection.receive(Kind.REPLY)
    return sent, time.monotonic() - started


def deliver(connections: list[Connection], recording: Recording, seconds: float, rate: float) -> tuple[int, float]:
    """So many blocks a second of all together, evenly."""
    sent, started = 0, time.monotonic()
    for connection in in_turn(connections):
        connection.send(recording.block(connection.run, connection.agent, connection.steps))
        connection.steps += BLOCK
        sent += 1
        now = time.monotonic() - started
        if now > seconds:
            break
        time.sleep(max(sent / rate - now, 0.0))
    return sent, time.monotonic() - started
