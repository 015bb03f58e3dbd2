"""``./run.sh bench PEERS=sb3-dqn,…``: DQN beside others with a replay memory, measured in turn in one run.

All do the same work: the Nature network, batches of 32, an update for 4 steps, one step of Q-learning without double
and dueling, single precision, the same cores. ε is small, so each step needs a prediction. All are measured when they
train, so the steps that only fill a memory do not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from experiments.bench import peers
from experiments.bench.parts import done
from experiments.bench.served import START_SECONDS, Served
from experiments.options import BenchOptions
from experiments.processes import Processes, ProcessFailed
from experiments.progress import Part, Progress
from experiments.statistics import spread
from experiments.text import empty_table, wide_console
from ga3c.runs.resolve import probe, resolve
from ga3c.settings.config import Config, Resolved
from ga3c.settings.declare import ConfigError
from ga3c.system.limits import available_cores
from ga3c.system.openmp import wait_patiently

SETTLE_SECONDS = 1.5  # after a pause, before a measurement begins
WARM_STEPS = 200  # with training, before the first measurement
BALANCE = 0.1  # how far updates may be from what steps ask for: a window cuts rounds in two
OURS = "ours"
WORK: dict[str, Any] = {
    "algo": "dqn",
    "hidden": 512,
    "normalize": False,
    "batch": 32,
    "train_period": 4,
    "target_period": 1_000,
    "replay_start": 1_000,
    "replay_steps": 10_000,
    "n_step": 1,
    "double": False,
    "dueling": False,
    "epsilon": 0.02,
    "epsilon_end": 0.02,
}


@dataclass(frozen=True)
class Rate:
    pps: float
    tps: float


@dataclass
class Measured:
    """Each list in the order of the repeats."""

    ours: list[Rate] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)  # steps per second
    errors: dict[str, str] = field(default_factory=dict)


def work(options: BenchOptions) -> Config:
    """Our settings; those that are given where they mean the same to all."""
    if options.network not in ("auto", "nature"):
        raise ConfigError(f"NETWORK={options.network}: peers with a replay memory have the nature network")
    config = Config(game=options.game, **WORK)
    return config.replace(network="nature") if probe(config).is_image else config


class ServedReplay(Served):
    """A server that trains from a replay memory. Nobody asks it from outside: all its environments play in step."""

    def __init__(self, config: Resolved, processes: Processes) -> None:
        self._warm = config.replay_start + WARM_STEPS
        super().__init__(config, probe(config), processes)

    def wait_until_ready(self) -> None:
        self.process.answer(START_SECONDS)
        until = time.monotonic() + START_SECONDS
        while True:
            unsettled, steps = self.process.ask("state")
            if not unsettled and steps >= self._warm:
                break
            if time.monotonic() > until:
                reason = unsettled or f"{steps} of {self._warm} steps are played"
                raise ProcessFailed(f"{self.process.name} is not ready after {START_SECONDS:.0f} s: {reason}")
            time.sleep(0.1)
        self.process.pause()

    def rate(self, settle_seconds: float, seconds: float) -> Rate:
        self.process.resume()
        try:
            time.sleep(settle_seconds)
            self.process.ask("begin")
            time.sleep(seconds)
            row, _ = self.process.ask("stop")
        finally:
            self.process.pause()
        return Rate(row["pps"], row["tps"])


class ReplayBench:
    """The schedule. ``run`` measures everything."""

    def __init__(self, options: BenchOptions, names: list[str], processes: Processes, root: Path) -> None:
        self._options, self._names, self._processes, self._root = options, names, processes, root
        self._config = work(options)
        self.network = "nature" if self._config.network == "nature" else "mlp"
        self._seconds = options.seconds or (3.0 if options.quick else 8.0)
        self._repeats = options.repeats or (2 if options.quick else 3)
        self._pythons: dict[str, Path] = {}
        self._measured = Measured()

    def run(self) -> Measured:
        starts = [Part(f"installing {name}", 60.0, partial(self._install, name), (name,)) for name in self._names]
        starts.append(Part("starting ours", 30.0, self._start))
        rounds = [list(self._round())[:: -1 if repeat % 2 else 1] for repeat in range(self._repeats)]
        parts = [*starts, *(part for parts in rounds for part in parts)]
        with Progress(sum(part.seconds for part in parts)) as self._progress:
            for part in parts:
                self._progress.begin(part)
                self._progress.finish(part, done(part, self._measured.errors))
        return self._measured

    def _round(self) -> Iterator[Part]:
        yield Part(OURS, SETTLE_SECONDS + self._seconds, self._measure_ours)
        for name in self._names:
            yield Part(f"peer {name}", self._seconds + 30.0, partial(self._measure_peer, name), (name,))

    def _install(self, name: str) -> str:
        self._measured.peers[name] = []
        self._pythons[name] = peers.install(name, self._root, self._progress.say)
        return "installed"

    def _start(self) -> str:
        wait_patiently()  # as the command line and the peers do
        self._served = ServedReplay(resolve(self._config, probe(self._config)), self._processes)
        self._served.wait_until_ready()
        return "ready"

    def _measure_ours(self) -> str:
        rate = self._served.rate(min(SETTLE_SECONDS, self._seconds / 3), self._seconds)
        self._measured.ours.append(rate)
        return f"{rate.pps:,.0f} steps/s"

    def _measure_peer(self, name: str) -> str:
        python, cores = self._pythons[name], available_cores()
        pps = peers.measure(name, python, game=self._options.game, cores=cores, seconds=self._seconds)
        self._measured.peers[name].append(pps)
        return f"{pps:,.0f} steps/s"


def summarise(measured: Measured, network: str) -> dict[str, Any]:
    """``ratio``: ours over the fastest peer, by medians. ``balanced``: as many updates as the steps ask for."""
    pps, tps = spread(rate.pps for rate in measured.ours), spread(rate.tps for rate in measured.ours)
    rows: dict[str, Any] = {}
    for name, repeats in measured.peers.items():
        if name in measured.errors:
            rows[name] = {"pps": None, "ratio": None, "error": measured.errors[name]}
        elif repeats:
            theirs = spread(repeats)
            rows[name] = {"pps": theirs["median"], "ratio": pps["median"] / theirs["median"], "spread": theirs}
    wanted = pps["median"] / WORK["train_period"]
    return {
        "dqn_pps": pps["median"],
        "ratio": min((row["ratio"] for row in rows.values() if row["ratio"]), default=None),
        "balanced": wanted > 0 and abs(tps["median"] - wanted) <= BALANCE * wanted,
        "peers": rows,
        "dqn": {"pps": pps, "tps": tps},
        "network": network,
        "work": WORK,
    }


def show(result: dict[str, Any]) -> None:
    console = wide_console()
    console.print(_table(result))
    if not result["balanced"]:
        console.print("not balanced: updates did not follow from steps; measure for longer, with SECONDS")
    if result["ratio"] is not None:
        console.print(f"ours over the fastest peer   {result['ratio']:.2f}", markup=False)


def _table(result: dict[str, Any]) -> Table:
    table = empty_table(f"DQN, network {result['network']}", "", "steps/s", "low–high", "ours / theirs")
    rows = {OURS: {"spread": result["dqn"]["pps"]}, **result["peers"]}
    for name, row in rows.items():
        if "error" in row:
            table.add_row(name, "–", "", row["error"])
            continue
        speed = row["spread"]
        between = f"{speed['low']:,.0f}–{speed['high']:,.0f}"
        table.add_row(name, f"{speed['median']:,.0f}", between, f"{row['ratio']:.2f}" if "ratio" in row else "")
    return table


def draw(result: dict[str, Any]) -> bytes:
    """Steps per second as bars."""
    from experiments.bench.bench_report import draw_rates

    rows = {OURS: result["dqn"]["pps"]}
    rows |= {name: row["spread"] for name, row in result["peers"].items() if "spread" in row}
    hardware = result["hardware"]
    return draw_rates(
        rows,
        f"DQN, network {result['network']}, on {hardware['cores']} cores of {hardware['cpu']}, {hardware['date'][:10]}",
    )
