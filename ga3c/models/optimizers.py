"""Optimizers: how a gradient becomes the next weights, and how their numbers change while a run goes on.

Each works on one flat vector and writes the next version beside the old one, piece by piece on a CPU, so that a piece
stays in its core's cache. What it remembers are further vectors (``names``), which a checkpoint keeps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

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


class Optimizer(ABC):
    def __init__(self, initial: Mapping[str, float], size: int, device: torch.device) -> None:
        """``initial`` is what it remembers of each weight, by name: the value that it begins with."""
        self.initial = initial
        self._room = torch.empty(min(UPDATE_PIECE, size) if device.type == "cpu" else size, device=device)

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
        vectors = (new, old, gradient, *(memory[name] for name in self.initial))
        pieces = (torch.split(vector, len(self._room)) for vector in vectors)
        for following, weights, slope, *kept in zip(*pieces, strict=True):
            room = self._room[: len(slope)]
            along, root, rate = self._move(slope, *kept, room=room, rate=learning_rate, number=number)
            torch.addcdiv(weights, along, root, value=-rate, out=following)

    @abstractmethod
    def _move(self, slope: Tensor, *kept: Tensor, room: Tensor, rate: float, number: int) -> Move:
        """What a piece of the weights goes along, by its gradient; what is remembered of it, in place."""


class Move(NamedTuple):
    """θ ← θ − rate · along / root."""

    along: Tensor
    root: Tensor  # in the room that is given for it
    rate: float


class RMSProp(Optimizer):
    """RMSProp with ε inside the root (equation 3): g ← αg+(1−α)Δ², θ ← θ − ηΔ/√(g+ε)."""

    def __init__(self, config: Config, size: int, device: torch.device) -> None:
        super().__init__({"mean_square": config.rmsprop_initial}, size, device)
        self._decay, self._epsilon = config.rmsprop_decay, config.rmsprop_epsilon

    def _move(self, slope: Tensor, *kept: Tensor, room: Tensor, rate: float, number: int) -> Move:
        (square,) = kept
        square.mul_(self._decay).addcmul_(slope, slope, value=1 - self._decay)
        return Move(slope, torch.add(square, self._epsilon, out=room).sqrt_(), rate)


class CenteredRMSProp(Optimizer):
    """RMSProp of Mnih et al. 2015: m ← αm+(1−α)Δ, g ← αg+(1−α)Δ², θ ← θ − ηΔ/√(g−m²+ε)."""

    def __init__(self, config: Config, size: int, device: torch.device) -> None:
        super().__init__({"mean_square": config.rmsprop_initial, "mean_gradient": 0.0}, size, device)
        self._decay, self._epsilon = config.rmsprop_decay, config.rmsprop_epsilon

    def _move(self, slope: Tensor, *kept: Tensor, room: Tensor, rate: float, number: int) -> Move:
        square, mean = kept
        square.mul_(self._decay).addcmul_(slope, slope, value=1 - self._decay)
        mean.lerp_(slope, 1 - self._decay)
        root = torch.addcmul(square, mean, mean, value=-1, out=room).add_(self._epsilon).sqrt_()
        return Move(slope, root, rate)


class Adam(Optimizer):
    """Adam of Kingma and Ba 2015, with ε beside the root of the corrected mean square."""

    def __init__(self, config: Config, size: int, device: torch.device) -> None:
        super().__init__({"mean_square": 0.0, "mean_gradient": 0.0}, size, device)
        self._decay, self._epsilon = config.adam_decay, config.adam_epsilon

    def _move(self, slope: Tensor, *kept: Tensor, room: Tensor, rate: float, number: int) -> Move:
        square, mean = kept
        unbiased = math.sqrt(1 - ADAM_SQUARE_DECAY**number)
        square.mul_(ADAM_SQUARE_DECAY).addcmul_(slope, slope, value=1 - ADAM_SQUARE_DECAY)
        mean.lerp_(slope, 1 - self._decay)
        root = torch.sqrt(square, out=room).add_(self._epsilon * unbiased)
        return Move(mean, root, rate * unbiased / (1 - self._decay**number))


OPTIMIZERS: dict[str, Callable[[Config, int, torch.device], Optimizer]] = {
    "rmsprop": RMSProp,
    "centered": CenteredRMSProp,
    "adam": Adam,
}  # by the names of OPTIMIZER


def make_optimizer(config: Config, size: int, device: torch.device) -> Optimizer:
    return OPTIMIZERS[config.optimizer or "rmsprop"](config, size, device)
