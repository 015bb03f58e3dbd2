"""Optimizers: how a gradient becomes the next weights, and how their numbers change while a run goes on."""

from __future__ import annotations

import torch
from torch import Tensor

from ga3c.settings.groups import LearningSettings

UPDATE_PIECE = 2**17  # weights


def linear(start: float, end: float | None, steps: int, max_steps: int) -> float:
    """The value on the line from ``start`` at step 0 to ``end`` at ``max_steps``; constant where there is no end."""
    if end is None or not max_steps:
        return start
    return start + (end - start) * min(steps / max_steps, 1.0)


class RMSProp:
    """RMSProp with ε inside the root (equation 3): g ← αg + (1−α)Δ², θ ← θ − ηΔ/√(g+ε)."""

    def __init__(self, config: LearningSettings, size: int, device: torch.device) -> None:
        self._decay = config.rmsprop_decay
        self._epsilon = config.rmsprop_epsilon
        self._root = torch.empty(min(UPDATE_PIECE, size) if device.type == "cpu" else size, device=device)

    def step(self, new: Tensor, old: Tensor, gradient: Tensor, mean_square: Tensor, learning_rate: float) -> None:
        """Write what follows the ``old`` weights to ``new``, which may be the same; ``mean_square`` in place."""
        vectors = (torch.split(vector, len(self._root)) for vector in (new, old, gradient, mean_square))
        for following, weights, slope, square in zip(*vectors, strict=True):
            square.mul_(self._decay).addcmul_(slope, slope, value=1 - self._decay)
            root = torch.add(square, self._epsilon, out=self._root[: len(slope)]).sqrt_()
            torch.addcdiv(weights, slope, root, value=-learning_rate, out=following)
