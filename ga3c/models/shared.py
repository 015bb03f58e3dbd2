"""The model that agent processes share under ALGO=a3c: its numbers are in shared memory, and each agent has a copy.

An update is one of Hogwild, as in A3C: agents add to the shared weights and mean squares in place, at the same time and
without a lock, so that of two who write to the same number at the same moment one may be lost. What must not race is
under a lock: the number of updates, and the pixel statistics.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ga3c.models.model import VECTORS, Gradient, Loss, TrainableModel, Version
from ga3c.models.network import Network
from ga3c.models.pixels import PixelStatistics
from ga3c.models.running_mean import RunningMean
from ga3c.settings.config import Config

LOCK_SECONDS = 0.3  # far more than anyone holds it
LOCK_LOOK_SECONDS = 0.0005


@dataclass(frozen=True)
class SharedNumbers:
    """All that is shared. torch hands the memory itself to a process that is started with it, not a copy.

    The memory has no name that could outlive the processes: the last of them to end takes it with it.
    """

    weights: Tensor
    mean_square: Tensor
    mean_weights: Tensor
    pixel_count: Tensor  # (1,) int64
    pixel_sums: Tensor
    updates: Tensor  # (1,) int64
    steps: Tensor  # (1,) int64: of all agents, as far as the server, who alone writes it, has heard

    @classmethod
    def make(cls, config: Config, network: Network) -> SharedNumbers:
        weights = network.initial(config.seed, config.init)
        numbers = cls(
            weights=weights,
            mean_square=torch.full_like(weights, config.rmsprop_initial),
            mean_weights=weights.clone(),
            pixel_count=torch.zeros(1, dtype=torch.int64),
            pixel_sums=torch.zeros(2 * network.pixels),
            updates=torch.zeros(1, dtype=torch.int64),
            steps=torch.zeros(1, dtype=torch.int64),
        )
        for tensor in vars(numbers).values():
            tensor.share_memory_()
        return numbers


class ProcessLock:
    """A lock between processes that the kernel releases when its holder dies, however that is.

    A holder that was stopped is waited for only so long: a number that is off by one is better than a run that stands.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        weakref.finalize(self, os.close, self._file)  # the model is saved after its server has stopped

    @contextmanager
    def held(self) -> Iterator[None]:
        taken = self._take()
        try:
            yield
        finally:
            if taken:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _take(self) -> bool:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(LOCK_LOOK_SECONDS)
            else:
                return True


class SharedModel(TrainableModel):
    """One process's end: it predicts and computes gradients with a copy, and applies them to what all share."""

    def __init__(self, config: Config, network: Network, numbers: SharedNumbers, lock: ProcessLock) -> None:
        pixels = PixelStatistics(numbers.pixel_count, numbers.pixel_sums)
        super().__init__(config, network, torch.device("cpu"), pixels)
        self._numbers = numbers
        self._lock = lock
        self._mean = RunningMean(numbers.mean_weights, config.mean_updates)
        self._version = Version(0, torch.empty_like(numbers.weights))
        self.catch_up()

    @property
    def version(self) -> Version:
        """The copy, numbered by the updates that there were when it was taken; it changes when it is taken anew."""
        return self._version

    @property
    def updates(self) -> int:
        return int(self._numbers.updates)

    @torch.no_grad()
    def catch_up(self) -> None:
        """Take the weights anew."""
        number = self.updates  # before the weights: the copy has at least as many
        self._version.weights.copy_(self._numbers.weights)
        self._version = Version(number, self._version.weights)

    def gradient(self, loss: Callable[[Tensor], Loss]) -> Gradient:
        """The gradient at the copy, with the number of the version that it is about to be applied to."""
        return super().gradient(loss)._replace(version=self.updates)

    @torch.no_grad()
    def apply(self, gradient: Tensor, learning_rate: float, frames: Tensor | None = None) -> int:
        numbers, trained = self._numbers, self.network.weights
        weights = numbers.weights[:trained]
        memory = {"mean_square": numbers.mean_square[:trained]}
        self._optimizer.step(weights, weights, gradient[:trained], memory, learning_rate)
        with self._lock.held():
            if frames is not None:
                # An agent that is killed within this leaves statistics that are off by the weight of one batch.
                self._pixels.add(frames)
                numbers.weights[trained:] = self._pixels.constants()
            numbers.updates.add_(1)
            number = self.updates
        self._mean.add(number, numbers.weights)
        return number

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """As it is while agents write: an update may be there in part."""
        with self._lock.held():
            number, pixels = self.updates, self._pixels.state()
        names = (*VECTORS, *self._optimizer.initial)
        vectors = {name: getattr(self._numbers, name).clone().numpy() for name in names}
        return number, {**vectors, "pixels": pixels}

    def load(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Before any agent starts."""
        self._check_sizes(arrays)
        for name in (*VECTORS, *self._optimizer.initial):
            getattr(self._numbers, name).copy_(torch.tensor(arrays[name]))
        self._pixels.load(arrays["pixels"])
        self._numbers.updates.fill_(number)
        self.catch_up()
