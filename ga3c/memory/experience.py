"""An experience: what an agent played, as it is learnt from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ga3c.games.spec import Box, Discrete


def finite(numbers: np.ndarray) -> bool:
    # The sum of squares is finite unless a number is not, or is so large that a closer look, twice as long, is needed.
    return numbers.dtype.kind != "f" or math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


class Field(NamedTuple):
    """A number, or an array of them, that an experience has of each of its steps."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    low: float = -math.inf  # anything else is refused where it comes from elsewhere
    high: float = math.inf

    def misfit(self, numbers: np.ndarray) -> str:
        """What is wrong with these, in words; empty: nothing."""
        if not finite(numbers):
            return f"{self.name} that are not finite"
        if self.low > -math.inf and numbers.min() < self.low:
            return f"{self.name} below {self.low:g}"
        if self.high < math.inf and numbers.max() > self.high:
            return f"{self.name} above {self.high:g}"
        return ""


def action_field(action: Discrete | Box) -> Field:
    if isinstance(action, Discrete):
        return Field("actions", "<i4", low=0, high=action.n - 1)
    return Field("actions", "<f4", action.shape, action.low, action.high)


class Schema(NamedTuple):
    """What experiences consist of beside frames. The rule says it; rollout, wire and memory follow."""

    fields: tuple[Field, ...]
    reached: bool = False  # one frame more: with it, the observation that the last step reached


@dataclass(frozen=True)
class Experience:
    """Consecutive steps of one environment within one episode.

    Each frame stands here once: ``frames[i : i + stack]`` is the observation of step i.
    """

    agent: int
    env: int  # number of the environment within its agent
    first_step: int  # number of the first step within its environment
    version: int  # of the model that chose the first, and so the oldest, action
    frames: np.ndarray  # (stack − 1 + steps, *frame), or one more where the schema says so
    fields: dict[str, np.ndarray]  # of each step, as the schema says
    terminated: bool = False  # nothing follows the last step
    truncated: bool = False  # the episode was cut after the last step

    @property
    def steps(self) -> int:
        return len(self.fields["actions"])


def load_experience(state: dict[str, Any], schema: Schema) -> Experience:
    """One of a checkpoint, also of format 4, which had each field of the one rule beside the others."""
    if "fields" not in state:
        names = {field.name for field in schema.fields}
        others = {name: state[name] for name in ("agent", "env", "first_step", "version", "frames", "terminated")}
        return Experience(**others, fields={name: state[name] for name in names})
    return Experience(**state)
