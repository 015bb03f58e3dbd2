"""Environments that are not trusted: what one of them does wrong is told in a sentence that names the game."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

from ga3c.games.parts import parts_of


class GameFault(RuntimeError):
    """A game did what it must not; the message names it and says what."""


class Checked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of which each fault is told in one sentence.

    Whether observations are finite is not looked at here, but for all environments at once, which costs less.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], game: str) -> None:
        super().__init__(env)
        self._game = game
        space = env.observation_space
        self._shape = space.shape
        self._boxes = [(part, part.space) for part in parts_of(space) if isinstance(part.space, gymnasium.spaces.Box)]
        self._usual: np.dtype[Any] | None = None  # a type that was right before

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self._raised("reset", error) from error
        self._check(observation, "reset")
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            raise self._raised("step", error) from error
        # The usual one is told here by what costs the least: an agent with one environment waits for this.
        if (
            type(observation) is not np.ndarray
            or observation.dtype is not self._usual
            or observation.shape != self._shape
        ):
            self._check(observation, "step")
        try:
            finite = math.isfinite(reward)
        except TypeError:
            finite = False
        if not finite:
            raise GameFault(f"GAME={self._game} returned a reward that is not a finite number in step: {reward!r}")
        return observation, reward, terminated, truncated, info

    def _check(self, observation: Any, method: str) -> None:
        for part, space in self._boxes:
            shape, wanted = space.shape, space.dtype
            try:
                value = part.of(observation)
            except (LookupError, TypeError):
                raise self._returned(f"an observation without {part.name}", method) from None
            array = np.asarray(value)
            what = f"an observation {part.name}" if part.path else "an observation"
            if array.shape != shape:
                raise self._returned(f"{what} of shape {array.shape} instead of {shape}", method)
            # What is rounded to fewer digits is the same observation; what is cut to whole numbers or wraps around is
            # not.
            fits = np.can_cast(array.dtype, wanted, "same_kind")
            if fits and wanted.kind in "iu" and not np.can_cast(array.dtype, wanted):
                fits = bool((array.astype(wanted) == array).all())  # this time: the next one is looked at again
            elif fits:
                self._usual = array.dtype
            if not fits:
                raise self._returned(f"{what} of {array.dtype} instead of {wanted}", method)

    def _returned(self, what: str, method: str) -> GameFault:
        return GameFault(f"GAME={self._game} returned {what} in {method}")

    def _raised(self, method: str, error: Exception) -> GameFault:
        return GameFault(f"GAME={self._game} raised {type(error).__name__} in {method}: {error}")
