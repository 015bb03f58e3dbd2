"""A server to measure: the real one with its agents, in a process that can be paused while others are measured.

Its figures are those of its own log over the measured time. How long a prediction takes is seen from outside, by a
guest that asks now and then for one observation as an agent would.
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments.processes import Orders, Processes, ProcessFailed, memory
from ga3c.agents.player import Half, Player
from ga3c.agents.process import NICENESS
from ga3c.algorithms.rule import make_acting
from ga3c.engines.server import Server
from ga3c.games.make import make_games
from ga3c.games.spec import EnvSpec, Games
from ga3c.memory.figures import window_row
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Request
from ga3c.messages import wire
from ga3c.messages.links import AgentLink
from ga3c.messages.wire import MAX_ENVS
from ga3c.settings.config import Resolved
from ga3c.system.logs import RunLog

if TYPE_CHECKING:
    from ga3c.engines.workers import Workers

BALANCE = 0.05  # how far samples trained may be from steps played, as a share of these
START_SECONDS = 180.0  # for all agents to play, at most
WARM_STEPS = 20  # of each environment, before the first measurement
PROBED_SHARE = 0.25  # of the time of a measurement, after it
PROBE_SECONDS = 0.04  # between two probes: 25 observations per second among a thousand and more
TRIPS_LEAST = 2  # of a probe, however slow the machine is: the first is not counted, since it may have had to connect
REPLY_SECONDS = 10.0  # for a reply, at most


class GridPoint(NamedTuple):
    """A point of the grid. Its short form is ``NAxK``, or ``NAxK/NP/NT`` where one of these two is not 1."""

    agents: int
    envs_per_agent: int
    predictors: int = 1
    trainers: int = 1

    def __str__(self) -> str:
        threads = f"/{self.predictors}/{self.trainers}" if (self.predictors, self.trainers) != (1, 1) else ""
        return f"{self.agents}x{self.envs_per_agent}{threads}"


@dataclass(frozen=True)
class Figures:
    """One measurement of a setting."""

    pps: float
    tps: float
    trained_per_second: float
    lag_mean: float
    lag_max: int
    prediction_batch: float
    limit: str
    predictor_busy: float
    trainer_busy: float
    held: float
    rss: float  # bytes of the server with its agents
    pss: float
    round_trips: list[float] = field(repr=False)  # seconds of each probe
    forwards: list[float] = field(repr=False)  # seconds of each prediction of the model, in the server


def balanced(figures: list[Figures]) -> bool:
    """Whether all that was played was trained on, over these measurements of equal length together."""
    played = sum(one.pps for one in figures)
    return played > 0 and abs(sum(one.trained_per_second for one in figures) - played) <= BALANCE * played


class Guest(NamedTuple):
    """What someone who is no agent of the server needs for a link that asks it for predictions."""

    endpoint: str
    run: int
    agent: int


class MeasuredServer(Server):
    """A server in its steady state whose predictions are timed, and which lets someone ask from outside."""

    forwards: deque[float]

    def admit_guest(self) -> Guest:
        """How long predictions take is best seen from there."""
        number = self._stats.number_agent()
        self._exchange.admit(number, MAX_ENVS)
        return Guest(self._exchange.endpoint, self._run_id, number)

    def _make_workers(self) -> Workers:
        from experiments.bench.timed_model import TimedWorkers

        workers = TimedWorkers(self._config, self._spec, self.memory, self._stats)
        self.forwards = workers.forwards
        return workers


def serve(orders: Orders, config: Resolved, spec: EnvSpec, directory: Path) -> None:
    """The body of the server's process."""
    stats = Stats()
    log_path = directory / f"log-{os.getpid()}.txt"
    log = RunLog(log_path, logging.NullHandler())
    server = MeasuredServer(config, spec, stats, log.queue)
    try:
        server.prepare()
        server.start()
        orders.answer(server.admit_guest())
        before = stats.snapshot()
        while True:
            server.wait(0.05)
            while orders.waiting():
                match orders.next():
                    case ("state",):
                        orders.answer((server.unsettled(), stats.totals.steps))
                    case ("resize", sizes):
                        server.resize(**sizes)
                        orders.answer()
                    case ("begin",):
                        server.forwards.clear()
                        before = stats.snapshot()
                        orders.answer()
                    case ("stop",):
                        row = window_row(before, stats.snapshot(), server.setting, None, None)
                        orders.answer((row, list(server.forwards)))
                    case _:
                        return
    except Exception as error:
        log.close()
        lines = [line for line in log_path.read_text().splitlines() if line.strip()] if log_path.exists() else []
        raise RuntimeError(f"{error} (its log ends: {lines[-1]})" if lines else str(error)) from error
    finally:
        server.stop()
        log.close()


class Served:
    """A running server as the bench sees it. It is paused but for the time of a measurement."""

    def __init__(self, config: Resolved, spec: EnvSpec, processes: Processes) -> None:
        self._processes = processes
        self._agents, self._envs = config.agents, config.envs_per_agent
        self._guest: Guest | None = None
        name = f"the server with AGENTS={config.agents} ENVS_PER_AGENT={config.envs_per_agent}"
        self.process = processes.start(name, serve, config, spec, processes.directory)

    @property
    def guest(self) -> Guest:
        """What the probe needs to connect."""
        assert self._guest is not None
        return self._guest

    def wait_until_ready(self) -> None:
        """All agents play, and every environment has its first steps behind it; then it is paused."""
        self._guest = self.process.answer(START_SECONDS)
        self._wait_until_settled(warm=True)
        self.process.pause()

    def resize(self, **sizes: int) -> None:
        """Other numbers of agents, predictors or trainers, from the next measurement on."""
        self.process.resume()
        self._agents = sizes.get("agents", self._agents)
        try:
            self.process.ask("resize", sizes)
            self._wait_until_settled(warm="agents" in sizes)
        finally:
            self.process.pause()

    def _wait_until_settled(self, *, warm: bool) -> None:
        until = time.monotonic() + START_SECONDS
        wanted: int | None = None  # steps, from when all agents play
        while True:
            unsettled, steps = self.process.ask("state")
            if not unsettled:
                wanted = steps + warm * WARM_STEPS * self._agents * self._envs if wanted is None else wanted
                if steps >= wanted:
                    return
            if time.monotonic() > until:
                raise ProcessFailed(f"{self.process.name} is not ready after {START_SECONDS:.0f} s: {unsettled}")
            time.sleep(0.1)

    def end(self) -> None:
        self._processes.end([self.process])

    def measure(self, probe: Probe, *, settle_seconds: float, seconds: float) -> Figures:
        self.process.resume()
        try:
            time.sleep(settle_seconds)
            self.process.ask("begin")
            time.sleep(seconds)
            row, _ = self.process.ask("stop")
            # Afterwards: single observations between the agents' batches cost 7 % of the steps.
            self.process.ask("begin")
            round_trips = self._probed(lambda: probe.ask_now_and_then(self.guest, PROBED_SHARE * seconds))
            _, forwards = self.process.ask("stop")
        finally:
            self.process.pause()
        taken: dict[str, Any] = {name: row[name] for name in Figures.__dataclass_fields__.keys() & row.keys()}
        taken |= memory(self.process.pid)
        return Figures(**taken, round_trips=round_trips, forwards=forwards)

    def _probed(self, probe: Callable[[], list[float]]) -> list[float]:
        """The probe's round trips; where it got no answer, the server may know why."""
        try:
            return probe()
        except ProcessFailed:
            self.process.ask("state")
            raise


class Probe:
    """The guest: a process that asks servers for predictions and notes how long they took."""

    def __init__(self, config: Resolved, spec: EnvSpec, processes: Processes) -> None:
        self.process = processes.start("the probe", probe_servers, config, spec)

    def ask_now_and_then(self, guest: Guest, seconds: float) -> list[float]:
        """Round trips of single observations, for as long as a measurement lasts."""
        trips: list[float] = self.process.ask("now and then", guest, seconds, seconds=seconds + 2 * REPLY_SECONDS)
        return trips

    def play(self, guest: Guest, envs: int, seconds: float) -> list[float]:
        """Round trips of an agent that plays with this many environments, all in one request, and trains nothing."""
        trips: list[float] = self.process.ask("play", guest, envs, seconds, seconds=seconds + START_SECONDS)
        return trips


def probe_servers(orders: Orders, config: Resolved, spec: EnvSpec) -> None:
    """The body of the probe's process, at the priority of an agent."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    links: dict[Guest, AgentLink] = {}
    games: dict[tuple[Guest, int], Games] = {}
    while (order := orders.next())[0] != "end":
        guest: Guest = order[1]
        if guest not in links:
            links[guest] = AgentLink(guest.endpoint, guest.run, guest.agent, patience=REPLY_SECONDS)
        try:
            match order:
                case ("now and then", _, seconds):
                    orders.answer(_now_and_then(links[guest], guest, spec, seconds))
                case ("play", _, envs, seconds):
                    if (guest, envs) not in games:
                        games[guest, envs] = make_games(config, envs)
                    orders.answer(_play(links[guest], guest, config, games[guest, envs], seconds))
        except TimeoutError as error:
            links.pop(guest).close()  # a late reply must not be taken for that of a later request
            orders.fail(str(error))


def _now_and_then(link: AgentLink, guest: Guest, spec: EnvSpec, seconds: float) -> list[float]:
    request = Request(guest.agent, 0, 0, bytes(1), np.zeros((1, *spec.observation), spec.dtype))
    random = np.random.default_rng()
    trips: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(trips) < TRIPS_LEAST:
        started = time.perf_counter()
        _ask(link, guest, request)
        _receive(link)
        trips.append(time.perf_counter() - started)
        # Not in step with anything that the server does.
        wait = random.uniform(0.5, 1.5) * PROBE_SECONDS
        time.sleep(max(min(wait, until - time.perf_counter()), 0.0))
    return trips[1:]


def _play(link: AgentLink, guest: Guest, config: Resolved, games: Games, seconds: float) -> list[float]:
    """What an agent does, but its experiences go nowhere: nothing is trained."""
    trips: list[float] = []
    acting = make_acting(config, games.spec)
    player = Player(config, games, acting, agent=guest.agent, half=Half(0, games.count, 0))
    turn = player.begin(games.reset(config.seed))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(trips) < TRIPS_LEAST:
        started = time.perf_counter()
        _ask(link, guest, turn.request)
        head = _receive(link)
        reply = wire.decode_reply(wire.read_header(head), head)
        trips.append(time.perf_counter() - started)
        turn = player.play(reply)
    return trips[1:]


def _ask(link: AgentLink, guest: Guest, request: Request) -> None:
    """As of observations that no step reached: what a guest plays is nothing of the server's."""
    link.send(wire.encode_request(guest.run, request._replace(real=bytes(len(request.real)))))


def _receive(link: AgentLink) -> bytes:
    head = link.receive()
    if head is None:
        raise TimeoutError(f"no prediction within {REPLY_SECONDS:.0f} s")
    return head


class Overhead(Served):
    """A server without agents: what the way of a prediction costs beyond its computation, where nothing competes."""

    ENVS = 16  # of the one agent, which the probe plays

    def __init__(self, config: Resolved, spec: EnvSpec, processes: Processes) -> None:
        super().__init__(config.replace(agents=1, envs_per_agent=self.ENVS), spec, processes)

    def wait_until_ready(self) -> None:
        self._guest = self.process.answer(START_SECONDS)
        self.process.ask("resize", {"agents": 0})
        self.process.pause()

    def measure_overhead(self, probe: Probe, envs: int, seconds: float) -> Overheads:
        """With one agent that asks for all of so many environments at once, and nothing to train."""
        self.process.resume()
        try:
            self._probed(lambda: probe.play(self.guest, envs, seconds / 4))  # back into the caches
            self.process.ask("begin")
            round_trips = self._probed(lambda: probe.play(self.guest, envs, seconds))
            _, forwards = self.process.ask("stop")
        finally:
            self.process.pause()
        return Overheads(statistics.median(round_trips), statistics.median(forwards))


class Overheads(NamedTuple):
    """Medians of one measurement, in seconds."""

    round_trip: float
    forward: float

    @property
    def share(self) -> float:
        """Of the round trip that is not the forward."""
        return (self.round_trip - self.forward) / self.round_trip
