"""How actor-critic agents act: by the policy, until the value of where they are ends an experience. Without torch.

A prediction gives the probability of each action, and the value behind them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Field, Schema, action_field
from ga3c.memory.figures import Figure, mean
from ga3c.memory.rollout import Steps
from ga3c.settings.config import Resolved

LEAST_CHANCE = 1e-6  # of an action that was drawn: rounding can lead to one whose probability is 0
MOST_CHANCE = 1.001  # by rounding, too

FIGURES = (
    Figure(
        "policy_loss", mean("policy_loss"), "mean of −log π(a|s) times the advantage", board="learning", style="digits"
    ),
    Figure("value_loss", mean("value_loss"), "mean of (R − V)²", ("Loss", "value loss"), "learning", "digits"),
    Figure("entropy", mean("entropy"), "of the policy", ("Loss", "entropy"), "learning", "digits"),
)


class Acting:
    figures = FIGURES
    bootstraps = True

    def __init__(self, config: Resolved, spec: EnvSpec) -> None:
        assert isinstance(spec.action, Discrete)
        self.width = spec.action.n + 1
        self._discount = config.discount
        self._corrected = config.correction == "vtrace"
        fields = [action_field(spec.action), Field("returns", "<f4")]
        if self._corrected:
            chances = Field("chances", "<f4", low=LEAST_CHANCE / 2, high=MOST_CHANCE)
            fields += [Field("rewards", "<f4"), chances]
        self.schema = Schema(tuple(fields), reached=self._corrected)

    def act(self, outputs: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, dict[str, list[float]]]:
        policies = outputs[:, :-1].tolist()
        actions = sample(policies, random)
        kept = {}
        if self._corrected:
            drawn = [policy[action] for policy, action in zip(policies, actions, strict=True)]
            kept["chances"] = [chance if chance > LEAST_CHANCE else LEAST_CHANCE for chance in drawn]
        return np.array(actions), kept

    def best(self, outputs: np.ndarray) -> np.ndarray:
        actions: np.ndarray = outputs[:, :-1].argmax(axis=1)
        return actions

    def finish(self, steps: Steps, outputs: np.ndarray | None) -> dict[str, np.ndarray]:
        assert outputs is not None
        value = 0.0 if steps.terminated else float(outputs[-1])
        fields = {
            "actions": np.array(steps.actions, dtype=np.int32),
            "returns": n_step_returns(steps.rewards, value, self._discount),
        }
        if self._corrected:
            fields["rewards"] = np.array(steps.rewards, dtype=np.float32)
            fields["chances"] = np.array(steps.kept["chances"], dtype=np.float32)
        return fields


def sample(policies: list[list[float]], random: np.random.Generator) -> list[int]:
    """An action of each policy, drawn by its probabilities."""
    last = len(policies[0]) - 1
    # Rounding can leave the last sum below 1, so the number of sums passed is capped at the last action.
    return [
        min(bisect_right(list(accumulate(policy)), draw), last)
        for policy, draw in zip(policies, random.random(len(policies)).tolist(), strict=True)
    ]


def n_step_returns(rewards: Sequence[float], bootstrap: float, discount: float) -> np.ndarray:
    """R_t = r_t + γ·R_{t+1}, with the bootstrap value after the last reward."""
    returns = np.empty(len(rewards), dtype=np.float32)
    following = bootstrap
    for step in range(len(rewards) - 1, -1, -1):
        following = rewards[step] + discount * following
        returns[step] = following
    return returns
