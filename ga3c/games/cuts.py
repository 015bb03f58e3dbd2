"""Cuts that get environments out of step.

Games that take equally long (two minutes of Boxing) and begin together would end together for ever. At any time the
model would then learn from one moment of the game, and forget the others until they come again.
"""

from __future__ import annotations

import numpy as np


class Cuts:
    """One game of each environment is cut within the first ``stagger`` steps, at a step left to chance."""

    def __init__(self, count: int, seed: int, stagger: int) -> None:
        self._after = np.random.default_rng(seed).integers(1, stagger + 1, count)
        self._steps = 0
        self.made = np.zeros(count, dtype=bool)  # by the last step: the next one begins a new game

    def step(self, under_way: np.ndarray) -> None:
        """A step was played, after which the games of these environments are still under way."""
        self._steps += 1
        self.made = under_way & (self._after == self._steps)

    @property
    def over(self) -> bool:
        """All cuts were made, and the games after them have begun."""
        return self._steps > int(self._after.max())
