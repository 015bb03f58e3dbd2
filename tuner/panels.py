"""The quantities that the picture and the page of a replay show over time, one under the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.space import Setting
from tuner.story import tps_of
from tuner.trace import Trial


@dataclass(frozen=True)
class Panel:
    """One of them. The three numbers that are tuned come first."""

    label: str  # beside the axis of the picture, where there is little room
    title: str  # above the chart of the page
    value: Callable[[Trial], float | None]
    height: float = 1.0
    unit: str = ""
    key: str = ""  # of the page's data; empty for the three numbers
    knob: Callable[[Setting], int] | None = None  # only for the three numbers


PANELS = (
    Panel(
        "agents\nNA",
        "Agents (NA)",
        lambda trial: trial.measurement.setting.agents,
        1.5,
        knob=lambda setting: setting.agents,
    ),
    Panel(
        "predictors\nNP",
        "Predictors (NP)",
        lambda trial: trial.measurement.setting.predictors,
        0.8,
        knob=lambda setting: setting.predictors,
    ),
    Panel(
        "trainers\nNT",
        "Trainers (NT)",
        lambda trial: trial.measurement.setting.trainers,
        0.8,
        knob=lambda setting: setting.trainers,
    ),
    Panel("TPS\nupdates / s", "TPS", tps_of, 1.7, "model updates per second", "tps"),
    Panel(
        "PPS\nsteps / s",
        "PPS",
        lambda trial: None if trial.measurement.problem else trial.measurement.pps,
        1.3,
        "game steps per second",
        "pps",
    ),
    Panel(
        "policy lag\nupdates",
        "Policy lag",
        lambda trial: None if trial.measurement.problem else trial.measurement.lag_mean,
        1.1,
        "updates, mean",
        "lag",
    ),
)
TPS, LAG = PANELS[3], PANELS[5]
