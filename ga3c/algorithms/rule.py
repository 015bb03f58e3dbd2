"""A rule: how to act, which is in every agent and never needs torch, and how to learn, which does.

The folder of a rule has two modules, ``acting`` and ``learning``, with a class ``Acting`` and a class ``Learning``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ga3c.games.spec import EnvSpec
from ga3c.memory.figures import Figure
from ga3c.memory.rollout import Finisher
from ga3c.settings.config import Config, Resolved

if TYPE_CHECKING:
    from torch import Tensor

    from ga3c.models.model import Loss
    from ga3c.models.network import Network


class Acting(Finisher, Protocol):
    width: int  # numbers that a prediction gives for an observation
    figures: tuple[Figure, ...]  # what the rule tells of its updates

    def act(self, outputs: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, dict[str, list[Any]]]:
        """An action for each row of outputs, and what ``finish`` wants of each step beside action and reward."""

    def best(self, outputs: np.ndarray) -> np.ndarray:
        """The best action for each row of outputs, without any chance."""


class Learning(Protocol):
    network: Network

    def exploration(self, steps: int) -> float | None:
        """The chance of an action against the model's advice after so many steps; None: actions are drawn from it."""

    def loss(self, weights: Tensor, batch: Any, steps: int, target: Tensor) -> Loss:
        """What to descend, when so many steps of the run were played; ``target`` are the weights of the version that
        targets are made with."""


def with_exploration(outputs: np.ndarray, chance: float) -> np.ndarray:
    """Outputs (n, width − 1) of a rule that explores, with the chance of it behind them."""
    return np.pad(outputs, ((0, 0), (0, 1)), constant_values=chance)


def _part(config: Config, part: str) -> Any:
    module = importlib.import_module(f"ga3c.algorithms.{config.recipe.rule}.{part.lower()}")
    return getattr(module, part)


def rule_figures(config: Config) -> tuple[Figure, ...]:
    """What the rule tells of its updates, whatever is played."""
    figures: tuple[Figure, ...] = _part(config, "Acting").figures
    return figures


def make_acting(config: Resolved, spec: EnvSpec) -> Acting:
    acting: Acting = _part(config, "Acting")(config, spec)
    return acting


def make_learning(config: Resolved, spec: EnvSpec) -> Learning:
    learning: Learning = _part(config, "Learning")(config, spec)
    return learning
