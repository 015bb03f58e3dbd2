"""A measured window: what a server has counted at its beginning and at the end of each of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tuner.space import Setting
from tuner.strategy import Measurement


@dataclass(frozen=True)
class Counters:
    """What a server has counted up to a moment. All of it only grows: a window is the difference of two."""

    seconds: float  # of the run
    updates: int  # of at least MIN_BATCH samples
    steps: int
    stale_steps: int = 0
    agents_started: int = 0
    looks: int = 0  # at the queues
    prediction_queue: int = 0  # summed over the looks
    training_queue: int = 0
    lags: Mapping[int, int] = field(default_factory=dict)  # experiences trained on, by their lag


def measurement(setting: Setting, marks: Sequence[Counters]) -> Measurement:
    """The figures of the window between the first and the last mark, and of the parts between them."""
    first, last = marks[0], marks[-1]
    parts = list(pairwise(marks))
    lags = {lag: count - first.lags.get(lag, 0) for lag, count in last.lags.items()}
    experiences = sum(lags.values())
    steps = last.steps - first.steps
    return Measurement(
        setting=setting,
        tps=tuple((after.updates - before.updates) / (after.seconds - before.seconds) for before, after in parts),
        pps=steps / (last.seconds - first.seconds),
        prediction_queue=_mean(last.prediction_queue - first.prediction_queue, last.looks - first.looks),
        training_queue=tuple(
            _mean(after.training_queue - before.training_queue, after.looks - before.looks) for before, after in parts
        ),
        lag_mean=_mean(sum(lag * count for lag, count in lags.items()), experiences),
        lag_max=float(max((lag for lag, count in lags.items() if count), default=0)),
        stale=_mean(last.stale_steps - first.stale_steps, steps),
    )


def _mean(total: float, count: int) -> float:
    return total / count if count else 0.0
