"""An experience: what an agent played, as it is learnt from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Experience:
    """Consecutive steps of one environment within one episode.

    Each frame stands here once: ``frames[i : i + stack]`` is the observation of step i. What V-trace needs, the last
    three fields and one frame more, is there only where it is asked for.
    """

    agent: int
    env: int  # number of the environment within its agent
    first_step: int  # number of the first step within its environment
    version: int  # of the model that chose the first, and so the oldest, action
    frames: np.ndarray  # (stack − 1 + steps, *frame), or one more: the observation that the last step reached
    actions: np.ndarray  # (steps,) int32
    returns: np.ndarray  # (steps,) float32
    rewards: np.ndarray | None = None  # (steps,) float32
    chances: np.ndarray | None = None  # (steps,) float32: μ(a|s), by which each action was drawn
    terminated: bool = False  # nothing follows the last step

    @property
    def steps(self) -> int:
        return len(self.actions)
