"""Requests and experiences laid out as one batch, in the order in memory that is fastest for what comes.

Observations arrive with the stack first. Predictions are fastest so: the copy is a plain one. Gradients are a third
faster with the stack last (``channels_last``): there the copy, which has to be made anyway, turns them on the way, and
on a CPU that is several times faster than converting a finished batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ga3c.games.spec import EnvSpec
from ga3c.memory.experience import Experience


class Correction(NamedTuple):
    """What V-trace needs of the experiences that a batch is made of, in their order."""

    reached: Tensor  # (experiences, stack, *frame): the observations after the last steps
    lengths: np.ndarray  # (experiences,): how many steps each has
    terminated: np.ndarray  # (experiences,) bool
    rewards: np.ndarray  # (n,)
    chances: np.ndarray  # (n,): μ(a|s)


class TrainingBatch(NamedTuple):
    observations: Tensor  # (n, stack, *frame), in memory (n, *frame, stack)
    actions: Tensor  # (n,) int64
    returns: Tensor  # (n,) float32
    correction: Correction | None


class Batches:
    """Makes batches in a buffer of its own, so each thread has one, and a batch lasts until the next is made.

    On CUDA the buffer is pinned and copied without waiting; whoever reads the result of a batch waits for it, and does
    so before the next batch is made.
    """

    def __init__(self, spec: EnvSpec, device: torch.device) -> None:
        self._spec = spec
        self._device = device
        self._numbers = math.prod(spec.observation)  # of one observation
        self._buffer = self._allocate(32)

    def _allocate(self, count: int) -> Tensor:
        pinned = self._device.type == "cuda"
        return torch.empty((count, self._numbers), dtype=getattr(torch, self._spec.dtype), pin_memory=pinned)

    def _room(self, count: int, *shape: int) -> tuple[Tensor, np.ndarray]:
        """``count`` observations of the buffer, as the tensor and as the array that shares its memory."""
        if len(self._buffer) < count:
            self._buffer = self._allocate(2 * count)
        rows = self._buffer[:count].view(count, *shape)
        return rows, rows.numpy()

    def prediction(self, observations: Sequence[np.ndarray]) -> Tensor:
        """One batch of the observations (n, stack, *frame) of several requests."""
        if len(observations) == 1 and observations[0].flags.writeable and self._device.type == "cpu":
            return torch.from_numpy(observations[0])  # a batch already
        batch, rows = self._room(sum(len(some) for some in observations), *self._spec.observation)
        start = 0
        for some in observations:
            rows[start : start + len(some)] = some
            start += len(some)
        return batch.to(self._device, non_blocking=True)

    def training(self, experiences: Sequence[Experience]) -> TrainingBatch:
        """One batch of the steps of several experiences, all of which have what V-trace needs, or none has."""
        stack = self._spec.stack
        rewards = [experience.rewards for experience in experiences if experience.rewards is not None]
        chances = [experience.chances for experience in experiences if experience.chances is not None]
        count = sum(experience.steps for experience in experiences)
        buffer, rows = self._room(count + len(chances), *self._spec.frame, stack)
        start = 0
        for experience in experiences:
            steps = experience.steps
            for place in range(stack):
                rows[start : start + steps, ..., place] = experience.frames[place : place + steps]
            start += steps
        for row, experience in zip(rows[count:], experiences, strict=False):
            for place in range(stack):
                row[..., place] = experience.frames[experience.steps + place]
        observations = buffer.to(self._device, non_blocking=True).movedim(-1, 1)
        correction = None
        if chances:
            correction = Correction(
                observations[count:],
                np.array([experience.steps for experience in experiences]),
                np.array([experience.terminated for experience in experiences]),
                np.concatenate(rewards),
                np.concatenate(chances),
            )
        actions = np.concatenate([experience.actions for experience in experiences]).astype(np.int64)
        returns = np.concatenate([experience.returns for experience in experiences])
        return TrainingBatch(observations[:count], self._sent(actions), self._sent(returns), correction)

    def _sent(self, numbers: np.ndarray) -> Tensor:
        """These few numbers on the device; from memory that is not pinned, CUDA would wait for all other threads."""
        here = torch.from_numpy(numbers)
        if self._device.type == "cuda":
            return here.pin_memory().to(self._device, non_blocking=True)
        return here.to(self._device)
