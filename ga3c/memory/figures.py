"""The figures of a run over a window: each is declared here once, and the log, panel, TensorBoard and docs follow.

A rule adds its own: what it tells of each update (``Acting.figures``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from ga3c.memory.stats import Snapshot

HELD_OFTEN, BUSY = 0.25, 0.9  # shares of the time from which on a stage is what the others wait for
WAITS_OFTEN = 0.25  # likewise, of all agents' time: waiting for messages on the way


class Window:
    """The time between two snapshots, in which NA, NP and NT were these."""

    def __init__(self, before: Snapshot, after: Snapshot, setting: dict[str, int]) -> None:
        self.before, self.after, self.setting = before, after, setting
        self.seconds = max(after.seconds - before.seconds, 1e-9)
        self.score: float | None = None  # of the last games
        self.score_last: float | None = None

    def gained(self, counter: str) -> float:
        return self.after.totals.get(counter, 0) - self.before.totals.get(counter, 0)

    def rate(self, counter: str) -> float:
        return self.gained(counter) / self.seconds

    def per(self, counter: str, unit: str) -> float:
        units = self.gained(unit)
        return self.gained(counter) / units if units else 0.0

    def busy(self, counter: str, threads: str) -> float:
        """The share of each thread's time; where there are no such threads, agents do their work themselves."""
        return self.rate(counter) / max(self.setting[threads] or self.setting["agents"], 1)

    @property
    def network_wait(self) -> float:
        """The share of their time that agents of other machines wait for messages on the way: nothing to do, though
        the server does not have all that they wait for."""
        remote = self.setting.get("remote_agents", 0)
        waited = max(self.rate("remote_idle") - self.rate("remote_held"), 0.0)
        return min(waited / remote, 1.0) if remote else 0.0

    @property
    def lag_max(self) -> int:
        """The largest lag of what was trained on."""
        before = self.before.lags
        return max((lag for lag, count in self.after.lags.items() if count > before.get(lag, 0)), default=0)


class Figure(NamedTuple):
    """One figure of a window: its name in ``metrics.jsonl``, what it is made of, and where and how it is shown."""

    name: str
    value: Callable[[Window], Any]
    meaning: str
    panel: tuple[str, str] = ("", "")  # the line of the panel, and its name there
    board: str = ""  # the group in TensorBoard
    style: Literal["number", "clock", "share", "score", "digits"] = "number"


def total(counter: str) -> Callable[[Window], Any]:
    return lambda window: window.after.totals[counter]


def rate(counter: str) -> Callable[[Window], float]:
    return lambda window: window.rate(counter)


def mean(counter: str, unit: str = "updates") -> Callable[[Window], float]:
    return lambda window: window.per(counter, unit)


def ratio(counter: str, unit: str) -> Callable[[Window], float]:
    return lambda window: window.per(counter, unit)


def gauge(name: str) -> Callable[[Window], float]:
    """A number as it is at the end of the window."""
    return lambda window: window.after.totals.get(name, 0.0)


def number(name: str) -> Callable[[Window], Any]:
    """NA, NP or NT."""
    return lambda window: window.setting.get(name, 0)


def limiting_stage(window: Window) -> str:
    """Which stage the others wait for.

    Trainers, when a full training queue holds the agents back or they hardly ever wait for work; predictors, when they
    hardly ever wait; the network, when agents wait for messages on the way, shared out over the agents of this machine
    too; otherwise the agents, since both threads wait for what they play, or since there are only agents.
    """
    if not window.setting["predictors"] and not window.setting["trainers"]:
        return "agents"
    if window.per("looks_held", "looks") > HELD_OFTEN or window.busy("trainer_busy", "trainers") > BUSY:
        return "trainers"
    if window.busy("predictor_busy", "predictors") > BUSY:
        return "predictors"
    remote = window.setting.get("remote_agents", 0)
    if window.network_wait * remote > WAITS_OFTEN * (remote + window.setting["agents"]):
        return "network"
    return "agents"


LAG, DROPPED, NETWORK = "Policy lag", "Dropped", "Network"
FIGURES: tuple[Figure, ...] = (
    Figure(
        "seconds",
        lambda window: window.after.seconds,
        "since the run began, its start included, over all sessions",
        ("Time", "elapsed"),
        style="clock",
    ),
    Figure("window", lambda window: window.seconds, "its length in seconds"),
    Figure("steps", total("steps"), "actions played", ("Progress", "steps")),
    Figure("episodes", total("episodes"), "whole games (the log's games)", ("Progress", "games"), "score"),
    Figure("updates", total("updates"), "of the model", ("Progress", "updates")),
    Figure("score", lambda window: window.score, "mean of the last 100 games", ("Score", "rolling"), "score", "score"),
    Figure("score_last", lambda window: window.score_last, "of the last game", ("Score", "last"), "score", "score"),
    Figure("pps", rate("steps"), "steps per second", ("Speed", "PPS"), "speed"),
    Figure("tps", rate("updates"), "updates per second", ("Speed", "TPS"), "speed"),
    Figure("trained_per_second", rate("samples"), "steps trained per second", ("Speed", "trained/s"), "speed"),
    Figure(
        "bootstrap_per_second",
        lambda window: window.rate("predictions") - window.rate("steps"),
        "predictions for a bootstrap only",
    ),
    Figure("agents", number("agents"), "NA", board="system"),
    Figure("predictors", number("predictors"), "NP", board="system"),
    Figure("trainers", number("trainers"), "NT", board="system"),
    Figure("remote_agents", number("remote_agents"), "agents of other machines that play", board="system"),
    Figure("prediction_queue", mean("prediction_queue", "looks"), "requests that wait", board="system"),
    Figure("training_queue", mean("training_queue", "looks"), "experiences that wait", board="system"),
    Figure(
        "prediction_batch", mean("predictions", "prediction_batches"), "observations of a prediction", board="system"
    ),
    Figure("training_batch", mean("samples"), "steps of an update", board="system"),
    Figure("lag_mean", mean("lag", "experiences"), "policy lag in updates", (LAG, "mean"), "learning"),
    Figure("lag_max", lambda window: window.lag_max, "the largest policy lag", (LAG, "max"), "learning"),
    Figure("gradient_norm", mean("gradient_norm"), "before it is clipped", ("Loss", "gradient"), "learning", "digits"),
    Figure(
        "predictor_busy",
        lambda window: window.busy("predictor_busy", "predictors"),
        "share of the time",
        style="share",
    ),
    Figure("trainer_busy", lambda window: window.busy("trainer_busy", "trainers"), "share of the time", style="share"),
    Figure("held", mean("looks_held", "looks"), "share of the time that agents had to wait for trainers"),
    Figure(
        "network_in",
        rate("network_in"),
        "bytes per second from agents of other machines, as they come",
        (NETWORK, "in B/s"),
        "network",
    ),
    Figure("network_unpacked", rate("network_unpacked"), "the same before it was compressed", board="network"),
    Figure("network_out", rate("network_out"), "bytes per second to them", (NETWORK, "out B/s"), "network"),
    Figure(
        "network_wait",
        lambda window: window.network_wait,
        "share of the time that agents of other machines wait for messages that are on the way",
        (NETWORK, "wait"),
        "network",
        "share",
    ),
    Figure("stale_steps", total("stale_steps"), "thrown away: older than MAX_LAG", (DROPPED, "stale steps")),
    Figure("lost_steps", total("lost_steps"), "thrown away otherwise", (DROPPED, "lost steps")),
    Figure("unaccounted_steps", total("unaccounted_steps"), "played, and it is not known what became of them: 0"),
    Figure("bad_updates", total("bad_updates"), "not applied: not finite", (DROPPED, "bad updates")),
    Figure("bad_messages", total("bad_messages"), "dropped", (DROPPED, "bad messages")),
    Figure("limit", limiting_stage, "the stage that the others wait for: agents, predictors, trainers or network"),
)


def window_row(
    before: Snapshot,
    after: Snapshot,
    setting: dict[str, int],
    last_score: float | None,
    score: float | None,
    figures: Sequence[Figure] = FIGURES,
) -> dict[str, Any]:
    """One row of the log: every rate is over the time between the two snapshots."""
    window = Window(before, after, setting)
    window.score, window.score_last = score, last_score
    return {figure.name: figure.value(window) for figure in figures}
