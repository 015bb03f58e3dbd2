"""The settings of the other commands (``eval``, ``play`` …), apart from their code, which has heavy imports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ga3c.settings.address import parse_address
from ga3c.settings.declare import ConfigError, check, setting
from ga3c.settings.env_args import one_spelling
from ga3c.settings.groups import TUNERS

WEIGHTS = ("mean", "newest")  # of a checkpoint


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """Which weights: what all have in common that take a trained policy."""

    run: str = setting("", "directory of the run whose newest checkpoint is taken")
    checkpoint: str = setting("", "a checkpoint file, instead of the newest of RUN")
    weights: str = setting(
        "mean", "mean: the running mean of the weights; newest: those that training goes on with", choices=WEIGHTS
    )

    def __post_init__(self) -> None:
        check(self)
        if not self.run and not self.checkpoint:
            raise ConfigError("RUN is missing: name the directory of a run, for example RUN=runs/pong-20260101-120000")


@dataclass(frozen=True, kw_only=True)
class PolicyOptions(CheckpointOptions):
    """How it plays: what ``eval`` and ``play`` have in common."""

    episodes: int = setting(1, "whole games", low=1, high=1_000_000)
    seed: int = setting(0, "game i has the seed SEED + i", low=0, high=2**30)
    greedy: bool = setting(False, "take the best action instead of sampling from the policy")
    epsilon: float = setting(0.05, "with dqn: chance of an action without regard to Q-values", low=0, high=1)
    max_steps: int = setting(100_000, "steps after which a game is cut (ALE games end by themselves at 27000)", low=1)
    device: str = setting("auto", "auto, cpu, cuda:0 or mps")


@dataclass(frozen=True, kw_only=True)
class EvalOptions(PolicyOptions):
    episodes: int = setting(30, "whole games", low=1, high=1_000_000)
    out: str = setting("", "JSON file for the result: mean, std, scores, human_normalized and more")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_file("OUT", self.out)


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    game: str = setting("", "the environment: a Gymnasium id (CartPole-v1, module:Id) or an ALE game")
    env_args: str = setting("", "what gymnasium.make takes beside the id, as JSON; empty: nothing")
    color: bool = setting(False, "large images keep their colours")
    seed: int = setting(0, "seed of the environment and of the actions", low=0, high=2**31 - 1)
    steps: int = setting(1000, "steps that are played to look at them, and four times as many to measure", low=10)
    seconds: float = setting(20.0, "seconds of play, at most, where steps are slow", above=0)
    stall_seconds: float = setting(
        30.0, "an environment that takes longer for a step, a reset or to be made hangs", above=0
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "env_args", one_spelling(self.env_args))
        check(self)
        if not self.game:
            raise ConfigError("GAME is missing: name the environment, for example GAME=my_games:Corridor-v0")


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
class ExportOptions(CheckpointOptions):
    out: str = setting("", "the file: .onnx, or .pt2 for torch.export.load")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.out:
            raise ConfigError("OUT is missing: name a file that ends in .onnx or .pt2")
        if not self.onnx and Path(self.out).suffix != ".pt2":
            raise ConfigError(f"OUT={self.out} is of no known kind: use a name that ends in .onnx or .pt2")
        require_file("OUT", self.out)

    @property
    def onnx(self) -> bool:
        return Path(self.out).suffix == ".onnx"


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    runs: str = setting("runs", "directory of the runs")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    run: str = setting("", "directory of the run; empty: the newest in runs")

    def __post_init__(self) -> None:
        check(self)


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
