"""The settings of the commands that measure (``bench``, ``soak`` …), apart from their code, which has heavy imports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ga3c.settings.commands import require_file
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, check, setting
from ga3c.settings.groups import NETWORKS
from ga3c.settings.recipes import MIN_BATCH

BUDGETS = ("toy", "laptop", "paper")  # of an experiment


@dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    machines: int = setting(24, "simulated machines", low=1)
    seeds: int = setting(10, "runs on each machine, for each noise", low=1)
    strategies: str = setting("anneal,paper,random,optuna", "which to compare, with commas between")
    develop: bool = setting(False, "the machines and seeds that the strategy was developed on")
    plot: str = setting("simulate.png", "picture of the result; empty: none")
    out: str = setting("", "JSON file for the result")

    def __post_init__(self) -> None:
        check(self)
        require_file("OUT", self.out)
        require_file("PLOT", self.plot)


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    grid: str = setting("", "directory of a run with TUNER=sweep on this machine")
    repeats: int = setting(3, "how often each cost is measured; medians are taken", low=1)
    out: str = setting("", "JSON file for the machine and the comparison")

    def __post_init__(self) -> None:
        check(self)
        if not self.grid:
            raise ConfigError(
                "GRID is missing: './run.sh GAME=Pong TUNER=sweep TUNER_WINDOW=10 …' makes one, GRID=runs/… names it"
            )
        require_file("OUT", self.out)


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    game: str = setting(Config.game, "an ALE game or a Gymnasium id")
    quick: bool = setting(False, "few settings and short measurements: under 2 minutes, but noisy")
    grid: str = setting(
        "auto", "settings of the server with commas between: NAxK, or NAxK/NP/NT, as 2x64,16x1/2/1; auto: by the cores"
    )
    network: str = setting(Config.network, "network of ceiling and server", choices=NETWORKS)
    min_batch: int = setting(MIN_BATCH, "samples that a training batch has at least", low=1)
    t_max: int = setting(Config.t_max, "steps of an experience, at most", low=1, high=1024)
    seconds: float | None = setting(None, "seconds of each measurement; auto: 8, or 3 with QUICK", above=0, high=3600)
    repeats: int | None = setting(
        None, "how often each is measured, in turn; auto: 3, or 2 with QUICK, if time permits", low=1
    )
    peers: str = setting("", "other systems to measure in the same run, with commas between, or all")
    growth: bool = setting(False, "also throughput and memory with 1 to 128 agents and with growing networks")
    out: str = setting("", "JSON file for the result, and a picture beside it; empty: only printed")

    def __post_init__(self) -> None:
        check(self)
        require_file("OUT", self.out)
        if self.out and Path(self.out).suffix == ".png":
            raise ConfigError(f"OUT={self.out} is the name of the picture: name the JSON file, as bench.json")


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    budget: str = setting("laptop", "how much of it: toy shows only that it runs, paper takes days", choices=BUDGETS)
    seeds: int | None = setting(
        None, "how often all is run, with the seeds 0, 1, …; auto: as the experiment says", low=1
    )
    out: str = setting("runs/experiments", "folder for the results, in which <name>-<budget> is made")

    def __post_init__(self) -> None:
        check(self)
        if not self.out or Path(self.out).expanduser().is_file():
            raise ConfigError(f"OUT={self.out} is no folder: name one for the results")


@dataclass(frozen=True, kw_only=True)
class SoakOptions:
    minutes: float = setting(60.0, "how long", above=0)
    game: str = setting(Config.game, "an ALE game or a Gymnasium id")
    envs_per_agent: int = setting(2, "environments of each agent: few, so that agents start quickly", low=1, high=1024)
    kill: float = setting(10.0, "seconds between two agents that are killed", above=0)
    window: float = setting(
        2.0, "seconds that the tuner measures each setting; with its change it takes some ten", above=0
    )
    seed: int = setting(0, "of the run, and of who is killed", low=0, high=2**31 - 1)
    also: str = setting("", "further settings of the run, with blanks between")
    out: str = setting("", "JSON file for the result, and a picture beside it")

    def __post_init__(self) -> None:
        check(self)
        require_file("OUT", self.out)


@dataclass(frozen=True, kw_only=True)
class CrowdOptions:
    connections: int = setting(1000, "agents that join", low=1, high=16_384)
    processes: int = setting(2, "processes that they are in", low=1, high=64)
    load: str = setting(
        "messages",
        "messages: requests of one frame, as many as get through; blocks: RATE experiences of 50 steps a second",
        choices=("messages", "blocks"),
    )
    rate: float = setting(250.0, "blocks per second of all agents together", above=0)
    idle: float = setting(
        30.0, "seconds without a load: in shorter ones, each connection may or may not give its sign of life", above=0
    )
    seconds: float = setting(8.0, "seconds of the load", above=0)
    game: str = setting(Config.game, "an ALE game, whose frames are sent")
    compress: bool = setting(False, "agents compress what they send")

    def __post_init__(self) -> None:
        check(self)
