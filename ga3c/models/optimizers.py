"""Optimizers: how a gradient becomes the next weights, and how their numbers change while a run goes on.

Each works on one flat vector and writes the next version beside the old one, piece by piece on a CPU, so that a piece
stays in its core's cache. What it remembers are further vectors (``names``), which a checkpoint keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from ga3c.settings.config import Config

UPDATE_PIECE = 2**17  # weights
ADAM_SQUARE_DECAY = 0.999  # β₂


def linear(start: float, end: float | None, steps: int, max_steps: int) -> float:
    """The value on the line from ``start`` at step 0 to ``end`` at ``max_steps``; constant where there is no end."""
    if end is None or not max_steps:
        return start
    return start + (end - start) * min(steps / max_steps, 1.0)


class Optimizer(Protocol):
    @property
    def initial(self) -> Mapping[str, float]:
        """What it remembers of each weight, by name: the value that it begins with."""

    def step(
        self,
        new: Tensor,
        old: Tensor,
        gradient: Tensor,
        memory: Mapping[str, Tensor],
        learning_rate: float,
        number: int = 1,
    ) -> None:
        """Write what follows the ``old`` weights to ``new``, which may be the same; ``memory`` in place.

        ``number`` is that of this update, from 1 on.
        """


class Pieces:
    """What all have in common: room for a piece, and vectors cut into pieces."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._room = torch.empty(min(UPDATE_PIECE, size) if device.type == "cpu" else size, device=device)

    def _pieces(self, *vectors: Tensor) -> zip[tuple[Tensor, ...]]:
        return zip(*(torch.split(vector, len(self._room)) for vector in vectors), strict=True)


class RMSProp(Pieces):
    """RMSProp with ε inside the root (equation 3): g ← αg+(1−α)Δ², θ ← θ − ηΔ/√(g+ε)."""

    def __init__(self, config: Config, size: int, device: torch.device) -> None:
        super().__init__(size, device)
        self.initial = {"mean_square": config.rmsprop_initial}
        self._decay, self._epsilon = config.rmsprop_decay, config.rmsprop_epsilon

    def step(
        self,
        new: Tensor,
        old: Tensor,
        gradient: Tensor,
        memory: Mapping[str, Tensor],
        learning_rate: float,
        number: int = 1,
    ) -> None:
        for following, weights, slope, square in self._pieces(new, old, gradient, memory["mean_square"]):
            square.mul_(self._decay).addcmul_(slope, slope, value=1 - self._decay)
            root = torch.add(square, self._epsilon, out=self._room[: len(slope)]).sqrt_()
            torch.addcdiv(weights, slope, root, value=-learning_rate, out=following)


class CenteredRMSProp(Pieces):
    """RMSProp of Mnih et al. 2015: m ← αm+(1−α)Δ, g ← αg+(1−α)Δ², θ ← θ − ηΔ/√(g−m²+ε)."""

    def __init__(self, config: Config, size: int, device: torch.device) -> None:
        super().__init__(size, device)
        self.initial = {"mean_square": config.rmsprop_initial, "mean_gradient": 0.0}
        self._decay, self._epsilon = config.rmsprop_decay, config.rmsprop_epsilon

    def step(
        self,
        new: Tensor,
        old: Tensor,
        gradient: Tensor,
        memory: Mapping[str, Tensor],
        learning_rate: float,
        number: int = 1,
    ) -> None:
        vectors = (new, old, gradient, memory["mean_square"], memory["mean_gradient"])
        for following, weights, slope, square, mean in self._pieces(*vectors):
            square.mul_(self._decay).addcmul_(slope, slope, value=1 - self._decay)
            mean.lerp_(slope, 1 - self._decay)
            root = torch.addcmul(square, mean, mean, value=-1, out=self._room[: len(slope)])
            root.add_(self._epsilon).sqrt_()
            torch.addcdiv(weights, slope, root, value=-learning_rate, out=following)


class Adam(Pieces):
    """Adam of Kingma and Ba 2015, with ε beside the root of the corrected mean square."""

    def __init__(self, config: Config, size: int, device: torch.device) -> None:
        super().__init__(size, device)
        self.initial = {"mean_square": 0.0, "mean_gradient": 0.0}
        self._decay, self._epsilon = config.adam_decay, config.adam_epsilon

    def step(
        self,
        new: Tensor,
        old: Tensor,
        gradient: Tensor,
        memory: Mapping[str, Tensor],
        learning_rate: float,
        number: int = 1,
    ) -> None:
        unbiased = math.sqrt(1 - ADAM_SQUARE_DECAY**number)
        rate = learning_rate * unbiased / (1 - self._decay**number)
        vectors = (new, old, gradient, memory["mean_square"], memory["mean_gradient"])
        for following, weights, slope, square, mean in self._pieces(*vectors):
            square.mul_(ADAM_SQUARE_DECAY).addcmul_(slope, slope, value=1 - ADAM_SQUARE_DECAY)
            mean.lerp_(slope, 1 - self._decay)
            root = torch.sqrt(square, out=self._room[: len(slope)]).add_(self._epsilon * unbiased)
            torch.addcdiv(weights, mean, root, value=-rate, out=following)


OPTIMIZERS: dict[str, Callable[[Config, int, torch.device], Optimizer]] = {
    "rmsprop": RMSProp,
    "centered": CenteredRMSProp,
    "adam": Adam,
}  # by the names of OPTIMIZER


def make_optimizer(config: Config, size: int, device: torch.device) -> Optimizer:
    return OPTIMIZERS[config.optimizer or "rmsprop"](config, size, device)
