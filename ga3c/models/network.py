"""The networks: their layers, and how observations go through them. They hold no weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ga3c.games.spec import EnvSpec
from ga3c.models.names import is_own
from ga3c.models.own import OwnBody

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


class Head(NamedTuple):
    """A linear layer on top of the hidden ones."""

    units: int
    gain: float  # of its first weights, where these are orthogonal


class Network(ABC):
    """Hidden layers, each with a rectifier, and linear heads, which a rule makes something of.

    It holds no weights: all methods take the flat vector. With ``normalize``, mean and scale of each pixel stand at
    the end of it; they are constants of a version, so their gradient is 0.
    """

    def __init__(
        self, name: str, spec: EnvSpec, hidden: int, heads: Sequence[Head], *, normalize: bool, streams: int = 1
    ) -> None:
        """The network of this name (``auto`` has been decided before); only images are normalized.

        With as many ``streams`` as heads, each head has its own part of the last hidden layer.
        """
        self.spec = spec
        self.normalize = normalize and spec.is_image
        self.own = OwnBody(name, spec) if is_own(name) else None
        self.convolutions = [] if self.own else _convolutions(name, spec)
        sides, features = spec.frame[-2:], math.prod(spec.observation)
        for conv in self.convolutions:
            sides = tuple((side - conv.kernel) // conv.stride + 1 for side in sides)
            features = math.prod(sides) * conv.outputs
        self.linears = []
        for units in [] if self.own else [hidden] if self.convolutions else [hidden, hidden]:
            self.linears.append(Linear(features, units))
            features = units
        if self.own:
            features, streams = self.own.features, 1  # which parts of them a head needs, the rule cannot know
        self._heads = [Linear(features // streams, head.units) for head in heads]
        self._streams = streams
        self.layers: list[Conv | Linear] = [*self.convolutions, *self.linears, *self._heads]
        self._gains = [math.sqrt(2)] * (len(self.layers) - len(heads)) + [head.gain for head in heads]
        self._sizes = [size for layer in self.layers for size in (math.prod(layer.shape), layer.outputs)]
        self._first = self.own.size if self.own else 0  # where the layers begin, behind a body of the user's
        self.weights = self._first + sum(self._sizes)
        self.pixels = math.prod(spec.frame) if self.normalize else 0

    @abstractmethod
    def outputs(self, flat: Tensor, observations: Tensor) -> Tensor:
        """What predictions give: (n, width), by which agents act."""

    @property
    def size(self) -> int:
        """Numbers in the flat vector."""
        return self.weights + 2 * self.pixels

    def unflatten(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(weight, bias) of each layer as views of the flat vector."""
        parts = iter(torch.split(flat[self._first : self.weights], self._sizes))
        return [(next(parts).view(layer.shape), next(parts)) for layer in self.layers]

    def _input(self, flat: Tensor, observations: Tensor) -> Tensor:
        """Observations as the first layer takes them, in memory as they came."""
        if self.spec.is_image:
            observations = observations.flatten(1, -3)  # the channels of all frames beside each other
        if not self.normalize:
            return observations.to(torch.float32)
        mean, scale = flat.detach()[self.weights :].view(2, 1, -1, *self.spec.frame[-2:])
        if torch.compiler.is_exporting():  # for any number of observations, which have no pieces then
            mean, scale = (constants.repeat(1, self.spec.stack, 1, 1) for constants in (mean, scale))
            return torch.clamp((observations - mean) * scale, -PIXEL_LIMIT, PIXEL_LIMIT)
        # Written out for the whole stack: broadcasting over so short a last axis is twenty times slower.
        if not observations.is_contiguous():
            mean, scale = (
                constants.repeat(1, self.spec.stack, 1, 1).contiguous(memory_format=torch.channels_last)
                for constants in (mean, scale)
            )
        elif self.spec.channels > self.spec.stack > 1:
            mean, scale = (constants.repeat(1, self.spec.stack, 1, 1) for constants in (mean, scale))
        x = torch.empty_like(observations, dtype=torch.float32)
        piece = INPUT_PIECE if x.device.type == "cpu" else len(x)
        for raw, pixels in zip(torch.split(observations, piece), torch.split(x, piece), strict=True):
            pixels.copy_(raw).sub_(mean).mul_(scale).clamp_(-PIXEL_LIMIT, PIXEL_LIMIT)
        return x

    def heads(self, flat: Tensor, observations: Tensor) -> list[Tensor]:
        """What each head gives, (n, units), of observations (n, stack, *frame).

        Images may lie in memory with the stack first or last, as ``Batches`` makes them.
        """
        if self.own:
            x = self._input(flat, observations)
            if not self.normalize:
                x = x * (PIXEL_SCALE if self.spec.is_image else 1.0)  # in any case a copy: it may be written to
            features = self.own(flat, x.reshape(-1, *self.spec.observation))
            return [functional.linear(features, *parameters) for parameters in self.unflatten(flat)]
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
        inputs = torch.chunk(x, self._streams, dim=1) if self._streams > 1 else [x] * len(self._heads)
        return [functional.linear(own, *next(parameters)) for own in inputs]

    def initial(self, seed: int, scheme: str) -> Tensor:
        """First weights: ``paper`` draws from ±1/√inputs as the published code does, ``orthogonal`` as is usual."""
        generator = torch.Generator().manual_seed(seed)
        flat = torch.zeros(self.size)
        for layer, gain, (weight, bias) in zip(self.layers, self._gains, self.unflatten(flat), strict=True):
            inputs = math.prod(layer.shape[1:])
            if scheme == "paper":
                bound = 1 / math.sqrt(inputs)
                weight.uniform_(-bound, bound, generator=generator)
                bias.uniform_(-bound, bound, generator=generator)
            else:
                matrix = torch.empty(layer.outputs, inputs)
                torch.nn.init.orthogonal_(matrix, gain, generator=generator)
                weight.copy_(matrix.view(layer.shape))
        if self.own:
            flat[: self._first] = self.own.initial(seed)
        flat[self.weights + self.pixels :] = PIXEL_SCALE  # with a mean of 0: the plain pixels, until they are measured
        return flat


def _convolutions(name: str, spec: EnvSpec) -> list[Conv]:
    if name == "mlp":
        return []
    if name == "tiny":
        return [Conv(spec.channels, 16, 3, 1), Conv(16, 32, 3, 1)]
    if name == "small":
        return [Conv(spec.channels, 16, 8, 4), Conv(16, 32, 4, 2)]
    if name == "nature":
        return [Conv(spec.channels, 32, 8, 4), Conv(32, 64, 4, 2), Conv(64, 64, 3, 1)]
    stride = int(name.removeprefix("large-"))
    return [Conv(spec.channels, 32, 8, stride), Conv(32, 32, 4, 2), Conv(32, 64, 4, 2)]
