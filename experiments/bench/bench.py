"""``./run.sh bench``: how much of what this machine can give the server really gives, and where the rest goes.

Everything is started once and paused: stage costs, the ceiling, every setting of the server and every peer are then
measured in turn, again and again, so that the noise of a shared machine hits all alike.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.bench import bench_report, ceiling, peers, replaying
from experiments.bench.bench_result import Measured, summarise
from experiments.bench.ceiling import Ceiling
from experiments.bench.growth import Growth
from experiments.bench.parts import done
from experiments.bench.replaying import ReplayBench
from experiments.bench.served import PROBED_SHARE, START_SECONDS, Figures, GridPoint, Overhead, Probe, Served
from experiments.bench.stage_sizes import QUICKLY_STEPPED, STEPPED
from experiments.hardware import hardware
from experiments.options import BenchOptions
from experiments.processes import Orders, Processes, ProcessFailed
from experiments.progress import Part, Progress
from ga3c.games.spec import EnvSpec
from ga3c.models.names import network_name
from ga3c.runs.resolve import probe as probe_game
from ga3c.runs.resolve import resolve
from ga3c.settings.config import Config, Resolved
from ga3c.settings.declare import ConfigError, nearest, read_words
from ga3c.system.files import write_atomically, write_json
from ga3c.system.limits import available_cores
from ga3c.system.signals import interruptible

SETTLE_SECONDS = 1.5  # after a pause, before a measurement begins; less where that is short itself
BUDGET, QUICK_BUDGET = 570.0, 110.0  # seconds of a bench, without growth
PEERS_ROOT = Path(".bench")
# What parts are expected to take, for the bar: they are corrected by what they took.
ENV_SECONDS = 0.25  # of one core, to make an environment
PROCESS_SECONDS = 0.5  # of one core, to start an agent
TORCH_SECONDS = 5.0  # to import torch and make a model
STAGE_SECONDS = {False: 0.1, True: 0.03}  # of each stage and repeat, by QUICK
OVERHEAD_SECONDS = 2.0
BUSY = 0.5  # load per core before a bench begins from which its figures are doubtful


def default_grid(cores: int, quick: bool) -> list[GridPoint]:
    """Few agents with many environments, many with one, and what a second predictor or trainer does to both."""
    if quick:
        return [GridPoint(cores, 32), GridPoint(8 * cores, 1)]
    return [
        GridPoint(cores, 64),
        GridPoint(cores + 1, 64),
        GridPoint(cores + 1, 64, 2, 2),
        GridPoint(2 * cores, 32),
        GridPoint(cores + 1, 16),
        GridPoint(8 * cores, 1),
        GridPoint(20 * cores, 1),
        GridPoint(20 * cores, 1, 1, 2),
    ]


def read_grid(options: BenchOptions) -> list[GridPoint]:
    if options.grid == "auto":
        return default_grid(available_cores(), options.quick)
    try:
        grid = []
        for word in options.grid.split(","):
            counts, *threads = word.strip().split("/")
            agents, envs = counts.split("x")
            predictors, trainers = threads or (1, 1)
            grid.append(GridPoint(int(agents), int(envs), int(predictors), int(trainers)))
    except ValueError:
        raise ConfigError(f"GRID={options.grid} is not a list like 2x64,16x1 or 2x64/1/2,16x1/2/1") from None
    for setting in grid:
        Config(**setting._asdict())  # which refuses what is out of range
    return list(dict.fromkeys(grid))


def read_peers(options: BenchOptions) -> list[str]:
    names = [name.strip() for name in options.peers.split(",") if name.strip()]
    if names == ["all"]:
        return [name for name, peer in peers.PEERS.items() if not peer.replays]
    for name in names:
        if name not in peers.PEERS and name not in peers.UNAVAILABLE:  # of which the table then says why
            known = f"They are: all, {', '.join(peers.PEERS)}"
            raise ConfigError(f"PEERS={name} is unknown.{nearest(name, ['all', *peers.PEERS])} {known}")
    if len({name in peers.PEERS and peers.PEERS[name].replays for name in names}) > 1:
        raise ConfigError(
            f"PEERS={options.peers}: those with a replay memory are measured beside DQN, in a run of its own"
        )
    return list(dict.fromkeys(names))


def _measure_stages(orders: Orders, config: Config, seconds: float, quick: bool) -> None:
    from experiments.bench.stages import measure_stages  # torch, which only the process of the stages needs

    measure_stages(orders, config, seconds, quick)


class Bench:
    """The schedule. ``run`` measures everything."""

    def __init__(
        self, options: BenchOptions, processes: Processes, *, ceiling_envs: tuple[int, ...] = ceiling.ENVS
    ) -> None:
        self._options = options
        self._processes = processes
        self._config = Config(
            game=options.game,
            network=options.network,
            min_batch=options.min_batch,
            t_max=options.t_max,
            correction="none",  # as ceiling and peers: all do the same work
            tuner="off",
        )
        self._grid, self._peers = read_grid(options), read_peers(options)
        self._spec: EnvSpec = probe_game(self._config)
        self.network = network_name(self._config, self._spec)
        self._ceiling_envs = ceiling_envs
        self._seconds = options.seconds or (3.0 if options.quick else 8.0)
        self._settle = min(SETTLE_SECONDS, self._seconds / 3)
        self._repeats = options.repeats or (2 if options.quick else 3)
        # Who asks for repeats or peers gets them; otherwise a slow machine has fewer repeats, not a longer bench.
        asked = options.repeats or self._peers
        self._budget = math.inf if asked else QUICK_BUDGET if options.quick else BUDGET
        self._measured = Measured()
        self._servers: dict[tuple[int, int], Served] = {}  # by agents and environments
        self._threads: dict[tuple[int, int], tuple[int, int]] = {}  # predictors and trainers that they have now
        self._pythons: dict[str, Path] = {}  # of the peers

    def run(self) -> Measured:
        starts = list(self._starts())
        # There and back, so that a machine that slows down or speeds up favours neither the first nor the last.
        rounds = [list(self._round())[:: -1 if repeat % 2 else 1] for repeat in range(self._repeats)]
        growth = list(self._growth()) if self._options.growth else []
        expected = sum(part.seconds for parts in (starts, *rounds, growth) for part in parts)
        with Progress(expected) as self._progress:
            began = time.monotonic()
            self._do_all(starts)
            for number, parts in enumerate(rounds):
                round_began = time.monotonic()
                self._do_all(parts)
                now = time.monotonic()
                if number + 1 < len(rounds) and now - began + (now - round_began) > self._budget:
                    self._progress.say(f"{number + 1} instead of {len(rounds)} repeats: more would take too long here")
                    break
            self._do_all(growth)
        return self._measured

    def _do_all(self, parts: list[Part]) -> None:
        for part in parts:
            self._progress.begin(part)
            self._progress.finish(part, done(part, self._measured.errors))

    def _starts(self) -> Iterator[Part]:
        """Everything that is measured, started one after the other, and paused."""
        cores = available_cores()
        for name in self._peers:
            self._measured.peers[name] = []
            yield Part(f"installing {name}", 60.0, partial(self._install, name), (name,))
        worker_envs = cores * sum(self._ceiling_envs) + sum(QUICKLY_STEPPED if self._options.quick else STEPPED)
        expected = worker_envs * ENV_SECONDS / cores + 2 * TORCH_SECONDS
        yield Part("starting stages and ceiling", expected, self._start_workers)
        yield Part("starting the overhead", TORCH_SECONDS, self._start_overhead)
        for (agents, envs), settings in self._grid_by_server().items():
            expected = agents * (envs * ENV_SECONDS + PROCESS_SECONDS) / cores + TORCH_SECONDS
            start = partial(self._start_server, agents, envs)
            yield Part(f"starting {agents} agents of {envs}", expected, start, tuple(map(str, settings)))

    def _round(self) -> Iterator[Part]:
        """One measurement of each."""
        once = self._settle + self._seconds
        yield Part("stage costs", 8.0 if self._options.quick else 20.0, self._measure_stages)
        for envs in self._ceiling_envs:
            yield Part(f"ceiling, {envs} environments each", once, partial(self._measure_ceiling, envs))
        for setting in self._grid:
            expected = once + PROBED_SHARE * self._seconds + 0.5
            yield Part(f"server, {setting}", expected, partial(self._measure_setting, setting), (str(setting),))
        for envs in (Overhead.ENVS, Overhead.ENVS // 2):
            yield Part(f"overhead, {envs} environments", OVERHEAD_SECONDS, partial(self._measure_overhead, envs))
        for name in self._peers:
            yield Part(f"peer {name}", self._seconds + 20.0, partial(self._measure_peer, name), (name,))

    def _growth(self) -> Iterator[Part]:
        growth = Growth(self._config, self._measured, self._serve, self._measure_server)
        return growth.parts(self._spec, self._seconds)

    def _grid_by_server(self) -> dict[tuple[int, int], list[GridPoint]]:
        """Settings that differ in their threads only are measured on one server."""
        servers: dict[tuple[int, int], list[GridPoint]] = {}
        for setting in self._grid:
            servers.setdefault((setting.agents, setting.envs_per_agent), []).append(setting)
        return servers

    # What the parts do.

    def _install(self, name: str) -> str:
        self._pythons[name] = peers.install(name, PEERS_ROOT, self._progress.say)
        return "installed"

    def _start_workers(self) -> str:
        """Stages and ceiling together: both wait once they are ready, so neither delays the other for long."""
        config, quick = self._resolved(self._config), self._options.quick
        self._stages = self._processes.start("stages", _measure_stages, config, STAGE_SECONDS[quick], quick)
        self._ceiling = Ceiling(config, self._processes, self._ceiling_envs)
        self._probe = Probe(config, self._spec, self._processes)
        self._ceiling.wait_until_ready()
        self._stages.answer(START_SECONDS)
        return "ready"

    def _start_overhead(self) -> str:
        self._overhead = Overhead(self._resolved(self._config), self._spec, self._processes)
        self._overhead.wait_until_ready()
        return "ready"

    def _start_server(self, agents: int, envs: int) -> str:
        config = self._config.replace(agents=agents, envs_per_agent=envs)
        self._servers[agents, envs] = self._serve(config)
        self._threads[agents, envs] = (config.predictors, config.trainers)
        return "ready"

    def _serve(self, config: Config) -> Served:
        served = Served(self._resolved(config), self._spec, self._processes)
        try:
            served.wait_until_ready()
        except ProcessFailed:
            served.end()
            raise
        return served

    def _resolved(self, config: Config) -> Resolved:
        return resolve(config, self._spec)

    def _measure_stages(self) -> str:
        costs = self._stages.ask("measure", seconds=START_SECONDS)
        for name, seconds in costs.items():
            self._measured.stages.setdefault(name, []).append(seconds)
        return f"{len(costs)} measured"

    def _measure_ceiling(self, envs: int) -> str:
        rates = self._ceiling.measure(envs, settle_seconds=self._settle, seconds=self._seconds)
        self._measured.ceilings.setdefault(envs, []).append(rates)
        return f"{rates.pps:,.0f} steps/s"

    def _measure_setting(self, setting: GridPoint) -> str:
        key, threads = (setting.agents, setting.envs_per_agent), (setting.predictors, setting.trainers)
        served = self._servers[key]
        if self._threads[key] != threads:
            served.resize(predictors=setting.predictors, trainers=setting.trainers)
            self._threads[key] = threads
        figures = self._measure_server(served, self._seconds)
        self._measured.settings.setdefault(setting, []).append(figures)
        return f"{figures.pps:,.0f} PPS, {figures.trained_per_second:,.0f} trained/s"

    def _measure_server(self, served: Served, seconds: float) -> Figures:
        return served.measure(self._probe, settle_seconds=self._settle, seconds=seconds)

    def _measure_overhead(self, envs: int) -> str:
        overhead = self._overhead.measure_overhead(self._probe, envs, min(self._seconds / 2, OVERHEAD_SECONDS))
        self._measured.overheads.setdefault(envs, []).append(overhead)
        return f"{overhead.share:.0%} of {1000 * overhead.round_trip:.2f} ms"

    def _measure_peer(self, name: str) -> str:
        pps = peers.measure(
            name, self._pythons[name], game=self._options.game, cores=available_cores(), seconds=self._seconds
        )
        self._measured.peers[name].append(pps)
        return f"{pps:,.0f} steps/s"


def measure(options: BenchOptions, processes: Processes) -> tuple[dict[str, Any], ModuleType]:
    """What was measured, and the module that shows it: DQN beside peers with a replay memory, else all of GA3C."""
    names = read_peers(options)
    if any(name in peers.PEERS and peers.PEERS[name].replays for name in names):
        replay_bench = ReplayBench(options, names, processes, PEERS_ROOT)
        return replaying.summarise(replay_bench.run(), replay_bench.network), replaying
    bench = Bench(options, processes)
    return summarise(bench.run(), bench.network), bench_report


def main(words: list[str]) -> int:
    options = BenchOptions(**read_words(BenchOptions, words))
    started, load = time.monotonic(), os.getloadavg()[0]
    if load > BUSY * available_cores():
        print(f"the machine is busy with other things (load {load:.1f}): expect doubtful figures", file=sys.stderr)
    try:
        with (
            interruptible(),
            tempfile.TemporaryDirectory(prefix="ga3c-bench-", ignore_cleanup_errors=True) as directory,
            Processes(Path(directory)) as processes,
        ):
            result, report = measure(options, processes)
    except KeyboardInterrupt:
        print("interrupted: what was measured so far is not shown", file=sys.stderr)
        raise
    result |= {
        "hardware": {**hardware(), "load_before": load},
        "options": asdict(options),
        "seconds": time.monotonic() - started,
    }
    report.show(result)
    if options.out:
        path = Path(options.out).expanduser()
        write_json(path, result)
        write_atomically(path.with_suffix(".png"), report.draw(result))
        print(f"\nall of it in {path}, a picture in {path.with_suffix('.png')}")
    else:
        print("\nOUT=bench.json would write all of it to that file, and a picture beside it")
    return 0 if result.get("best") or result.get("balanced") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
