"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable

from tuner.anneal import Anneal
from tuner.strategy import Off, Paper, Plan, Strategy
from tuner.sweep import Sweep

STRATEGIES: dict[str, Callable[[Plan], Strategy]] = {"anneal": Anneal, "paper": Paper, "sweep": Sweep, "off": Off}


def make_strategy(plan: Plan) -> Strategy:
    return STRATEGIES[plan.strategy](plan)
