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

from ga3c.models.device import pick_device
from ga3c.models.network import Network
from ga3c.models.optimizers import RMSProp
from ga3c.models.pixels import PixelStatistics
from ga3c.models.running_mean import RunningMean
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from ga3c.settings.groups import LearningSettings

VECTORS = ("weights", "mean_square", "mean_weights")  # of a checkpoint, with a number for each of the model's


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


class Gradient(NamedTuple):
    version: int  # that it was taken for
    vector: Tensor
    loss: Loss


class TrainableModel(ABC):
    """What predictors and trainers work with, wherever its weights are."""

    def __init__(
        self, config: LearningSettings, network: Network, device: torch.device, pixels: PixelStatistics
    ) -> None:
        self.network = network
        self.device = device
        self._rmsprop = RMSProp(config, network.weights, device)
        self._pixels = pixels

    @property
    @abstractmethod
    def version(self) -> Version:
        """What predictions and gradients are made with now."""

    @property
    @abstractmethod
    def updates(self) -> int:
        """Updates that were applied up to now: the number of the newest version that there is."""

    @torch.inference_mode()
    def predict(self, observations: Tensor) -> Prediction:
        number, weights = self.version
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
        """One update by RMSProp, with the frames of the batch as long as pixels are measured. Returns its number."""

    @abstractmethod
    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """The newest version's number, and the arrays of a checkpoint."""

    @abstractmethod
    def load(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Go on from there; arrays that do not fit are refused."""

    def _check_sizes(self, arrays: dict[str, np.ndarray]) -> None:
        sizes = dict.fromkeys(VECTORS, self.network.size)
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
        self._mean_square = torch.full_like(self._version.weights, config.rmsprop_initial)

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
            mean_square = self._mean_square[:trained]
            self._rmsprop.step(new[:trained], old[:trained], gradient[:trained], mean_square, learning_rate)
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
                "mean_square": self._mean_square.cpu().clone().numpy(),  # written in place, unlike the weights
                "mean_weights": self._mean.weights.cpu().clone().numpy(),
                "pixels": self._pixels.state(),
            }
        return number, arrays

    def load(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        self._check_sizes(arrays)
        with self._update:
            self._version = Version(number, torch.tensor(arrays["weights"], device=self.device))
            self._mean_square = torch.tensor(arrays["mean_square"], device=self.device)
            self._mean.weights.copy_(torch.tensor(arrays["mean_weights"]))
            self._pixels.load(arrays["pixels"])
