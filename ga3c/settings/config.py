"""Every setting of a run: one dataclass with defaults, help, validation, ``KEY=VALUE`` overrides and presets.

Adding a setting is one edit here: the command line, ``help``, the README's table and ``config.json`` follow from it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ga3c.settings.address import check_listen
from ga3c.settings.declare import ConfigError, check, nearest, read_words, setting
from ga3c.settings.presets import PRESETS

NETWORKS = ("auto", "small", "large-4", "large-3", "large-2", "large-1", "mlp")
CORRECTIONS = ("none", "vtrace")
ALGORITHMS = ("ga3c", "a3c")
MIN_BATCH = 160  # of GA3C, where nothing else is said
# What it changes where not given.
DECIDED_BY_ALGO = ("agents", "envs_per_agent", "min_batch", "correction", "train_queue", "tuner")
TUNERS = ("anneal", "paper", "sweep", "off")
AGENT_SETTINGS = (  # what playing depends on; the rest, with the paths in it, is no business of another machine
    *("game", "seed", "sticky", "noop_max", "stagger", "episodic_life", "reward_clip"),
    *("envs_per_agent", "t_max", "discount", "correction", "stall_seconds"),
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a run. ``None`` stands for ``auto`` (chosen when the run starts) or for "not used"."""

    # What to train on
    game: str = setting("Pong", "an ALE game (Pong, ms_pacman) or a Gymnasium id (CartPole-v1, module:Id)")
    algo: str = setting(
        "ga3c",
        "ga3c: one model for all agents; a3c: agents with copies of it that train by themselves, on the CPU",
        choices=ALGORITHMS,
    )
    preset: str = setting("", "named settings that the others start from", choices=("", *PRESETS))
    seed: int = setting(0, "seed of weights, environments and action sampling", low=0, high=2**31 - 1)
    sticky: float | None = setting(
        None,
        "probability that the emulator repeats the last action; auto: the id's own, 0 for a plain game",
        low=0,
        high=1,
    )
    noop_max: int = setting(
        30, "a game begins with fewer emulated frames of no-op than this, by chance", low=0, high=1_000_000
    )
    stagger: int = setting(
        2000,
        "an environment's game is cut once within so many steps, by chance, so that not all stay in step; 0: none is",
        low=0,
        high=1_000_000,
    )
    episodic_life: bool = setting(False, "train each lost life as the end of an episode (scores stay whole games)")
    reward_clip: float = setting(1.0, "rewards are clipped to ± this for training; 0: not clipped", low=0)

    # How many of what
    agents: int | None = setting(
        None,
        "agent processes (NA); auto: a few more than cores, with a3c as many; 0: only those that join at LISTEN",
        low=0,
        high=4096,
    )
    predictors: int = setting(1, "predictor threads (NP)", low=1, high=64)
    trainers: int = setting(1, "trainer threads (NT)", low=1, high=64)
    envs_per_agent: int | None = setting(
        None, "environments of each agent (K); auto: 8 to 32 for ALE, 4 for others, 1 with a3c", low=1, high=1024
    )
    serial: bool = setting(False, "everything in one thread, the same bits for the same SEED, also across RESUME")

    # The tuner of the three numbers
    tuner: str = setting(
        "anneal", "how NA, NP and NT are changed during training; SERIAL=1 and a3c have no tuner", choices=TUNERS
    )
    tuner_window: float = setting(60.0, "seconds over which the tuner measures each setting", above=0)
    tuner_lag: float | None = setting(
        None, "largest mean policy lag of a setting that the tuner takes; 0: any; auto: half of MAX_LAG", low=0
    )

    # The algorithm
    t_max: int = setting(20, "steps of an experience, at most", low=1, high=1024)
    min_batch: int | None = setting(
        None,
        f"samples that a training batch has at least; auto: {MIN_BATCH}, with a3c 1: each experience by itself",
        low=1,
    )
    discount: float = setting(0.99, "discount γ of future rewards", low=0, high=1)
    learning_rate: float = setting(7e-4, "step size η", above=0)
    learning_rate_end: float | None = setting(None, "η at MAX_STEPS, reached linearly; auto: constant", low=0)
    beta: float = setting(0.003, "weight β of the entropy", low=0)
    beta_end: float | None = setting(None, "β at MAX_STEPS, reached linearly; auto: constant", low=0)
    log_epsilon: float = setting(1e-6, "ε inside the logarithms of policy and entropy", low=0)
    value_cost: float = setting(0.25, "factor of (R − V)² in the loss", low=0)
    correction: str | None = setting(
        None,
        "what is done about policy lag: nothing, as in the paper, or V-trace; auto: V-trace, with a3c nothing",
        choices=CORRECTIONS,
    )
    rho_bar: float = setting(1.0, "V-trace: largest weight ρ̄ of a step, π(a|s) / μ(a|s) at most", above=0)
    c_bar: float = setting(0.95, "V-trace: largest factor c̄ by which later steps count, at most ρ̄", low=0)
    grad_clip: float = setting(40.0, "largest norm of a gradient; 0: not clipped", low=0)
    rmsprop_decay: float = setting(0.99, "decay α of RMSProp's mean square", low=0, high=1)
    rmsprop_epsilon: float = setting(1e-6, "ε of RMSProp, inside the root", above=0)
    rmsprop_initial: float = setting(1.0, "RMSProp's mean square at the start", low=0)

    # The model
    mean_updates: int = setting(
        1000,
        "eval and play take a running mean of the weights over about so many updates; 1: those of the last one",
        low=1,
    )
    network: str = setting("auto", "network; auto: small for images, mlp for vectors", choices=NETWORKS)
    hidden: int = setting(256, "units of the fully connected layers", low=1)
    normalize: bool = setting(
        True, "centre and scale each pixel by its mean and deviation over the first 20,000 frames"
    )
    init: str = setting("orthogonal", "first weights", choices=("orthogonal", "paper"))
    device: str = setting("auto", "auto, cpu, cuda:0 or mps")
    torch_threads: int | None = setting(
        None, "torch threads of each predictor and trainer, or agent of a3c; auto: 1", low=1
    )

    # Queues
    train_queue: int | None = setting(
        None, "experiences that may wait to be trained; agents wait beyond; auto: two batches", low=1
    )
    max_lag: int = setting(
        100,
        "experiences older than this many updates are thrown away; 0: none is; a3c: at least 4 per environment",
        low=0,
    )
    max_prediction_batch: int = setting(256, "observations of one prediction, at most", low=1)
    stall_seconds: float = setting(
        30.0,
        "an agent that is silent for this long although it is its turn is replaced; ten times that to start",
        above=0,
    )

    # Agents of other machines
    listen: str = setting("", "where agents of other machines may join, as tcp://0.0.0.0:5555; empty: nowhere")
    keys: str = setting("", "directory with the keys that LISTEN needs, made by './run.sh keys'")

    # How long
    max_steps: int = setting(0, "stop after this many steps; 0: no limit", low=0)
    max_seconds: float = setting(0.0, "stop after this many seconds; 0: no limit", low=0)
    max_episodes: int = setting(0, "stop after this many games; 0: no limit", low=0)

    # What is written
    run: str = setting("", "directory of the run; empty: runs/<game>-<time>")
    resume: str = setting("", "directory of a run to go on with")
    log_seconds: float = setting(5.0, "seconds between two lines of the log, and the window of its rates", above=0)
    checkpoint_seconds: float = setting(300.0, "seconds between two checkpoints", above=0)
    keep_checkpoints: int = setting(3, "checkpoints that are kept", low=1)
    tensorboard: bool = setting(True, "write TensorBoard events")

    def __post_init__(self) -> None:
        check(self)
        for name in ("run", "resume"):  # not every shell does it, and none where it comes from a file or from Python
            object.__setattr__(self, name, os.path.expanduser(getattr(self, name)))
        if not self.game:
            raise ConfigError("GAME is empty: name an ALE game (Pong) or a Gymnasium id (CartPole-v1)")
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise ConfigError(f"DEVICE={self.device} is unknown: it is auto, cpu, cuda, cuda:0, cuda:1 … or mps")
        for name, end in (("LEARNING_RATE_END", self.learning_rate_end), ("BETA_END", self.beta_end)):
            if end is not None and not self.max_steps:
                raise ConfigError(f"{name} needs MAX_STEPS: it is the value that is reached there")
        if self.c_bar > self.rho_bar:
            raise ConfigError(f"C_BAR={self.c_bar:g} is larger than RHO_BAR={self.rho_bar:g}: it is at most that")
        if self.algo == "a3c":
            for word, given in (("LISTEN", self.listen), ("SERIAL=1", self.serial), ("AGENTS=0", self.agents == 0)):
                if given:
                    raise ConfigError(f"ALGO=a3c trains in agent processes of this machine: leave out {word}")
        if self.listen:
            check_listen(self.listen, self.keys)
            if self.serial:
                raise ConfigError("SERIAL=1 has nobody to wait for: leave out LISTEN")
        elif self.agents == 0:
            raise ConfigError("AGENTS=0 plays nothing: LISTEN says where agents of other machines may join")

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Config:
        """Settings from ``KEY=VALUE`` words: ``CONFIG=file.toml`` first, then the words, over the preset they name."""
        return cls.from_mapping(read_words(cls, words))

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Config:
        """Settings by field name, over the preset that they name and the run that they resume."""
        preset = str(given.get("preset", ""))
        if preset not in PRESETS and preset != "":
            raise ConfigError(f"PRESET={preset} is unknown.{nearest(preset, PRESETS)} Presets: {', '.join(PRESETS)}")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                raise ConfigError(f"{name} is not a setting.{nearest(name, known)}")
        resumed = _settings_of_run(str(given["resume"])) if given.get("resume") else {}
        if resumed and given.get("algo") not in (None, resumed["algo"]):
            resumed = {name: value for name, value in resumed.items() if name not in DECIDED_BY_ALGO}
        return cls(**{**resumed, **PRESETS.get(preset, {}), **given})

    @property
    def corrected(self) -> bool:
        """Whether experiences carry what V-trace needs."""
        return self.correction == "vtrace"

    @property
    def oldest(self) -> int:
        """Updates that may have been made since an experience began; 0: any number."""
        # With a3c all others make an update between two of one environment, so that this lag is no sign of ill.
        least = 4 * (self.agents or 1) * (self.envs_per_agent or 1) if self.algo == "a3c" else 0
        return self.max_lag and max(self.max_lag, least)

    def replace(self, **changes: Any) -> Config:
        return dataclasses.replace(self, **changes)

    def for_agents(self) -> dict[str, Any]:
        """What an agent of another machine has to know."""
        return {name: getattr(self, name) for name in AGENT_SETTINGS}

    def to_dict(self) -> dict[str, Any]:
        """What is written of a run; how it was resumed is no setting to start the next one from."""
        return {**dataclasses.asdict(self), "resume": ""}


def _settings_of_run(path: str) -> dict[str, Any]:
    """The settings that a run was started with; its directory is where the resumed run goes on writing."""
    file = Path(path).expanduser() / "config.json"
    try:
        settings: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"RESUME={path} is not a run directory: {file} cannot be read ({error})") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"RESUME={path} is not a run directory: {file} holds no settings")
    known = {field.name for field in dataclasses.fields(Config)}
    return {"algo": "ga3c"} | {name: value for name, value in settings.items() if name in known} | {"run": path}
