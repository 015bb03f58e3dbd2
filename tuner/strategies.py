"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tuner.anneal import Anneal
from tuner.strategy import Off, Paper, Plan, Strategy
from tuner.sweep import Sweep


class Kind(NamedTuple):
    """How a strategy is made, and how it searches, in words for a reader."""

    make: Callable[[Plan], Strategy]
    words: str


STRATEGIES = {
    "anneal": Kind(Anneal, "large steps first, small ones later; kept if better beyond the noise of measuring"),
    "paper": Kind(Paper, "one number went up or down by one in each window; kept if TPS rose above the best so far"),
    "sweep": Kind(Sweep, "a grid of settings in turn; the best mean so far is held"),
    "off": Kind(Off, "nothing was changed, only measured"),
}


def make_strategy(plan: Plan) -> Strategy:
    return STRATEGIES[plan.strategy].make(plan)
