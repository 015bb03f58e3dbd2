"""What players and those who predict for them say to each other, turn by turn. The wire is for those far apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ga3c.games.spec import Finished
from ga3c.memory.experience import Experience


class Request(NamedTuple):
    """Observations that wait for a prediction, and whether a step was played to reach each."""

    agent: int
    half: int
    first_env: int
    real: bytes  # of each observation: 1 after a step, 0 after a reset
    observations: np.ndarray

    @property
    def played(self) -> int:
        return self.real.count(1)


class Reply(NamedTuple):
    """The predictions of one request."""

    half: int
    version: int  # of the model
    outputs: np.ndarray  # (n, width): what they are is the rule's business


Answer = tuple[int, Reply]  # and the agent that it is for


class Turn(NamedTuple):
    """What comes of a reply: what it completed, and the request that asks for the next one."""

    request: Request
    experiences: tuple[Experience, ...] = ()
    finished: tuple[Finished, ...] = ()
