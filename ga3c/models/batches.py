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


class TrainingBatch(NamedTuple):
    """The steps of several experiences, one after the other."""

    observations: Tensor  # (n, stack, *frame), in memory with the stack last
    reached: Tensor | None  # (experiences, stack, *frame): the observations after the last steps, where there are any
    fields: dict[str, np.ndarray]  # (n, …) each, of the steps
    lengths: np.ndarray  # (experiences,): how many steps each has
    terminated: np.ndarray  # (experiences,) bool

    def __len__(self) -> int:
        return len(self.observations)

    def on_device(self, numbers: np.ndarray) -> Tensor:
        """These few numbers, beside the observations."""
        return on_device(numbers, self.observations.device)


def on_device(numbers: np.ndarray, device: torch.device) -> Tensor:
    """Few numbers, there. From unpinned memory, CUDA would wait for all threads."""
    here = torch.from_numpy(numbers)
    if device.type == "cuda":
        return here.pin_memory().to(device, non_blocking=True)
    return here.to(device)


class Batches:
    """Makes batches in a buffer of its own, so each thread has one, and a batch lasts until the next is made.

    On CUDA the buffer is pinned and copied without waiting; whoever reads the result of a batch waits for it, and does
    so before the next batch is made.
    """

    def __init__(self, spec: EnvSpec, device: torch.device) -> None:
        self._spec = spec
        self._device = device
        self._numbers = math.prod(spec.observation)  # of one observation
        # To be learnt from, they lie in memory as (n, height, width, stack, colours), vectors as (n, numbers, stack).
        colors = spec.frame[:-2]
        pixels = spec.frame[len(colors) :]
        self._in_memory = (*pixels, spec.stack, *colors)
        at = len(pixels) + 1
        self._order = (0, at, *range(at + 1, at + 1 + len(colors)), *range(1, at))  # of that, for (n, stack, *frame)
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
        """One batch of the steps of several experiences, all of which have what they reached, or none has."""
        stack = self._spec.stack
        count = sum(experience.steps for experience in experiences)
        reached = len(experiences[0].frames) >= stack + experiences[0].steps
        buffer, memory = self._room(count + reached * len(experiences), *self._in_memory)
        rows = memory.transpose(self._order)
        start = 0
        for experience in experiences:
            steps = experience.steps
            for place in range(stack):
                rows[start : start + steps, place] = experience.frames[place : place + steps]
            start += steps
        if reached:
            for row, experience in zip(rows[count:], experiences, strict=True):
                for place in range(stack):
                    row[place] = experience.frames[experience.steps + place]
        observations = buffer.to(self._device, non_blocking=True).permute(self._order)
        names = experiences[0].fields
        return TrainingBatch(
            observations[:count],
            observations[count:] if reached else None,
            {name: np.concatenate([experience.fields[name] for experience in experiences]) for name in names},
            np.array([experience.steps for experience in experiences]),
            np.array([experience.terminated for experience in experiences]),
        )
