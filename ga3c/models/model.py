"""The model that predictors and trainers share.

All that a version of ``Model`` consists of is one flat vector, and it is immutable: an update writes the next version
and swaps the reference. So a prediction or a gradient uses exactly one version, whatever other threads do meanwhile.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ga3c.games.spec import EnvSpec
from ga3c.models.device import pick_device
from ga3c.models.network import Network
from ga3c.models.optimizers import make_optimizer
from ga3c.models.pixels import PixelStatistics
from ga3c.models.running_mean import RunningMean
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError

VECTORS = ("weights", "mean_weights")  # of a checkpoint, beside those of the optimizer: a number for each weight


class Version(NamedTuple):
    """One state of the weights."""

    number: int
    weights: Tensor


class Prediction(NamedTuple):
    version: int
    outputs: np.ndarray  # (n, width)


class Loss(NamedTuple):
    """What is descended, and what a user wants to see of it (means per sample, detached)."""

    total: Tensor
    figures: dict[str, Tensor]
    errors: Tensor | None = None  # of each sample, where the rule has one


class Gradient(NamedTuple):
    version: int  # that it was taken for
    vector: Tensor
    loss: Loss


class TrainableModel(ABC):
    """What predictors and trainers work with, wherever its weights are."""

    def __init__(self, config: Config, network: Network, device: torch.device, pixels: PixelStatistics) -> None:
        self.network = network
        self.device = device
        self._optimizer = make_optimizer(config, network.weights, device)
        self._target: Version | None = None  # the newest version itself
        self.acts_by_target = False
        self._pixels = pixels

    @property
    @abstractmethod
    def version(self) -> Version:
        """What predictions and gradients are made with now."""

    @property
    @abstractmethod
    def updates(self) -> int:
        """Updates that were applied up to now: the number of the newest version that there is."""

    @property
    def spec(self) -> EnvSpec:
        """What it is shown."""
        return self.network.spec

    @property
    def target(self) -> Version:
        """The version that targets are made with, where the rule has such."""
        return self._target or self.version

    @property
    def acting(self) -> Version:
        """What is played with."""
        return self.target if self.acts_by_target else self.version

    def renew_target(self) -> None:
        """From now on the newest version is the target: versions never change, so nothing is copied."""
        self._target = self.version

    @torch.inference_mode()
    def predict(self, observations: Tensor) -> Prediction:
        number, weights = self.acting
        return Prediction(number, self.network.outputs(weights, observations).cpu().numpy())

    def gradient(self, loss: Callable[[Tensor], Loss]) -> Gradient:
        """The gradient of ``loss(weights)`` at this version."""
        number, weights = self.version
        leaf = weights.detach().requires_grad_()  # shares the numbers, but its graph belongs to this call alone
        result = loss(leaf)
        (gradient,) = torch.autograd.grad(result.total, leaf)
        return Gradient(number, gradient, result)

    @property
    def measures_pixels(self) -> bool:
        """Whether ``apply`` still wants the frames of the batch."""
        return self.network.normalize and not self._pixels.complete

    @abstractmethod
    def apply(self, gradient: Tensor, learning_rate: float, frames: Tensor | None = None) -> int:
        """One update, with the frames of the batch as long as pixels are measured. Returns its number."""

    @abstractmethod
    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """The newest version's number, and the arrays of a checkpoint."""

    @abstractmethod
    def load(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Go on from there; arrays that do not fit are refused."""

    def _check_sizes(self, arrays: dict[str, np.ndarray]) -> None:
        target = ["target"] if "target" in arrays else []
        sizes = dict.fromkeys((*VECTORS, *self._optimizer.initial, *target), self.network.size)
        for name, size in {**sizes, "pixels": 2 * self.network.pixels + 1}.items():
            if name not in arrays or arrays[name].shape != (size,):
                raise ConfigError(f"the checkpoint's {name} do not fit this network of {self.network.size} weights")


class Model(TrainableModel):
    """The model that the threads of one process share: each update makes the next version, which never changes."""

    def __init__(self, config: Config, network: Network) -> None:
        device = pick_device(config.device)
        sums = torch.zeros(2 * network.pixels, device=device)
        super().__init__(config, network, device, PixelStatistics(torch.zeros(1, dtype=torch.int64), sums))
        self._update = threading.Lock()
        self._version = Version(0, network.initial(config.seed, config.init).to(device))
        self._mean = RunningMean(self._version.weights.clone(), config.mean_updates)
        self._memory = {
            name: torch.full_like(self._version.weights, first) for name, first in self._optimizer.initial.items()
        }

    @property
    def version(self) -> Version:
        """The newest version: a snapshot that never changes."""
        return self._version

    @property
    def updates(self) -> int:
        return self._version.number

    @torch.no_grad()
    def apply(self, gradient: Tensor, learning_rate: float, frames: Tensor | None = None) -> int:
        trained = self.network.weights
        with self._update:
            number, old = self._version
            new = torch.empty_like(old)
            memory = {name: vector[:trained] for name, vector in self._memory.items()}
            self._optimizer.step(
                new[:trained], old[:trained], gradient[:trained], memory, learning_rate, number=number + 1
            )
            if frames is not None:
                self._pixels.add(frames)
            new[trained:] = self._pixels.constants() if frames is not None else old[trained:]
            self._mean.add(number + 1, new)
            self._version = Version(number + 1, new)
            return number + 1

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """All of the same moment."""
        with self._update:
            number, weights = self._version
            arrays = {
                "weights": weights.cpu().numpy(),
                # Written in place, unlike the weights.
                **{name: vector.cpu().clone().numpy() for name, vector in self._memory.items()},
                "mean_weights": self._mean.weights.cpu().clone().numpy(),
                "pixels": self._pixels.state(),
            }
            if self._target is not None:
                arrays["target"] = self._target.weights.cpu().numpy()
        return number, arrays

    def load(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        self._check_sizes(arrays)
        with self._update:
            self._version = Version(number, torch.tensor(arrays["weights"], device=self.device))
            for name, vector in self._memory.items():
                vector.copy_(torch.tensor(arrays[name]))
            if "target" in arrays:
                self._target = Version(number, torch.tensor(arrays["target"], device=self.device))
            self._mean.weights.copy_(torch.tensor(arrays["mean_weights"]))
            self._pixels.load(arrays["pixels"])
