"""The settings of the other commands (``eval``, ``bench`` …), apart from their code, which has heavy imports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ga3c.settings.address import parse_address
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, check, setting
from ga3c.settings.groups import MIN_BATCH, NETWORKS, TUNERS

WEIGHTS = ("mean", "newest")  # of a checkpoint
BUDGETS = ("toy", "laptop", "paper")  # of an experiment


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """Which checkpoint plays, and how: what ``eval`` and ``play`` have in common."""

    run: str = setting("", "directory of the run whose newest checkpoint plays")
    checkpoint: str = setting("", "a checkpoint file, instead of the newest of RUN")
    episodes: int = setting(1, "whole games", low=1, high=1_000_000)
    seed: int = setting(0, "game i has the seed SEED + i", low=0, high=2**30)
    weights: str = setting(
        "mean", "mean: the running mean of the weights; newest: those that training goes on with", choices=WEIGHTS
    )
    greedy: bool = setting(False, "take the best action instead of sampling from the policy")
    max_steps: int = setting(100_000, "steps after which a game is cut (ALE games end by themselves at 27000)", low=1)
    device: str = setting("auto", "auto, cpu, cuda:0 or mps")

    def __post_init__(self) -> None:
        check(self)
        if not self.run and not self.checkpoint:
            raise ConfigError("RUN is missing: name the directory of a run, for example RUN=runs/pong-20260101-120000")


@dataclass(frozen=True, kw_only=True)
class EvalOptions(PolicyOptions):
    episodes: int = setting(30, "whole games", low=1, high=1_000_000)
    out: str = setting("", "JSON file for the result: mean, std, scores, human_normalized and more")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_file("OUT", self.out)


def require_place(key: str, path: str) -> None:
    """Refuse a file or folder that could not be made before hours are spent on it."""
    if path and not Path(path).expanduser().parent.is_dir():
        raise ConfigError(f"{key}={path} cannot be written: the directory {Path(path).parent} does not exist")


def require_file(key: str, path: str) -> None:
    require_place(key, path)
    if path and Path(path).expanduser().is_dir():
        raise ConfigError(f"{key}={path} is a directory: name a file in it")


@dataclass(frozen=True, kw_only=True)
class AgentsOptions:
    server: str = setting("", "address of the server, what its LISTEN says with its name: tcp://host:5555")
    agents: int | None = setting(None, "agent processes; auto: one per core", low=1, high=4096)
    keys: str = setting("", "directory with agents.key_secret and server.key, of './run.sh keys'; empty: no keys")

    def __post_init__(self) -> None:
        check(self)
        if not self.server:
            raise ConfigError("SERVER is missing: name the address that the server listens at, as tcp://host:5555")
        address = parse_address("SERVER", self.server)
        if address.port in ("0", "*"):
            raise ConfigError(f"SERVER={self.server} has no port: the server's log says which one it listens at")
        if not address.is_loopback and not self.keys:
            raise ConfigError(f"SERVER={self.server} needs keys: KEYS=… names a directory of './run.sh keys'")


@dataclass(frozen=True, kw_only=True)
class KeysOptions:
    out: str = setting("keys", "directory for the keys; it must not exist yet")

    def __post_init__(self) -> None:
        check(self)
        require_place("OUT", self.out)
        if not self.out:
            raise ConfigError("OUT is empty: name a directory for the keys")


@dataclass(frozen=True, kw_only=True)
class PlayOptions(PolicyOptions):
    first: int = setting(0, "number of the first game, as eval counts them", low=0, high=1_000_000)
    video: str = setting("", "record to this .mp4 or .gif; empty: show in a window")
    fps: float | None = setting(None, "pictures per second; auto: the speed of the game", above=0, high=1000)
    start: float = setting(0.0, "seconds of play that are left out at first, at the speed of the game", low=0)
    seconds: float = setting(0.0, "seconds of play that are shown; 0: all of it", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.video and Path(self.video).suffix.lower() not in (".mp4", ".gif"):
            raise ConfigError(f"VIDEO={self.video} is of no known kind: use a name that ends in .mp4 or .gif")
        require_file("VIDEO", self.video)


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    run: str = setting("", "directory of a run with a tuner; several, with commas between, are shown together")
    strategy: str = setting(
        "", "try this strategy on what the run measured, instead of checking its own", choices=("", *TUNERS)
    )
    out: str = setting("", "folder for the picture and the page; empty: the directory of the run, or of the first")

    def __post_init__(self) -> None:
        check(self)
        if not self.runs:
            raise ConfigError("RUN is missing: name the directory of a run, for example RUN=runs/pong-20260101-120000")
        require_place("OUT", self.out)
        if self.out and Path(self.out).expanduser().is_file():
            raise ConfigError(f"OUT={self.out} is a file: name a folder for the picture and the page")

    @property
    def runs(self) -> list[str]:
        return [run.strip() for run in self.run.split(",") if run.strip()]


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
