"""How Q-learning agents act: by the largest Q-value, and by chance where ε says so. Without torch.

A prediction gives the Q-value of each action, and ε behind them: whoever predicts knows how far the run is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Field, Schema, action_field
from ga3c.memory.figures import Figure, gauge, mean, rate, ratio
from ga3c.memory.rollout import Steps
from ga3c.settings.config import Resolved

REPLAY = "Replay"
FIGURES = (
    Figure("loss", mean("loss"), "of a transition", ("Loss", "loss"), "learning", "digits"),
    Figure(
        "q_mean", mean("q_mean"), "Q-value of the actions that are learnt from", ("Loss", "Q"), "learning", "digits"
    ),
    Figure("epsilon", gauge("epsilon"), "chance of an action without regard to Q-values", (REPLAY, "ε"), "learning"),
    Figure("memory_full", gauge("memory_full"), "share of REPLAY_STEPS", (REPLAY, "full"), "learning", "share"),
    Figure(
        "transitions_per_second", rate("stored_steps"), "stored in the replay memory", (REPLAY, "stored/s"), "speed"
    ),
    Figure(
        "replay_ratio", ratio("samples", "stored_steps"), "transitions trained for each one stored", board="learning"
    ),
    Figure("replay_ratio_asked", gauge("replay_ratio_asked"), "the same, as BATCH and TRAIN_PERIOD ask for it"),
)


class Acting:
    figures = FIGURES
    bootstraps = False

    def __init__(self, config: Resolved, spec: EnvSpec) -> None:
        assert isinstance(spec.action, Discrete)
        self._actions = spec.action.n
        self.width = spec.action.n + 1
        self.schema = Schema((action_field(spec.action), Field("rewards", "<f4")), reached=True)

    def act(self, outputs: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, dict[str, list[Any]]]:
        by_chance = random.random(len(outputs)) < outputs[:, -1]
        any_action = random.integers(self._actions, size=len(outputs))
        return np.where(by_chance, any_action, self.best(outputs)), {}

    def best(self, outputs: np.ndarray) -> np.ndarray:
        actions: np.ndarray = outputs[:, :-1].argmax(axis=1)
        return actions

    def finish(self, steps: Steps, outputs: np.ndarray | None) -> dict[str, np.ndarray]:
        return {
            "actions": np.array(steps.actions, dtype=np.int32),
            "rewards": np.array(steps.rewards, dtype=np.float32),
        }
