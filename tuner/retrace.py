"""A recorded trace fed to a strategy again: to its own, which must decide the same, or to another one.

The other strategy runs over what was measured: a setting gets the TPS that the run had under it. Settings that the run
never measured get theirs from the calibrated simulator, and their trials are marked, since nobody saw them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Protocol

from tuner.space import Setting
from tuner.strategies import STRATEGIES, make_strategy
from tuner.strategy import Decision, Measurement, Plan, Strategy
from tuner.trace import Trace, TraceError, Trial

SHOWN = 300  # characters of a value in an error; a random state can be long


class ReplayError(ValueError):
    """The strategy decides differently than the trace says; the message names the row and both values."""


class Landscape(Protocol):
    """What is known of the TPS of settings, as ``tuner.landscape`` makes it from a trace."""

    @property
    def settings(self) -> list[Setting]: ...

    @property
    def measured(self) -> Mapping[Setting, list[float]]: ...

    def tps(self, setting: Setting) -> float: ...

    def is_measured(self, setting: Setting) -> bool: ...


@dataclass(frozen=True)
class Replay:
    """What another strategy would have done, as a trace; the trials with these numbers were simulated."""

    trace: Trace
    simulated: frozenset[int]


def check_trace(trace: Trace) -> None:
    """Feed the trace to its own strategy; the first difference is a ``ReplayError``."""
    strategy = _strategy(trace.plan)
    for index, trial in enumerate(trace.trials):
        row = f"trial {trial.number} (line {index + 2})"  # line 1 is the plan
        try:
            _check_trial(strategy, trial)
        except ReplayError as difference:
            raise ReplayError(f"{row}: {difference}") from None
        except Exception as error:  # a strategy that breaks did not break when this row was written
            raise ReplayError(f"{row}: the strategy fails here with {error!r}") from error


def replay_other(trace: Trace, strategy_name: str, landscape: Landscape | None = None) -> Replay:
    """Run another strategy over the landscape of a trace, for as many windows, which end when the recorded ones did."""
    if landscape is None and trace.trials:
        from tuner.landscape import landscape_of

        landscape = landscape_of(trace)
    plan = replace(trace.plan, strategy=strategy_name)
    strategy, incumbent = _strategy(plan), plan.start
    world = _World(trace)
    trials, simulated = [], set()
    for recorded in trace.trials:
        assert landscape is not None
        proposed = strategy.propose()
        known = landscape.is_measured(proposed)
        measurement = world.measure(proposed, landscape.tps(proposed), known, recorded)
        decision = strategy.observe(measurement)
        trials.append(
            replace(
                recorded,
                before=incumbent,
                proposed=proposed,
                measurement=measurement,
                decision=decision,
                random_state=strategy.random_state(),
            )
        )
        incumbent = decision.incumbent
        if not known:
            simulated.add(recorded.number)
    return Replay(Trace(plan, tuple(trials), trace.cut), frozenset(simulated))


def _strategy(plan: Plan) -> Strategy:
    if plan.strategy not in STRATEGIES:
        raise TraceError(f"the trace is of strategy '{plan.strategy}'; this program has {', '.join(STRATEGIES)}")
    return make_strategy(plan)


def _check_trial(strategy: Strategy, trial: Trial) -> None:
    _compare("proposed", trial.proposed, strategy.propose())
    decision = strategy.observe(trial.measurement)
    for name, recorded, now in _decided(trial.decision, decision):
        _compare(name, recorded, now)
    # As the file holds it: tuples have become lists there.
    _compare("random state", trial.random_state, json.loads(json.dumps(strategy.random_state())))


def _decided(recorded: Decision, now: Decision) -> list[tuple[str, Any, Any]]:
    return [
        ("decision", recorded.verdict, now.verdict),
        ("setting after it", recorded.incumbent, now.incumbent),
        ("reason", recorded.reason, now.reason),
        ("temperature", recorded.temperature, now.temperature),
    ]


def _compare(name: str, recorded: Any, now: Any) -> None:
    if recorded != now:
        raise ReplayError(f"{name} is {_shown(recorded)} in the trace, but the strategy now says {_shown(now)}")


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, (Setting, float)) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


class _World:
    """Measurements of any setting in the likeness of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._seen: dict[Setting, list[Measurement]] = defaultdict(list)
        for trial in trace.trials:
            if not trial.measurement.problem:
                self._seen[trial.measurement.setting].append(trial.measurement)
        # Steps of an update: about the same under every setting, since MIN_BATCH is.
        ratios = [seen.pps / seen.mean_tps for every in self._seen.values() for seen in every if seen.mean_tps > 0]
        self._steps_per_update = median(ratios) if ratios else 0.0

    def measure(self, setting: Setting, tps: float, known: bool, recorded: Trial) -> Measurement:
        """A window with this mean, uneven as the recorded one was: a strategy may judge the noise by its parts.

        Lag and queues are the means of the run under this setting. They are 0 where it was simulated: not known.
        """
        parts = recorded.measurement.tps
        mean = fmean(parts) if parts else 0.0
        uneven = tuple(tps * part / mean for part in parts) if mean > 0 else (tps,) * max(1, len(parts))
        seen = self._seen.get(setting) if known else None
        if not seen:
            return Measurement(setting, uneven, tps * self._steps_per_update)
        return Measurement(
            setting,
            uneven,
            pps=fmean(each.pps for each in seen),
            prediction_queue=fmean(each.prediction_queue for each in seen),
            training_queue=tuple(map(fmean, zip(*(each.training_queue for each in seen), strict=False))),
            lag_mean=fmean(each.lag_mean for each in seen),
            lag_max=max(each.lag_max for each in seen),
            stale=fmean(each.stale for each in seen),
        )
