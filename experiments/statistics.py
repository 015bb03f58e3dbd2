"""What a few runs with different seeds say: interquartile means, bootstrap intervals, curves on a common axis.

After "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al. 2021): the mean of the
middle half of all runs, which neither one lucky run nor one failed one can move far, and the interval in which it stays
when the runs are drawn again, game by game.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Points = Sequence[tuple[float, float]]  # (seconds or steps, value)

LEVEL = 0.95
RESAMPLES = 2000
# Of fewer runs, more than 2.5 % of the resamples repeat the lowest one until it is their mean, so that the "95 %"
# interval would just be the lowest and the highest run. It is called that then: the truth is outside of three runs once
# in four times.
FEWEST = 5
FEWEST_EACH = 3  # of each game, where there are several: two would be drawn as one of them half of the time
CURVE_POINTS = 200


@dataclass(frozen=True)
class Estimate:
    """The interquartile mean of some runs, and how sure it is."""

    value: float
    runs: int
    low: float | None = None  # none where a single run tells nothing about the spread
    high: float | None = None
    is_interval: bool = False  # a 95 % interval; else the lowest and the highest run


@dataclass(frozen=True)
class Band:
    """Curves of several runs as one: the interquartile mean where all of them have data."""

    at: Array
    middle: Array
    runs: int
    low: Array | None = None
    high: Array | None = None
    is_interval: bool = False


def spread(values: Iterable[float]) -> dict[str, Any]:
    """Median, least and most of the repeats."""
    repeats = list(values)
    return {"median": statistics.median(repeats), "low": min(repeats), "high": max(repeats), "repeats": repeats}


def iqm(values: Array, axis: int = -1) -> Array:
    """The mean of the middle half. Of a run that is only partly within it, that part counts.

    With a multiple of four runs this is the mean trimmed by a quarter on each side. Otherwise trimming whole runs would
    throw away less than a quarter (nothing at all of three).
    """
    count = values.shape[axis]
    places = np.arange(count)
    weights = np.clip(np.minimum(places + 1, 0.75 * count) - np.maximum(places, 0.25 * count), 0, None)
    return np.tensordot(np.sort(values, axis=axis), weights / weights.sum(), axes=(axis, 0))


def estimate(strata: Sequence[Sequence[float]], seed: int = 0) -> Estimate:
    """Of all runs together; each stratum holds the runs of one game, and is drawn again for itself.

    In simulations the interval holds the truth in 91 % of the cases with five runs, 93 to 94 % from eight on; with nine
    games of three runs 88 %.
    """
    groups = [np.asarray(group, dtype=float) for group in strata if len(group)]
    runs = np.concatenate(groups)
    middle = float(iqm(runs))
    fewest = min(map(len, groups))
    if fewest < 2:
        return Estimate(middle, len(runs))
    if fewest < FEWEST_EACH or len(runs) < FEWEST:
        return Estimate(middle, len(runs), float(runs.min()), float(runs.max()))
    low, high = _percentiles(groups, seed)
    return Estimate(middle, len(runs), float(low), float(high), is_interval=True)


def _percentiles(groups: Sequence[Array], seed: int) -> tuple[Array, Array]:
    """The ends of the interval: percentiles of the means of resamples. The first axis of a group has its runs."""
    rng = np.random.default_rng(seed)
    drawn = [group[rng.integers(len(group), size=(RESAMPLES, len(group)))] for group in groups]
    means = iqm(np.concatenate(drawn, axis=1), axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def on_grid(curve: Points, grid: Array) -> Array:
    """A curve between its points; nothing (NaN) before its first and after its last."""
    ordered = sorted(curve, key=lambda point: point[0])
    at, values = np.array(ordered, dtype=float).T
    between: Array = np.interp(grid, at, values, left=np.nan, right=np.nan)
    return between


def band(curves: Sequence[Points], seed: int = 0) -> Band | None:
    """The common part of the curves; None where there is none.

    It ends with the run that ends first: a mean over whichever runs are left would jump where one leaves it.
    """
    known = [curve for curve in curves if curve]
    if not known:
        return None
    first = max(min(at for at, _ in curve) for curve in known)
    last = min(max(at for at, _ in curve) for curve in known)
    if first > last:
        return None
    grid = np.linspace(first, last, CURVE_POINTS) if last > first else np.array([first])
    runs = np.stack([on_grid(curve, grid) for curve in known])
    middle = iqm(runs, axis=0)
    if len(known) == 1:
        return Band(grid, middle, 1)
    if len(known) < FEWEST:
        return Band(grid, middle, len(known), runs.min(axis=0), runs.max(axis=0))
    low, high = _percentiles([runs], seed)
    return Band(grid, middle, len(known), low, high, is_interval=True)
