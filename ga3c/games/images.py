"""Images as the networks take them: large ones gray (or with COLOR=1 as they are), 84×84 and stacked; small ones, which
are boards and maps more often than pictures, with all their channels and pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space

from ga3c.games.spec import FRAME, SMALL, STACK, Discrete, EnvSpec

SMALLEST = 5  # pixels of a side: anything less is a table of numbers


@dataclass(frozen=True)
class Image:
    """Where an image space has what."""

    channel_axis: int | None  # of the space's shape; None: gray, with two axes
    channels: int
    sides: tuple[int, int]
    low: float  # becomes 0
    high: float  # becomes 255

    @property
    def is_small(self) -> bool:
        return max(self.sides) <= SMALL

    def channels_first(self, images: np.ndarray) -> np.ndarray:
        """(K, channels, height, width), also of what is gray."""
        return images[:, None] if self.channel_axis is None else np.moveaxis(images, self.channel_axis + 1, 1)

    def to_bytes(self, numbers: np.ndarray) -> np.ndarray:
        """From the bounds of the space to whole numbers from 0 to 255."""
        if (self.low, self.high) != (0, 255):
            numbers = ((numbers.astype(np.float32) - self.low) * (255 / (self.high - self.low))).clip(0, 255)
        return (np.rint(numbers) if numbers.dtype.kind == "f" else numbers).astype(np.uint8, copy=False)


def image_of(space: Space[Any]) -> Image | None:
    """None for what is no image."""
    if not isinstance(space, Box) or len(space.shape) not in (2, 3):
        return None
    axis = _channel_axis(space.shape)
    channels = 1 if axis is None else space.shape[axis]
    height, width = (side for place, side in enumerate(space.shape) if place != axis)
    low, high = float(space.low.min()), float(space.high.max())
    image = Image(axis, channels, (height, width), low, high)
    if min(height, width) < SMALLEST or not high > low:
        return None
    if space.dtype.kind == "f":  # with any other bounds it may be a table of measurements
        return image if low == 0 and high in (1, 255) and (axis is not None or not image.is_small) else None
    return image if high - low <= 255 else None


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """The last axis, or the first one where the others look more like sides."""
    if len(shape) == 2:
        return None
    first, *_, last = shape
    return 0 if (shape[1] == last != first) or first < min(shape[1:]) else 2


class Preprocess:
    """Observations of a Box space as the networks take them; what is no image is flat, as float32."""

    def __init__(self, space: Box, image: Image | None, count: int, *, color: bool = False) -> None:
        self._size = int(np.prod(space.shape))
        self._image = image
        if image is not None and not image.is_small:
            height, width = image.sides
            self._rows = area_weights(height, FRAME)
            self._columns = area_weights(width, FRAME).T
            self._color = color and image.channels > 1
            channels = (image.channels,) if self._color else ()
            self._stacks = np.zeros((count, STACK, *channels, FRAME, FRAME), dtype=np.uint8)

    def spec(self, action: Discrete, remarks: tuple[str, ...] = ()) -> EnvSpec:
        image = self._image
        if image is None:
            return EnvSpec((self._size,), 1, "float32", action, remarks)
        if image.is_small:
            channels = (image.channels,) if image.channels > 1 else ()
            return EnvSpec((*channels, *image.sides), 1, "uint8", action, remarks)
        return EnvSpec(self._stacks.shape[2:], STACK, "uint8", action, remarks)

    def __call__(self, observations: Any, first: np.ndarray) -> np.ndarray:
        """The batch, where ``first`` marks the observations that start an episode (zeros before their first frame)."""
        image = self._image
        if image is None:
            return np.asarray(observations, dtype=np.float32).reshape(len(first), 1, -1)
        if image.is_small:
            small = image.to_bytes(image.channels_first(observations))
            return np.ascontiguousarray(small[:, None] if image.channels > 1 else small)
        if self._color:
            pixels = image.channels_first(observations)
        else:
            axis = image.channel_axis
            pixels = observations if axis is None else observations.mean(axis=axis + 1)
        frames = self._rows @ pixels.astype(np.float32) @ self._columns
        self._stacks[:, :-1] = self._stacks[:, 1:]
        self._stacks[first] = 0
        self._stacks[:, -1] = image.to_bytes(frames)
        return self._stacks.copy()


def area_weights(source: int, target: int) -> np.ndarray:
    """The (target, source) matrix that resizes one axis: each target pixel is the mean of what it covers."""
    edges = np.linspace(0, source, target + 1)
    cells = np.arange(source)
    low = np.maximum(edges[:-1, None], cells[None, :])
    high = np.minimum(edges[1:, None], cells[None, :] + 1)
    covered = np.clip(high - low, 0, None)
    weights: np.ndarray = covered / covered.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)
