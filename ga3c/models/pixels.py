"""Mean and deviation of each pixel, by which a network's input is normalized."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ga3c.models.network import PIXEL_SCALE

PIXEL_DEVIATION = 5.0  # a pixel that hardly ever changes counts as one with this deviation, of 255
MEASURED_FRAMES = 20_000  # after which mean and deviation of the pixels stay as they are


class PixelStatistics:
    """Mean and deviation of each pixel over the first frames that were trained on (Chan's parallel formula)."""

    def __init__(self, count: Tensor, sums: Tensor) -> None:
        """Both are written in place: ``count``, one number in the CPU's memory, and ``sums``, two for each pixel."""
        self._count = count
        self._mean, self._squares = sums.chunk(2)  # summed squares of the differences from the mean

    @property
    def complete(self) -> bool:
        return int(self._count) >= MEASURED_FRAMES

    def add(self, frames: Tensor) -> None:
        frames = frames.flatten(1).to(torch.float32)
        before, count, mean = int(self._count), len(frames), frames.mean(dim=0)
        squares = (frames - mean).square().sum(dim=0)
        total = before + count
        change = mean - self._mean
        self._mean += change * (count / total)
        self._squares += squares + change.square() * (before * count / total)
        self._count.fill_(total)

    def constants(self) -> Tensor:
        """Mean and scale of each pixel. One that never changed keeps the plain scale: its next change is no wonder."""
        deviation = (self._squares / max(int(self._count), 1)).sqrt()
        scale = torch.where(deviation > 0, 1 / deviation.clamp_min(PIXEL_DEVIATION), PIXEL_SCALE)
        return torch.cat([self._mean, scale])

    def state(self) -> np.ndarray:
        return torch.cat([self._count.to(torch.float32), self._mean.cpu(), self._squares.cpu()]).numpy()

    def load(self, state: np.ndarray) -> None:
        self._count.fill_(int(state[0]))
        mean, squares = torch.tensor(state[1:]).chunk(2)
        self._mean.copy_(mean)
        self._squares.copy_(squares)
