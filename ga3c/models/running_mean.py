"""The running mean of the weights, which ``eval`` and ``play`` take.

Each update moves the policy by noise too, so that of the versions of a few minutes some play better and some worse, by
chance. Their mean has hardly any of that noise. Training goes on with the newest version, as if there were no mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

STRIDE = 10  # updates between two versions that count: those between are like them, and take time
YOUNG = 10  # the mean is over at most one in so many updates up to now, or the first weights would long be part of it


class RunningMean:
    def __init__(self, weights: Tensor, updates: int) -> None:
        """``weights`` is written in place: the mean over about the last ``updates`` versions."""
        self.weights = weights
        self._updates = updates
        self._stride = min(STRIDE, updates)

    @torch.no_grad()
    def add(self, number: int, weights: Tensor) -> None:
        """Count the version of this number, if it is one of those that count."""
        if number < self._stride or number % self._stride == 0:
            self.weights.lerp_(weights, min(1.0, self._stride / min(self._updates, number / YOUNG)))
