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
    untuned: str = ""  # why TUNER does nothing; empty: it tunes

    @property
    def agents_learn(self) -> bool:
        """Agents need torch and this machine's memory, and wait for nobody."""
        return self.learns == "agent"


RECIPES: dict[str, Recipe] = {
    "ga3c": Recipe(
        meaning="one model for all agents",
        rule="actor_critic",
        predicts="server",
        memory="queue",
        learns="server",
        engine="server",
        usual={"min_batch": MIN_BATCH, "correction": "vtrace"},
    ),
    "a3c": Recipe(
        meaning="agents with copies of it that train by themselves, on the CPU",
        rule="actor_critic",
        predicts="agent",
        memory="queue",
        learns="agent",
        engine="lone",
        usual={"min_batch": 1, "correction": "none", "envs_per_agent": 1},
        untuned="agents need nobody, so there is nothing to tune",
    ),
}
