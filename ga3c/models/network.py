"""The networks: their layers, and how observations go through them. They hold no weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ga3c.games.spec import EnvSpec

PIXEL_SCALE = 1.0 / 255.0
PIXEL_LIMIT = 5.0  # deviations beyond this are cut
# A CPU works piece by piece where several operations follow each other, so that a piece stays in its core's cache.
INPUT_PIECE = 8  # observations


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
