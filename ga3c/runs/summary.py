"""The summary of a run: what ``train`` returns, and ``summary.json``. Other programs read it."""

from __future__ import annotations

from typing import TypedDict


class Rates(TypedDict):
    """Of the whole session, from its first prediction on."""

    pps: float
    tps: float
    trained_per_second: float
    agents: int
    remote_agents: int
    predictors: int
    trainers: int
    lag_mean: float


class Summary(Rates):
    steps: int
    updates: int
    episodes: int
    seconds: float
    score: float | None  # mean of the last games; None: there was none
    lag_max: int
    stale_steps: int
    lost_steps: int
    unaccounted_steps: int
    bad_updates: int
    bad_messages: int
    run: str  # its directory
    exit_reason: str
