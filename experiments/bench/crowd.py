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
from collections.abc import Iterable
from dataclasses import asdict, dataclass
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

REFERENCE = 4500  # steps per second of Pong, 32 games, one thread, to which the figures are scaled
SPEED_SECONDS = 1.0
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
                "requests": stats.totals.predictions,
                "experiences": arrived[0],
                "bad": stats.totals.bad_messages,
                "lost": stats.totals.agents_started,
                **{name: value for name, value in asdict(stats.totals).items() if name.startswith("network")},
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
        config = Resolved(
            game=options.game, envs_per_agent=1, t_max=BLOCK, correction="none",
            **({"compress": options.compress} if "compress" in Resolved.__dataclass_fields__ else {}),
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

    def measure(self) -> dict[str, float]:
        options, count = self._options, self._options.connections
        empty = self.look()
        self.all_do("join", seconds=JOIN_SECONDS)
        joined = self.look()
        time.sleep(1.0)
        idle = Span(self.look(), self._after(options.seconds))
        before = self.look()
        rate = options.rate / options.processes
        told = self.all_do(options.load, options.seconds, rate, seconds=3 * options.seconds + JOIN_SECONDS)
        load = Span(before, self.look())
        messages = sum(part[0] for part in told)
        seconds = statistics.mean(part[1] for part in told)
        return {
            "connections": count,
            "joined_seconds": Span(empty, joined).gained("time"),
            "members": load.after["members"],
            "lost": load.after["lost"] - count,
            "idle": idle.share("cpu"),
            "idle_exchange": idle.share("run"),
            "idle_tend": idle.share("tend"),
            "messages_per_second": messages / seconds,
            "gate_cpu_us": 1e6 * load.gained("cpu") / messages,
            "exchange_cpu_us": 1e6 * load.gained("run") / messages,
            "gate_cpu": load.share("cpu"),
            "agents_cpu_us": 1e6 * sum(part[2] for part in told) / messages,
            "experiences": load.gained("experiences"),
            "network_in_per_second": load.gained("network_in") / load.gained("time"),
            "network_unpacked_per_second": load.gained("network_unpacked") / load.gained("time"),
            "kilobytes_per_connection": (load.after["memory"] - empty["memory"]) / count / 1e3,
            "bad_messages": load.after["bad"],
        }

    def _after(self, seconds: float) -> dict[str, float]:
        time.sleep(seconds)
        return self.look()


def machine_speed() -> float:
    """Steps per second of Pong with 32 games in one thread."""
    games = make_games(Resolved(game="Pong", envs_per_agent=32), 32)
    games.reset(0)
    actions, steps, started = np.zeros(32, np.int64), 0, time.perf_counter()
    while time.perf_counter() - started < SPEED_SECONDS:
        games.step(actions)
        steps += 32
    games.close()
    return steps / (time.perf_counter() - started)


def main(words: Iterable[str]) -> int:
    options = CrowdOptions(**read_words(CrowdOptions, words))
    raise_files(
        FILES
        + options.connections * max(FILES_PER_CONNECTION["gate"], FILES_PER_CONNECTION["agents"] // options.processes)
    )
    speed = machine_speed()
    print(f"{'machine':>28}  {speed:,.0f} steps/s of Pong, {speed / REFERENCE:.2f} of the reference", flush=True)
    with tempfile.TemporaryDirectory() as directory, Processes(Path(directory)) as processes:
        for name, value in Crowd(options, processes).measure().items():
            print(f"{name:>28}  {value:,.4g}" if value < 1000 else f"{name:>28}  {value:,.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
