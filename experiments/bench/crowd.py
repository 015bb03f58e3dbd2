"""Thousands of agents at one gate: how soon they are in, what they cost when idle, and how much gets through.

    python -m experiments.bench.crowd CONNECTIONS=10000

The gate, the exchange and the watch over agents are the real ones, in a process of their own, over TCP with keys. The
agents are connections without games: what they say is recorded from one. All processes share this machine's cores, so
that the CPU time of a message is the figure to carry to another machine.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.crowd_agents import BLOCK, FILES, FILES_PER_CONNECTION, crowd_in, raise_files, record
from experiments.options import CrowdOptions
from experiments.processes import Orders, Processes
from ga3c.agents.player import halves
from ga3c.agents.visitors import RemoteAgents
from ga3c.algorithms.rule import make_acting
from ga3c.engines.engine import LOOK_SECONDS
from ga3c.games.make import make_games
from ga3c.games.spec import EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.intake import Intake
from ga3c.memory.queue import Queue
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Reply, Request
from ga3c.messages import wire
from ga3c.messages.exchange import Exchange
from ga3c.messages.gate import Gate
from ga3c.messages.keys import make_keys, read_agent_keys, read_server_keys
from ga3c.settings.config import Resolved
from ga3c.settings.declare import read_words
from ga3c.system.limits import resident_memory

REFERENCE_GAMES, REFERENCE = 32, 4500  # and the steps per second of Pong that the figures are scaled to
SPEED_SECONDS = 0.7
JOIN_SECONDS = 120.0
RUN = 1


class Blocks(Intake):
    """Takes blocks of steps as if they had been played beside an own copy of the network: nobody asked for them."""

    def experience(self, experience: Experience) -> None:
        for _ in range(experience.steps):
            self._stats.ledger.play(experience.agent, experience.env, b"\1" * (experience.env == 0))
        super().experience(experience)
        self._stats.add(steps=experience.steps, samples=experience.steps)


def keep_gate(orders: Orders, config: Resolved, spec: EnvSpec, keys: str, connections: int) -> None:
    """The body of the process with the real gate. What is asked is answered at once, with the same outputs."""
    raise_files(FILES + FILES_PER_CONNECTION["gate"] * connections)
    stats, closed = Stats(), threading.Event()
    acting = make_acting(config, spec)
    requests: Queue[Request] = Queue(lambda request: len(request.observations), most=config.max_prediction_batch)
    arrived = [0]

    def take(experiences: list[Experience]) -> None:
        arrived[0] += len(experiences)
        stats.ledger.settle(experiences)

    largest = wire.largest_message(spec, config.envs_per_agent, config.t_max)
    gate = Gate("tcp://127.0.0.1:*", read_server_keys(keys), largest_message=largest)
    exchange = Exchange(
        RUN, spec, acting.schema, Blocks(stats, requests.put, take), stats,
        largest_message=largest, halves=len(halves(config)), gate=gate, welcome=config.for_agents(),
    )  # fmt: skip
    remote = RemoteAgents(config, exchange, stats)
    clocks: dict[str, int] = {}  # of threads

    def predict() -> None:
        for batch in requests.consumer():
            exchange.reply(
                [(one.agent, Reply(one.half, 1, np.zeros((len(one.real), acting.width), np.float32))) for one in batch]
            )

    def tend() -> None:
        while not closed.wait(LOOK_SECONDS):
            remote.tend()

    for body in (exchange.run, predict, tend):
        thread = threading.Thread(target=body, name=body.__name__, daemon=True)
        thread.start()
        assert thread.ident is not None
        clocks[body.__name__] = time.pthread_getcpuclockid(thread.ident)
    orders.answer(gate.endpoint)
    while orders.next()[0] != "end":
        orders.answer(
            {
                "time": time.monotonic(),
                "cpu": time.process_time(),
                **{name: time.clock_gettime(clock) for name, clock in clocks.items()},
                "memory": resident_memory(os.getpid()),
                "members": len(exchange.remote_members()),
                "experiences": arrived[0],
                "bad": stats.totals.bad_messages,
                "joined": stats.totals.agents_started,
                "network_in": stats.totals.network_in,
                "network_unpacked": stats.totals.network_unpacked,
            }
        )
    closed.set()
    remote.stop()
    requests.close()
    exchange.close()


@dataclass(frozen=True)
class Span:
    """What the gate's process did between two looks."""

    before: dict[str, float]
    after: dict[str, float]

    def gained(self, name: str) -> float:
        return self.after.get(name, 0) - self.before.get(name, 0)

    def share(self, name: str) -> float:
        """Of a core."""
        return self.gained(name) / self.gained("time")


class Crowd:
    """The gate's process, and those with the agents."""

    def __init__(self, options: CrowdOptions, processes: Processes) -> None:
        self._options = options
        self._machine = Machine()
        config = Resolved(
            game=options.game, envs_per_agent=1, t_max=BLOCK, correction="none", compress=options.compress
        )  # fmt: skip
        recording = record(config, stack=1 if options.load == "messages" else None)
        keys = processes.directory / "keys"
        make_keys(keys)
        self._gate = processes.start("the gate", keep_gate, config, recording.spec, str(keys), options.connections)
        endpoint = self._gate.answer()
        counts = [len(part) for part in np.array_split(range(options.connections), options.processes)]
        self._agents = [
            processes.start(f"agents {at}", crowd_in, config, recording, endpoint, read_agent_keys(str(keys)), count)
            for at, count in enumerate(counts)
        ]
        for agents in self._agents:
            agents.answer()

    def look(self) -> dict[str, float]:
        state: dict[str, float] = self._gate.ask("look")
        return state

    def all_do(self, *order: Any, seconds: float) -> list[Any]:
        for agents in self._agents:
            agents.tell(*order)
        return [agents.answer(seconds) for agents in self._agents]

    def measure(self) -> Iterator[dict[str, float]]:
        """The figures of one part after the other. ``machine`` is its speed meanwhile, of that of the reference."""
        options, count = self._options, self._options.connections
        empty = self.look()
        self.all_do("join", seconds=JOIN_SECONDS)
        joined = self.look()
        yield {
            "connections": count,
            "joined_seconds": Span(empty, joined).gained("time"),
            "joined_gate_cpu_us": 1e6 * Span(empty, joined).gained("cpu") / count,
            "joined_kilobytes": (joined["memory"] - empty["memory"]) / count / 1e3,
            "joined_machine": self._machine.speed(),
        }
        before = self.look()
        time.sleep(options.idle)
        idle = Span(before, self.look())
        yield {
            "idle_gate": idle.share("cpu"),
            "idle_exchange": idle.share("run"),
            "idle_tend": idle.share("tend"),
            "idle_machine": self._machine.speed(),
        }
        before = self.look()
        rate = options.rate / options.processes
        told = self.all_do(options.load, options.seconds, rate, seconds=3 * options.seconds + JOIN_SECONDS)
        load = Span(before, self.look())
        messages = sum(part[0] for part in told)
        yield {
            "messages_per_second": messages / statistics.mean(part[1] for part in told),
            "experiences": load.gained("experiences"),
            "gate_cpu": load.share("cpu"),
            "gate_cpu_us": 1e6 * load.gained("cpu") / messages,
            "exchange_cpu_us": 1e6 * load.gained("run") / messages,
            "agents_cpu_us": 1e6 * sum(part[2] for part in told) / messages,
            "megabytes_per_second": load.gained("network_in") / load.gained("time") / 1e6,
            "megabytes_unpacked": load.gained("network_unpacked") / load.gained("time") / 1e6,
            "load_kilobytes": (load.after["memory"] - empty["memory"]) / count / 1e3,
            "load_machine": self._machine.speed(),
            "members": load.after["members"],
            "joined_again": load.after["joined"] - count,
            "bad_messages": load.after["bad"],
        }


class Machine:
    """How fast it is at the moment, since others may use it too."""

    def __init__(self) -> None:
        self._games = make_games(Resolved(game="Pong", envs_per_agent=REFERENCE_GAMES), REFERENCE_GAMES)
        self._games.reset(0)

    def speed(self) -> float:
        """Steps of Pong per second in one thread, of those of the reference."""
        actions, steps, started = np.zeros(REFERENCE_GAMES, np.int64), 0, time.perf_counter()
        while time.perf_counter() - started < SPEED_SECONDS:
            self._games.step(actions)
            steps += REFERENCE_GAMES
        return steps / (time.perf_counter() - started) / REFERENCE


def main(words: Iterable[str]) -> int:
    options = CrowdOptions(**read_words(CrowdOptions, words))
    raise_files(
        FILES
        + options.connections * max(FILES_PER_CONNECTION["gate"], FILES_PER_CONNECTION["agents"] // options.processes)
    )
    with tempfile.TemporaryDirectory() as directory, Processes(Path(directory)) as processes:
        for figures in Crowd(options, processes).measure():
            for name, value in figures.items():
                print(f"{name:>20}  {value:,.4g}" if value < 1000 else f"{name:>20}  {value:,.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
