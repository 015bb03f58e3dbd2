"""The settings that all algorithms have, in groups: who takes a group says by its type what it depends on."""

from __future__ import annotations

from dataclasses import dataclass

from ga3c.settings.declare import setting
from ga3c.settings.presets import PRESETS
from ga3c.settings.recipes import MIN_BATCH, RECIPES

NETWORKS = ("auto", "small", "large-4", "large-3", "large-2", "large-1", "nature", "tiny", "mlp")
OPTIMIZERS = ("rmsprop", "centered", "adam")
TUNERS = ("anneal", "paper", "sweep", "off")


@dataclass(frozen=True, kw_only=True)
class GameSettings:
    """What is played."""

    game: str = setting(
        "Pong", "an ALE game (Pong, ms_pacman) or a Gymnasium id (CartPole-v1, module:Id)", travels=True
    )
    env_args: str = setting(
        "",
        "what gymnasium.make takes beside the id, as JSON: '{\"continuous\": false}'; empty: nothing",
        travels=True,
        decides="model",
    )
    color: bool = setting(False, "large images keep their colours; 0: they become gray", travels=True, decides="model")
    seed: int = setting(
        0, "seed of weights, environments and action sampling", low=0, high=2**31 - 1, travels=True, decides="players"
    )
    sticky: float | None = setting(
        None,
        "probability that the emulator repeats the last action; auto: the id's own, 0 for a plain game",
        low=0,
        high=1,
        travels=True,
        follows=True,
    )
    noop_max: int = setting(
        30,
        "a game begins with fewer emulated frames of no-op than this, by chance",
        low=0,
        high=1_000_000,
        travels=True,
    )
    stagger: int = setting(
        2000,
        "an environment's game is cut once within so many steps, by chance, so that not all stay in step; 0: none is",
        low=0,
        high=1_000_000,
        travels=True,
    )
    episodic_life: bool = setting(
        False, "train each lost life as the end of an episode (scores stay whole games)", travels=True
    )
    reward_clip: float = setting(1.0, "rewards are clipped to ± this for training; 0: not clipped", low=0, travels=True)


@dataclass(frozen=True, kw_only=True)
class AlgorithmSettings:
    """Which algorithm, and from where its settings start."""

    algo: str = setting(
        "ga3c",
        "; ".join(f"{name}: {recipe.meaning}" for name, recipe in RECIPES.items()),
        choices=tuple(RECIPES),
        travels=True,
    )
    preset: str = setting("", "named settings that the others start from", choices=("", *PRESETS))


@dataclass(frozen=True, kw_only=True)
class FleetSettings:
    """How many of what, and what is waited for."""

    agents: int | None = setting(
        None,
        "agent processes (NA); auto: a few more than cores, with a3c as many; 0: only those that join at LISTEN",
        low=0,
        high=4096,
        decides="players",
        by_algo=True,
    )
    predictors: int = setting(1, "predictor threads (NP)", low=1, high=64)
    trainers: int = setting(1, "trainer threads (NT)", low=1, high=64)
    envs_per_agent: int | None = setting(
        None,
        "environments of each agent (K); auto: 8 to 32 for ALE, 4 for others, 1 with a3c",
        low=1,
        high=1024,
        travels=True,
        decides="players",
        by_algo=True,
    )
    samplers: int | None = setting(
        None,
        "environments of all agents together (W); auto: AGENTS times ENVS_PER_AGENT, with dqn 16, or 8 with vectors",
        low=1,
        high=4096,
        by_algo=True,
    )
    serial: bool = setting(
        False, "everything in one thread, the same bits for the same SEED, also across RESUME", decides="players"
    )
    max_prediction_batch: int = setting(256, "observations of one prediction, at most", low=1)
    stall_seconds: float = setting(
        30.0,
        "an agent that is silent for this long although it is its turn is replaced; ten times that to start",
        above=0,
        travels=True,
    )
    listen: str = setting(
        "", "where agents of other machines may join, as tcp://0.0.0.0:5555; empty: nowhere", local=True
    )
    keys: str = setting("", "directory with the keys that LISTEN needs, made by './run.sh keys'", local=True)
    compress: bool | None = setting(
        None,
        "agents of other machines compress what they send; auto: if their SERVER is no address of their own machine, "
        "and for as long as it pays",
        travels=True,
    )


@dataclass(frozen=True, kw_only=True)
class TunerSettings:
    """How the three numbers are varied."""

    tuner: str = setting(
        "anneal",
        "how NA, NP and NT are changed during training; SERIAL=1, a3c and dqn have no tuner",
        choices=TUNERS,
        by_algo=True,
    )
    tuner_window: float = setting(60.0, "seconds over which the tuner measures each setting", above=0)
    tuner_lag: float | None = setting(
        None,
        "largest mean policy lag of a setting that the tuner takes; 0: any; auto: half of MAX_LAG",
        low=0,
        follows=True,
    )


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """What all rules have in common."""

    t_max: int = setting(20, "steps of an experience, at most", low=1, high=1024, travels=True, decides="players")
    min_batch: int | None = setting(
        None,
        f"samples that a training batch has at least; auto: {MIN_BATCH}, with a3c 1: each experience by itself",
        low=1,
        by_algo=True,
    )
    discount: float = setting(0.99, "discount γ of future rewards", low=0, high=1, travels=True)
    learning_rate: float | None = setting(
        None, "step size η; auto: 7e-4, with dqn 1e-4 for images and 5e-4 for vectors", above=0, by_algo=True
    )
    learning_rate_end: float | None = setting(None, "η at MAX_STEPS, reached linearly; auto: constant", low=0)
    grad_clip: float = setting(40.0, "largest norm of a gradient; 0: not clipped", low=0)
    optimizer: str | None = setting(
        None,
        "how a gradient becomes a step: RMSProp, RMSProp less the mean gradient, or Adam; auto: rmsprop, with dqn adam",
        choices=OPTIMIZERS,
        by_algo=True,
        decides="model",
    )
    adam_decay: float = setting(
        0.9, "decay β₁ of Adam's mean gradient; that of its mean square is 0.999", low=0, high=1
    )
    adam_epsilon: float = setting(1.5e-4, "ε of Adam, beside the root", above=0)
    rmsprop_decay: float = setting(0.99, "decay α of RMSProp's mean square, and of its mean gradient", low=0, high=1)
    rmsprop_epsilon: float = setting(1e-6, "ε of RMSProp, inside the root", above=0)
    rmsprop_initial: float = setting(1.0, "RMSProp's mean square at the start", low=0)
    max_lag: int = setting(
        100,
        "experiences older than this many updates are thrown away; 0: none is; a3c: at least 4 per environment",
        low=0,
    )
    train_queue: int | None = setting(
        None, "experiences that may wait to be trained; agents wait beyond; auto: two batches", low=1, by_algo=True
    )


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The network, and where it computes."""

    mean_updates: int = setting(
        1000,
        "eval and play take a running mean of the weights over about so many updates; 1: those of the last one",
        low=1,
    )
    network: str = setting(
        "auto",
        "network, or your own as module:Class; auto: small for images, tiny for those of at most 25 pixels a side, mlp "
        "for vectors",
        choices=NETWORKS,
        or_module=True,
        decides="model",
    )
    hidden: int = setting(
        256, "units of the fully connected layers (your own network decides itself)", low=1, decides="model"
    )
    normalize: bool = setting(
        True, "centre and scale each pixel by its mean and deviation over the first 20,000 frames", decides="model"
    )
    init: str = setting("orthogonal", "first weights", choices=("orthogonal", "paper"))
    device: str = setting("auto", "auto, cpu, cuda:0 or mps")
    torch_threads: int | None = setting(
        None, "torch threads of each predictor and trainer, or agent of a3c; auto: 1, with dqn all cores", low=1
    )


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How long, and what is written."""

    max_steps: int = setting(0, "stop after this many steps; 0: no limit", low=0)
    max_seconds: float = setting(0.0, "stop after this many seconds; 0: no limit", low=0)
    max_episodes: int = setting(0, "stop after this many games; 0: no limit", low=0)
    run: str = setting("", "directory of the run; empty: runs/<game>-<time>", local=True)
    resume: str = setting("", "directory of a run to go on with", local=True)
    log_seconds: float = setting(5.0, "seconds between two lines of the log, and the window of its rates", above=0)
    checkpoint_seconds: float = setting(300.0, "seconds between two checkpoints", above=0)
    keep_checkpoints: int = setting(3, "checkpoints that are kept", low=1)
    tensorboard: bool = setting(True, "write TensorBoard events")
