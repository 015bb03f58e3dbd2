"""The table of ALGO: what each algorithm is made of. Plain data, and the one place that knows algorithms by name.

Everything else asks a recipe for what it needs to know, so that a new algorithm is a row here, and its rule a folder in
``ga3c/algorithms``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MIN_BATCH = 160  # samples of a batch where one model serves all
Who = Literal["server", "agent"]


@dataclass(frozen=True)
class Recipe:
    meaning: str  # for the help
    rule: str  # how to act and how to learn: a folder in ga3c/algorithms
    predicts: Who
    memory: str  # where steps wait to be learnt: a key of ga3c.memory.memory.MEMORIES
    learns: Who
    engine: str  # who drives it all: a key of ga3c.engines.engine.ENGINES
    usual: Mapping[str, Any] = field(default_factory=dict)  # settings, where they are not given
    usual_vectors: Mapping[str, Any] = field(default_factory=dict)  # others of them where observations are no images
    untuned: str = ""  # why TUNER does nothing; empty: it tunes

    @property
    def agents_learn(self) -> bool:
        """Agents need torch and this machine's memory, and wait for nobody."""
        return self.learns == "agent"

    @property
    def replays(self) -> bool:
        """Steps are kept, and learnt from many times or never."""
        return self.memory == "replay"


ACTOR_CRITIC = {"learning_rate": 7e-4, "optimizer": "rmsprop"}

RECIPES: dict[str, Recipe] = {
    "ga3c": Recipe(
        meaning="one model for all agents",
        rule="actor_critic",
        predicts="server",
        memory="queue",
        learns="server",
        engine="server",
        usual={**ACTOR_CRITIC, "min_batch": MIN_BATCH, "correction": "vtrace"},
    ),
    "a3c": Recipe(
        meaning="agents with copies of it that train by themselves, on the CPU",
        rule="actor_critic",
        predicts="agent",
        memory="queue",
        learns="agent",
        engine="lone",
        usual={**ACTOR_CRITIC, "min_batch": 1, "correction": "none", "envs_per_agent": 1},
        untuned="agents need nobody, so there is nothing to tune",
    ),
    "dqn": Recipe(
        meaning="Q-learning from a replay memory",
        rule="q_learning",
        predicts="server",
        memory="replay",
        learns="server",
        engine="server",
        usual={
            "learning_rate": 1e-4,
            "optimizer": "adam",
            "samplers": 16,
            "replay_start": 10_000,
            "target_period": 4_000,
            "epsilon_steps": 100_000,
        },
        usual_vectors={
            "learning_rate": 5e-4,
            "samplers": 8,
            "replay_start": 1_000,
            "target_period": 500,
            "epsilon_steps": 20_000,
        },
        untuned="updates follow from steps by TRAIN_PERIOD, so there is nothing to tune",
    ),
}
