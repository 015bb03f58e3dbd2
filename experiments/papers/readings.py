"""What a run directory says of its run: the figures of a cell, its learning curve and the trials of its tuner."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.papers import usage
from experiments.papers.grid import GridCell
from ga3c.system.limits import available_cores
from tuner.trace import FILE as TRACE
from tuner.trace import Trial, read_trace

CURVE_POINTS = 60  # of a whole run
# Means of the measured rows of metrics.jsonl, each weighted by its window.
MEANS = (
    *("pps", "tps", "trained_per_second", "prediction_queue", "training_queue", "prediction_batch"),
    *("predictor_busy", "trainer_busy", "held"),
)
OF_UPDATES = ("training_batch", "lag_mean")  # which a row without an update has as 0, and does not know
OF_SUMMARY = ("score", "steps", "updates", "seconds", "agents", "predictors", "trainers")


class NothingMeasured(RuntimeError):
    """A run without a figure to read."""


def summary_of(run: Path) -> dict[str, Any]:
    """Empty where the run has not ended."""
    path = run / "summary.json"
    summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return summary


def figures(run: Path, cell: GridCell) -> dict[str, Any]:
    """Rates over the rows that began after the warm-up; what a run has only at its end is from its summary.

    Rows of a time whose training was lost, since the run was killed, count as well: it ran at that rate.
    """
    rows = [row for row in _json_lines(run / "metrics.jsonl") if row["seconds"] - row["window"] >= cell.warm_up]
    if not rows:
        raise NothingMeasured(f"nothing was played after the first {cell.warm_up:g} s")
    whole = sum(row["window"] for row in rows)
    limits: Counter[str] = Counter()
    for row in rows:
        limits[row["limit"]] += row["window"]
    summary = summary_of(run)
    return {
        **{name: sum(row[name] * row["window"] for row in rows) / whole for name in MEANS},
        **{name: _mean_of_updates(rows, name) for name in OF_UPDATES},
        "lag_max": max(row["lag_max"] for row in rows),
        "limit": limits.most_common(1)[0][0],
        **{name: summary[name] for name in OF_SUMMARY},
        **_choice(run),
        **_taken(run, cell),
    }


def _mean_of_updates(rows: list[dict[str, Any]], name: str) -> float:
    weights = [row["window"] if row["tps"] else 0.0 for row in rows]
    summed: float = sum(row[name] * weight for row, weight in zip(rows, weights, strict=True))
    return summed / (sum(weights) or 1.0)


def curve(run: Path, cell: GridCell) -> list[list[float]]:
    """Seconds, steps and mean score of the games that ended in each of equal intervals of the run.

    Intervals, and not the last hundred games: a point says nothing of the time before it, and the points of runs of the
    same length are at the same seconds. An interval in which no game ended has no point.
    """
    path = run / "episodes.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        games = _without_lost(csv.DictReader(file))
    interval = float(summary_of(run)["seconds"]) / CURVE_POINTS
    points: dict[int, list[dict[str, str]]] = {}
    for game in games:
        points.setdefault(min(int(float(game["seconds"]) / interval), CURVE_POINTS - 1), []).append(game)
    return [
        [(number + 1) * interval, float(ended[-1]["steps"]), fmean(float(game["score"]) for game in ended)]
        for number, ended in sorted(points.items())
    ]


def trials(run: Path) -> list[dict[str, Any]] | None:
    """What the tuner measured, where there was one."""
    if not (run / TRACE).exists():
        return None
    rows = _json_lines(run / "metrics.jsonl")
    return [
        {
            "seconds": trial.seconds,
            **trial.measurement.setting._asdict(),
            "tps": trial.measurement.mean_tps,
            "pps": trial.measurement.pps,
            "training_queue": fmean(trial.measurement.training_queue),
            "prediction_batch": _within(rows, trial, "prediction_batch"),
            "decision": trial.decision.verdict,
        }
        for trial in read_trace(run).trials
    ]


def _within(rows: list[dict[str, Any]], trial: Trial, name: str) -> float | None:
    """The mean of the rows of metrics.jsonl that lie in the window of this trial; None where none does."""
    begun = trial.seconds - trial.window
    inside = [row[name] for row in rows if begun <= row["seconds"] - row["window"] and row["seconds"] <= trial.seconds]
    return fmean(inside) if inside else None


def _choice(run: Path) -> dict[str, int]:
    """The setting that the tuner holds for the best at the end: what runs then may be one that it tries."""
    tried = read_trace(run).trials if (run / TRACE).exists() else ()
    return tried[-1].decision.incumbent._asdict() if tried else {}


def _taken(run: Path, cell: GridCell) -> dict[str, float | None]:
    """CPU as a share of all cores, device as a share of its time, memory in bytes; None where nothing tells."""
    # The first line is about the time before the run's own clock as well.
    lines = [
        line for line in _json_lines(run / usage.FILE) if max(line["seconds"] - line["elapsed"], 0.0) >= cell.warm_up
    ]
    elapsed = sum(line["elapsed"] for line in lines)
    devices = [line["device"] for line in lines if line["device"] is not None]
    return {
        "cpu": sum(line["cpu_seconds"] for line in lines) / elapsed / available_cores() if elapsed else None,
        "device": fmean(devices) if devices else None,
        "memory": max((line["memory"] for line in lines), default=None),
    }


def _json_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without a last one that was cut."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def _without_lost(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Without the games of a training that was lost, since the run was killed: their numbers were given again."""
    kept: list[dict[str, str]] = []
    for row in rows:
        while kept and int(kept[-1]["episode"]) >= int(row["episode"]):
            kept.pop()
        kept.append(row)
    return kept
