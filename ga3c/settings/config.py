"""Every setting of a run: one dataclass with defaults, help, validation, ``KEY=VALUE`` overrides and presets.

Adding a setting is one edit in its group (``groups.py``, or ``rules.py`` for that of a rule): the command line,
``help``, the settings' table and ``config.json`` follow from it, and what is done with it stands beside it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ga3c.settings.address import check_listen
from ga3c.settings.declare import ConfigError, check, nearest, read_words, settings_that
from ga3c.settings.env_args import one_spelling
from ga3c.settings.groups import (
    AlgorithmSettings,
    FleetSettings,
    GameSettings,
    LearningSettings,
    ModelSettings,
    RunSettings,
    TunerSettings,
)
from ga3c.settings.presets import PRESETS
from ga3c.settings.recipes import RECIPES, Recipe
from ga3c.settings.rules import ActorCriticSettings, QLearningSettings


@dataclass(frozen=True, kw_only=True)
class Config(  # the last group comes first where settings are listed
    RunSettings,
    ModelSettings,
    QLearningSettings,
    ActorCriticSettings,
    LearningSettings,
    TunerSettings,
    FleetSettings,
    AlgorithmSettings,
    GameSettings,
):
    """The settings of a run. ``None`` stands for ``auto`` (chosen when the run starts) or for "not used"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "env_args", one_spelling(self.env_args))  # from Python and TOML, a mapping as well
        if callable(self.network):  # from Python; what is written of a run has names
            object.__setattr__(self, "network", _name_of(self.network))
        check(self, Config)
        for name in ("run", "resume"):  # not every shell does it, and none where it comes from a file or from Python
            object.__setattr__(self, name, os.path.expanduser(getattr(self, name)))
        if not self.game:
            raise ConfigError("GAME is empty: name an ALE game (Pong) or a Gymnasium id (CartPole-v1)")
        for name, device in (("DEVICE", self.device), ("REPLAY_DEVICE", self.replay_device)):
            if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
                raise ConfigError(f"{name}={device} is unknown: it is auto, cpu, cuda, cuda:0, cuda:1 … or mps")
        for name, end in (("LEARNING_RATE_END", self.learning_rate_end), ("BETA_END", self.beta_end)):
            if end is not None and not self.max_steps:
                raise ConfigError(f"{name} needs MAX_STEPS: it is the value that is reached there")
        self.check_actor_critic()
        self._check_fleet()
        if self.recipe.agents_learn:
            if self.optimizer not in (None, "rmsprop"):
                raise ConfigError(
                    f"ALGO={self.algo} has one mean square for all agents: OPTIMIZER={self.optimizer} is for others"
                )
            for word, given in (("LISTEN", self.listen), ("SERIAL=1", self.serial), ("AGENTS=0", self.agents == 0)):
                if given:
                    raise ConfigError(f"ALGO={self.algo} trains in agent processes of this machine: leave out {word}")
            if self.network.startswith("__main__:"):
                raise ConfigError(
                    f"ALGO={self.algo} trains in agent processes, which cannot import NETWORK={self.network}: "
                    "write it to a file of its own"
                )
        if self.recipe.replays and (self.predictors, self.trainers) != (1, 1):
            raise ConfigError(f"ALGO={self.algo} has one predictor and one trainer: leave out PREDICTORS and TRAINERS")
        if self.listen:
            check_listen(self.listen, self.keys)
            if self.recipe.replays and self.synchronized:
                raise ConfigError(
                    "SYNCHRONIZED=1 lets all environments wait for each other, and agents of other machines come and "
                    "go: with LISTEN, say SYNCHRONIZED=0"
                )
            if self.serial:
                raise ConfigError("SERIAL=1 has nobody to wait for: leave out LISTEN")
        elif self.agents == 0:
            raise ConfigError("AGENTS=0 plays nothing: LISTEN says where agents of other machines may join")

    def _check_fleet(self) -> None:
        if self.samplers is None:
            return
        if self.envs_per_agent is not None and self.samplers != (self.agents or 0) * self.envs_per_agent:
            raise ConfigError("SAMPLERS are the environments of all agents together: leave out ENVS_PER_AGENT")
        if self.agents and self.samplers % self.agents:
            raise ConfigError(
                f"SAMPLERS={self.samplers} cannot be shared equally by AGENTS={self.agents}: let it be a multiple"
            )
        if self.agents == 0:
            raise ConfigError("SAMPLERS are of this machine's agents: with AGENTS=0, say ENVS_PER_AGENT")

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """Settings from ``KEY=VALUE`` words: ``CONFIG=file.toml`` first, then the words, over the preset they name."""
        return cls.from_mapping(read_words(cls, words))

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Self:
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
            resumed = {name: value for name, value in resumed.items() if name not in settings_that(Config, "by_algo")}
        if resumed:  # one of them follows from the other and AGENTS, which may be given anew
            replays = RECIPES[str(given.get("algo", resumed["algo"]))].replays
            resumed.pop("envs_per_agent" if replays else "samplers", None)
        return cls(**{**resumed, **PRESETS.get(preset, {}), **given})

    @property
    def recipe(self) -> Recipe:
        """What the algorithm is made of."""
        return RECIPES[self.algo]

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    def for_agents(self) -> dict[str, Any]:
        """What an agent of another machine has to know."""
        return {name: getattr(self, name) for name in TRAVELLING}

    def to_dict(self) -> dict[str, Any]:
        """What is written of a run; how it was resumed is no setting to start the next one from."""
        return {**dataclasses.asdict(self), "resume": ""}


TRAVELLING = settings_that(Config, "travels")  # what playing depends on; the rest is no business of another machine


@dataclass(frozen=True, kw_only=True)
class Resolved(Config):
    """The settings of a run with each ``auto`` decided (``ga3c.runs.resolve``).

    An end of learning rate or β may still be None: that is no ``auto``, but means that it stays where it begins.
    COMPRESS may, too: each agent decides it by the address that it connects to.
    """

    sticky: float = 0.0
    agents: int = 1
    envs_per_agent: int = 1
    tuner_lag: float = 0.0
    samplers: int = 1
    min_batch: int = 1
    learning_rate: float = 1e-4
    optimizer: str = "rmsprop"
    correction: str = "none"
    replay_start: int = 1
    target_period: int = 1
    epsilon_steps: int = 1
    torch_threads: int = 1
    train_queue: int = 1

    def _check_fleet(self) -> None:
        """One was decided by the others."""

    @property
    def in_step(self) -> bool:
        """All environments wait for each other."""
        return self.recipe.replays and self.synchronized

    @property
    def oldest(self) -> int:
        """Updates that may have been made since an experience began; 0: any number."""
        # Where agents learn, all others make an update between two of one environment: such a lag is no sign of ill.
        least = 4 * self.agents * self.envs_per_agent if self.recipe.agents_learn else 0
        return self.max_lag and max(self.max_lag, least)


def _name_of(network: Any) -> str:
    """The setting that means this class or function."""
    module, name = getattr(network, "__module__", None), getattr(network, "__qualname__", None)
    found: Any = sys.modules.get(str(module))
    for part in str(name).split("."):
        found = getattr(found, part, None)
    if found is not network:
        raise ConfigError(f"NETWORK={network!r} has no name by which it could be found again: define it in a module")
    return f"{module}:{name}"


def _settings_of_run(path: str) -> dict[str, Any]:
    """The settings that a run was started with; its directory is where the resumed run goes on writing."""
    file = Path(path).expanduser() / "config.json"
    try:
        settings: Any = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        just_started = ", or its run has only just started" if file.parent.is_dir() else ""
        raise ConfigError(
            f"RESUME={path} is not a run directory{just_started}: there is no {file.name} in it"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"RESUME={path} is not a run directory: {file} cannot be read ({error})") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"RESUME={path} is not a run directory: {file} holds no settings")
    known = {field.name for field in dataclasses.fields(Config)}
    return {"algo": Config.algo} | {name: value for name, value in settings.items() if name in known} | {"run": path}
