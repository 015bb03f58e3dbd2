"""What a network takes of an observation space: one array, of all that a Dict or a Tuple holds.

Where there is an image, it is the observation: beside a small one stand numbers that have bounds, as planes of one
colour each. Without an image, all parts stand in a row, as Gymnasium flattens them. What has no place is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Space, Text, Tuple
from gymnasium.spaces.utils import flatdim, flatten
from gymnasium.wrappers import TransformObservation

from ga3c.games.images import Image, image_of

MOST_PLANES = 64


class Part(NamedTuple):
    """A part of an observation that is neither Dict nor Tuple."""

    path: tuple[Any, ...]
    space: Space[Any]

    @property
    def name(self) -> str:
        return "'" + "/".join(map(str, self.path)) + "'"

    def of(self, observation: Any) -> Any:
        for key in self.path:
            observation = observation[key]
        return observation

    @property
    def numbers(self) -> int:
        """When it is flat; 0: it is text, or has no fixed length."""
        if isinstance(self.space, Text):
            return 0  # Gymnasium makes a number of each letter, from which nothing is learnt
        try:
            return flatdim(self.space)
        except (NotImplementedError, ValueError):
            return 0


class View(NamedTuple):
    """How the observations of a space become one array."""

    space: Box
    image: Image | None
    take: Callable[[Any], np.ndarray] | None  # None: they are that array already
    remarks: tuple[str, ...] = ()  # of what is left out, and why


def parts_of(space: Space[Any], path: tuple[Any, ...] = ()) -> Iterator[Part]:
    if isinstance(space, (Dict, Tuple)):
        for key, inner in space.items() if isinstance(space, Dict) else enumerate(space):
            yield from parts_of(inner, (*path, key))
    else:
        yield Part(path, space)


def view_of(space: Space[Any]) -> View | None:
    """None where no part has a fixed size."""
    parts = list(parts_of(space))
    remarks = tuple(
        f"{part.name} of the observations is left out: {type(part.space).__name__} is no array of numbers"
        for part in parts
        if not part.numbers
    )
    parts = [part for part in parts if part.numbers]
    if not parts:
        return None
    images = [(part, image) for part in parts if (image := image_of(part.space))]
    if not images:
        if isinstance(space, Box):
            return View(space, None, None)
        flat = Box(-np.inf, np.inf, (sum(part.numbers for part in parts),), np.float32)
        return View(flat, None, lambda seen: _flat(parts, seen), remarks)
    main, image = max(images, key=lambda found: math.prod(found[0].space.shape or ()))
    return _beside_image(main, image, [part for part in parts if part is not main], remarks)


def show_as(env: gymnasium.Env[Any, Any], view: View) -> gymnasium.Env[Any, Any]:
    return env if view.take is None else TransformObservation(env, view.take, view.space)


def _flat(parts: list[Part], observation: Any) -> np.ndarray:
    return np.concatenate([np.asarray(flatten(part.space, part.of(observation)), np.float32) for part in parts])


def _beside_image(main: Part, image: Image, others: list[Part], remarks: tuple[str, ...]) -> View:
    assert isinstance(main.space, Box)
    planes = [part for part in others if image.is_small and _has_bounds(part)]
    for part in others:
        if not any(part is plane for plane in planes):
            why = f"without bounds, or for more than {MOST_PLANES}" if image.is_small else "beside a large image"
            remarks += (f"{part.name} of the observations is left out: there is no place for numbers {why}",)
    if not planes:
        return View(main.space, image, (lambda seen: np.asarray(main.of(seen))) if main.path else None, remarks)
    channels = image.channels + sum(part.numbers for part in planes)
    shape = (channels, *image.sides)

    def take(observation: Any) -> np.ndarray:
        taken = np.empty(shape, np.uint8)
        taken[: image.channels] = image.to_bytes(image.channels_first(np.asarray(main.of(observation))[None])[0])
        shares = np.concatenate([_shares(part, observation) for part in planes])
        taken[image.channels :] = np.rint(255 * shares)[:, None, None]
        return taken

    return View(Box(0, 255, shape, np.uint8), Image(0, channels, image.sides, 0, 255), take, remarks)


def _has_bounds(part: Part) -> bool:
    space = part.space
    return part.numbers <= MOST_PLANES and (
        not isinstance(space, Box) or bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
    )


def _shares(part: Part, observation: Any) -> np.ndarray:
    """The numbers of a part from 0 to 1, where these are its bounds."""
    flat = np.asarray(flatten(part.space, part.of(observation)), np.float64)
    if not isinstance(part.space, Box):
        return flat
    low, high = part.space.low.ravel().astype(np.float64), part.space.high.ravel().astype(np.float64)
    shares: np.ndarray = np.clip((flat - low) / np.maximum(high - low, 1e-12), 0, 1)
    return shares
