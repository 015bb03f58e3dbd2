"""``tuner.jsonl``: the plan of a run's tuner in its first line, then one line per trial.

Other programs read it, so its keys are an interface. A line holds what the strategy was told and what it decided, so
that a run can be looked at, replayed and resumed from it alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tuner.space import Setting, Space
from tuner.strategy import Decision, Measurement, Plan, System

VERSION = 1
FILE = "tuner.jsonl"


class TraceError(ValueError):
    """A trace that cannot be used; the message says which line and why."""


@dataclass(frozen=True)
class Trial:
    """One row: what ran before, what was proposed, what was measured, and what was decided."""

    number: int
    seconds: float  # of the run, at the end of the window
    settling: float  # seconds from the change of the setting to the window
    window: float  # seconds that were measured
    before: Setting  # the incumbent when it was proposed
    proposed: Setting
    measurement: Measurement
    decision: Decision
    random_state: Any = None  # of the strategy, after the decision


@dataclass(frozen=True)
class Trace:
    plan: Plan
    trials: tuple[Trial, ...]
    cut: bool = False  # the last line was broken: the run was killed while it wrote


def header_line(plan: Plan) -> str:
    row = {
        "version": VERSION,
        **asdict(plan),
        "start": plan.start._asdict(),
    }
    return json.dumps(row) + "\n"


def trial_line(trial: Trial) -> str:
    measured, decision = trial.measurement, trial.decision
    row = {
        "trial": trial.number,
        "seconds": trial.seconds,
        "settling": trial.settling,
        "window": trial.window,
        "before": trial.before._asdict(),
        "proposed": trial.proposed._asdict(),
        "measured": measured.setting._asdict(),
        "after": decision.incumbent._asdict(),
        "tps": measured.mean_tps,
        "pps": measured.pps,
        "prediction_queue": measured.prediction_queue,
        "training_queue": fmean(measured.training_queue),
        "lag_mean": measured.lag_mean,
        "lag_max": measured.lag_max,
        "stale": measured.stale,
        "decision": decision.verdict,
        "reason": decision.reason,
        "temperature": decision.temperature,
        "problem": measured.problem,
        "tps_parts": measured.tps,
        "training_queue_parts": measured.training_queue,
        "random_state": trial.random_state,
    }
    return json.dumps(row) + "\n"


def read_trace(path: Path) -> Trace:
    """The trace of a run, given its directory or the file. A broken last line is left out: the run was killed there."""
    file = path / FILE if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        raise TraceError(f"{path} has no {FILE}: it is no run, or one without a tuner (TUNER=off)") from None
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from None
    rows: list[dict[str, Any]] = []
    cut = False
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("not an object")
            rows.append(row)
        except ValueError as error:
            if number < len(lines):
                raise TraceError(f"{file}, line {number} is broken: {error}") from None
            cut = True
    if not rows:
        raise TraceError(f"{file} is empty: the run ended before its tuner had begun")
    if rows[0].get("version") != VERSION:
        raise TraceError(
            f"{file} is of version {rows[0].get('version')}; this program reads version {VERSION} of such files"
        )
    try:
        plan = _plan(rows[0])
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{file}, line 1 is no plan of a tuner: {error!r}") from None
    trials = []
    for number, row in enumerate(rows[1:], start=2):
        try:
            trials.append(_trial(row))
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{file}, line {number} is no trial: {error!r}") from None
    return Trace(plan, tuple(trials), cut)


def _plan(row: dict[str, Any]) -> Plan:
    fields = {key: value for key, value in row.items() if key != "version"}
    return Plan(
        **{
            **fields,
            "start": Setting(**row["start"]),
            "space": Space(**row["space"]),
            "system": System(**row["system"]),
        }
    )


def _trial(row: dict[str, Any]) -> Trial:
    measurement = Measurement(
        setting=Setting(**row["measured"]),
        tps=tuple(map(float, row["tps_parts"])),
        pps=float(row["pps"]),
        prediction_queue=float(row["prediction_queue"]),
        training_queue=tuple(map(float, row["training_queue_parts"])),
        lag_mean=float(row["lag_mean"]),
        lag_max=float(row["lag_max"]),
        stale=float(row["stale"]),
        problem=row["problem"],
    )
    decision = Decision(row["decision"], Setting(**row["after"]), row["reason"], float(row["temperature"]))
    return Trial(
        number=int(row["trial"]),
        seconds=float(row["seconds"]),
        settling=float(row["settling"]),
        window=float(row["window"]),
        before=Setting(**row["before"]),
        proposed=Setting(**row["proposed"]),
        measurement=measurement,
        decision=decision,
        random_state=row["random_state"],
    )
