"""The networks and the one model that predictors and trainers share.

All that a version of ``Model`` consists of is one flat vector, and it is immutable: an update writes the next version
and swaps the reference. So a prediction or a gradient uses exactly one version, whatever other threads do meanwhile.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ga3c.config import Config
from ga3c.envs import network_name
from ga3c.games import EnvSpec
from ga3c.running_mean import RunningMean
from ga3c.settings import ConfigError

PIXEL_SCALE = 1.0 / 255.0
PIXEL_DEVIATION = 5.0  # a pixel that hardly ever changes counts as one with this deviation, of 255
PIXEL_LIMIT = 5.0  # deviations beyond this are cut
# A CPU works piece by piece where several operations follow each other, so that a piece stays in its core's cache.
INPUT_PIECE = 8  # observations
UPDATE_PIECE = 2**17  # weights
VECTORS = ("weights", "mean_square", "mean_weights")  # of a checkpoint, with a number for each of the model's
MEASURED_FRAMES = 20_000  # after which mean and deviation of the pixels stay as they are


@dataclass(frozen=True)
class Conv:
    inputs: int
    outputs: int
    kernel: int
    stride: int

    # Stored as (outputs, rows, columns, inputs): a view of it is a channels_last weight, which a CPU convolves faster.
    @property
    def shape(self) -> tuple[int, ...]:
        return (self.outputs, self.kernel, self.kernel, self.inputs)


@dataclass(frozen=True)
class Linear:
    inputs: int
    outputs: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.outputs, self.inputs)


class Network:
    """Hidden layers, each with a rectifier, and two heads: softmax policy and linear value.

    It holds no weights: ``forward`` takes the flat vector. With ``normalize``, mean and scale of each pixel stand at
    the end of it; they are constants of a version, so their gradient is 0.
    """

    def __init__(self, spec: EnvSpec, convolutions: list[Conv], hidden: list[int], normalize: bool) -> None:
        self.spec = spec
        self.normalize = normalize
        self.convolutions = convolutions
        side, features = spec.frame[0], math.prod(spec.observation)
        for conv in convolutions:
            side = (side - conv.kernel) // conv.stride + 1
            features = side * side * conv.outputs
        self.linears = []
        for units in hidden:
            self.linears.append(Linear(features, units))
            features = units
        self.policy = Linear(features, spec.actions)
        self.value = Linear(features, 1)
        self.layers: list[Conv | Linear] = [*convolutions, *self.linears, self.policy, self.value]
        self._sizes = [size for layer in self.layers for size in (math.prod(layer.shape), layer.outputs)]
        self.weights = sum(self._sizes)
        self.pixels = math.prod(spec.frame) if normalize else 0

    @property
    def size(self) -> int:
        """Numbers in the flat vector."""
        return self.weights + 2 * self.pixels

    def unflatten(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(weight, bias) of each layer as views of the flat vector."""
        parts = iter(torch.split(flat[: self.weights], self._sizes))
        return [(next(parts).view(layer.shape), next(parts)) for layer in self.layers]

    def _input(self, flat: Tensor, observations: Tensor) -> Tensor:
        """Observations as the first layer takes them, in memory as they came."""
        if not self.normalize:
            return observations.to(torch.float32)
        mean, scale = flat.detach()[self.weights :].view(2, 1, 1, *self.spec.frame)
        if not observations.is_contiguous():
            # Written out for the whole stack: broadcasting over so short a last axis is twenty times slower.
            mean, scale = (
                constants.expand(-1, self.spec.stack, -1, -1).contiguous(memory_format=torch.channels_last)
                for constants in (mean, scale)
            )
        x = torch.empty_like(observations, dtype=torch.float32)
        piece = INPUT_PIECE if x.device.type == "cpu" else len(x)
        for raw, pixels in zip(torch.split(observations, piece), torch.split(x, piece), strict=True):
            pixels.copy_(raw).sub_(mean).mul_(scale).clamp_(-PIXEL_LIMIT, PIXEL_LIMIT)
        return x

    def forward(self, flat: Tensor, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Policies (n, actions) and values (n) of observations (n, stack, *frame).

        Images may lie in memory with the stack first or last, as ``Batches`` makes them.
        """
        (first, first_bias), *rest = self.unflatten(flat)
        if self.spec.is_image and not self.normalize:
            first = first * PIXEL_SCALE  # instead of a pass over the pixels
        parameters = iter([(first, first_bias), *rest])
        x = self._input(flat, observations)
        if self.convolutions:
            for conv in self.convolutions:
                weight, bias = next(parameters)
                weight = weight.permute(0, 3, 1, 2)
                if conv is self.convolutions[0] and observations.is_contiguous():
                    weight = weight.contiguous()  # or torch would turn all the pixels instead
                x = functional.relu(functional.conv2d(x, weight, bias, conv.stride))
            x = x.permute(0, 2, 3, 1)
        x = x.flatten(1)
        for _ in self.linears:
            x = functional.relu(functional.linear(x, *next(parameters)))
        policies = functional.softmax(functional.linear(x, *next(parameters)), dim=1)
        return policies, functional.linear(x, *next(parameters)).squeeze(1)

    def initial(self, seed: int, scheme: str) -> Tensor:
        """First weights: ``paper`` draws from ±1/√inputs as the published code does, ``orthogonal`` as is usual."""
        generator = torch.Generator().manual_seed(seed)
        flat = torch.zeros(self.size)
        for layer, (weight, bias) in zip(self.layers, self.unflatten(flat), strict=True):
            inputs = math.prod(layer.shape[1:])
            if scheme == "paper":
                bound = 1 / math.sqrt(inputs)
                weight.uniform_(-bound, bound, generator=generator)
                bias.uniform_(-bound, bound, generator=generator)
            else:
                gain = {id(self.policy): 0.01, id(self.value): 1.0}.get(id(layer), math.sqrt(2))
                matrix = torch.empty(layer.outputs, inputs)
                torch.nn.init.orthogonal_(matrix, gain, generator=generator)
                weight.copy_(matrix.view(layer.shape))
        flat[self.weights + self.pixels :] = PIXEL_SCALE  # with a mean of 0: the plain pixels, until they are measured
        return flat


def make_network(name: str, spec: EnvSpec, hidden: int, normalize: bool = False) -> Network:
    """The network of this name (``auto`` has been decided before); only images are normalized."""
    convolutions: list[Conv] = []
    if name == "small":
        convolutions = [Conv(spec.stack, 16, 8, 4), Conv(16, 32, 4, 2)]
    elif name != "mlp":
        stride = int(name.removeprefix("large-"))
        convolutions = [Conv(spec.stack, 32, 8, stride), Conv(32, 32, 4, 2), Conv(32, 64, 4, 2)]
    return Network(spec, convolutions, [hidden] if convolutions else [hidden, hidden], normalize and spec.is_image)


def pick_device(name: str) -> torch.device:
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda:0")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"DEVICE={name} cannot be used here: {reason}") from None
    return device


class Version(NamedTuple):
    """One state of the weights."""

    number: int
    weights: Tensor


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


class RMSProp:
    """RMSProp with ε inside the root (equation 3): g ← αg + (1−α)Δ², θ ← θ − ηΔ/√(g+ε)."""

    def __init__(self, config: Config, size: int, device: torch.device) -> None:
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


class Prediction(NamedTuple):
    version: int
    policies: np.ndarray
    values: np.ndarray


class TrainableModel(ABC):
    """What predictors and trainers work with, wherever its weights are."""

    def __init__(self, config: Config, spec: EnvSpec, device: torch.device) -> None:
        self.network = make_network(network_name(config, spec), spec, config.hidden, config.normalize)
        self.device = device
        self._rmsprop = RMSProp(config, self.network.weights, device)
        self._pixels: PixelStatistics

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
        policies, values = self.network.forward(weights, observations)
        return Prediction(number, policies.cpu().numpy(), values.cpu().numpy())

    def gradient(self, loss: Callable[[Tensor], Tensor]) -> tuple[int, Tensor]:
        """The gradient of ``loss(weights)`` at this version, and the number of the version that it is taken for."""
        number, weights = self.version
        leaf = weights.detach().requires_grad_()  # shares the numbers, but its graph belongs to this call alone
        (gradient,) = torch.autograd.grad(loss(leaf), leaf)
        return number, gradient

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

    def __init__(self, config: Config, spec: EnvSpec) -> None:
        super().__init__(config, spec, pick_device(config.device))
        self._update = threading.Lock()
        self._version = Version(0, self.network.initial(config.seed, config.init).to(self.device))
        self._mean = RunningMean(self._version.weights.clone(), config.mean_updates)
        self._mean_square = torch.full_like(self._version.weights, config.rmsprop_initial)
        self._pixels = PixelStatistics(
            torch.zeros(1, dtype=torch.int64), torch.zeros(2 * self.network.pixels, device=self.device)
        )

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
