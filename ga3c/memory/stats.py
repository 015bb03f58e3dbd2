"""What a run counts, and the figures over a window that are made of it.

Counters only ever grow, and each is added to under one lock. A figure over a window is a difference of two snapshots,
and a snapshot changes nothing, so that everyone who looks (the log, the tuner) has windows of their own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ga3c.games.spec import Finished
from ga3c.memory.experience import Experience
from ga3c.memory.ledger import Ledger

log = logging.getLogger(__name__)

SCORES_KEPT = 100  # whole games in the rolling score


@dataclass
class Totals:
    """Everything counted since the run began (a resumed run goes on counting)."""

    steps: int = 0  # actions played, each once
    episodes: int = 0  # whole games
    predictions: int = 0  # observations predicted, also those for a bootstrap only
    prediction_batches: int = 0
    updates: int = 0
    full_updates: int = 0  # of at least MIN_BATCH samples: fewer are left where stale ones were thrown away
    samples: int = 0  # steps trained on
    experiences: int = 0  # trained on
    lag: int = 0  # summed over experiences, in updates
    stale_steps: int = 0  # thrown away: older than MAX_LAG
    lost_steps: int = 0  # thrown away: unfinished when an agent left, queued at the end, of a bad update, or killed
    unaccounted_steps: int = 0  # that neither were trained on nor counted as thrown away, or more than once: none
    bad_updates: int = 0  # not applied: loss or gradient was not finite
    bad_messages: int = 0
    agents_started: int = 0  # each gets a number, and with it seeds, that no other agent of the run had
    policy_loss: float = 0.0  # these four summed over updates
    value_loss: float = 0.0
    entropy: float = 0.0
    gradient_norm: float = 0.0
    predictor_busy: float = 0.0  # seconds of work, summed over threads
    trainer_busy: float = 0.0
    looks: int = 0  # at the queues; the next three are summed over them
    looks_held: int = 0  # that found agents held back by a full training queue
    prediction_queue: int = 0
    training_queue: int = 0

    @property
    def under_way(self) -> int:
        """Steps that were played and neither trained on nor thrown away."""
        return self.steps - self.samples - self.stale_steps - self.lost_steps


@dataclass(frozen=True)
class Snapshot:
    """The totals at one moment, and the experiences trained on until then by their lag."""

    seconds: float
    totals: Mapping[str, float]
    lags: Mapping[int, int]


@dataclass(frozen=True)
class GameRecord:
    """A whole game, and when in the run it ended."""

    seconds: float
    steps: int
    episode: int
    score: float
    length: int


@dataclass
class Stats:
    """The counters of a run, shared by all its threads."""

    totals: Totals = field(default_factory=Totals)
    ledger: Ledger = field(default_factory=Ledger)
    scores: deque[float] = field(default_factory=lambda: deque(maxlen=SCORES_KEPT))
    lag_max_ever: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._lags: Counter[int] = Counter()  # experiences of this session by their lag
        self._finished: list[GameRecord] = []
        self._start = time.monotonic()
        self._seconds_before = 0.0

    def add(self, **amounts: float) -> None:
        with self._lock:
            for name, amount in amounts.items():
                setattr(self.totals, name, getattr(self.totals, name) + amount)

    def number_agent(self) -> int:
        """A number for an agent that starts or joins."""
        with self._lock:
            self.totals.agents_started += 1
            return self.totals.agents_started - 1

    def lose(self, experiences: list[Experience]) -> None:
        """Count what is thrown away."""
        self.ledger.settle(experiences)
        self.add(lost_steps=sum(experience.steps for experience in experiences))

    def close_ledger(self) -> None:
        """Nothing plays or trains any more, so every step must have ended, once."""
        gaps = self.ledger.gaps()
        unaccounted = sum(gap.end - gap.first_step for gap in gaps) + self.ledger.overlapping
        self.add(unaccounted_steps=unaccounted)
        if unaccounted:
            log.error(
                "%d steps are unaccounted for: %d ended twice; did not end: %s",
                unaccounted,
                self.ledger.overlapping,
                ", ".join(map(str, gaps[:5])),
            )

    def add_lags(self, lags: list[int]) -> None:
        with self._lock:
            self.totals.experiences += len(lags)
            self.totals.lag += sum(lags)
            self._lags.update(lags)
            self.lag_max_ever = max(self.lag_max_ever, *lags)

    def add_games(self, games: tuple[Finished, ...]) -> None:
        with self._lock:
            for game in games:
                self.totals.episodes += 1
                self.scores.append(game.score)
                record = GameRecord(self.seconds, self.totals.steps, self.totals.episodes, game.score, game.steps)
                self._finished.append(record)

    def take_games(self) -> list[GameRecord]:
        """The games that ended since the last call, for ``episodes.csv``."""
        with self._lock:
            games, self._finished = self._finished, []
            return games

    def look(self, prediction_queue: int, training_queue: int, held: bool) -> None:
        """Note the queues at this moment; means of such looks are what the log shows."""
        self.add(looks=1, looks_held=held, prediction_queue=prediction_queue, training_queue=training_queue)

    @property
    def seconds(self) -> float:
        """Seconds trained, over all sessions of the run."""
        return self._seconds_before + self.session_seconds

    @property
    def session_seconds(self) -> float:
        """Seconds since this session of the run began."""
        return time.monotonic() - self._start

    def pass_over(self, seconds: float) -> None:
        """Let the run be at least that old: what was trained after the last checkpoint took time, though it is lost."""
        self._seconds_before += max(seconds - self.seconds, 0.0)

    @property
    def score(self) -> float | None:
        """Mean unclipped score of the last whole games."""
        with self._lock:
            return sum(self.scores) / len(self.scores) if self.scores else None

    def snapshot(self) -> Snapshot:
        """Everything that is counted, now."""
        with self._lock:
            return Snapshot(self.seconds, asdict(self.totals), dict(self._lags))

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        with self._lock:
            return {
                "totals": asdict(self.totals),
                "scores": list(self.scores),
                "seconds": self.seconds,
                "lag_max": self.lag_max_ever,
            }

    def load(self, state: dict[str, Any]) -> None:
        with self._lock:
            self.totals = Totals(**state["totals"])
            self.scores.extend(state["scores"])
            self.lag_max_ever = state["lag_max"]
            self._seconds_before = state["seconds"]


def lag_max(before: Snapshot, after: Snapshot) -> int:
    """The largest lag of what was trained on between the two snapshots."""
    return max((lag for lag, count in after.lags.items() if count > before.lags.get(lag, 0)), default=0)


def window_row(
    before: Snapshot, after: Snapshot, setting: dict[str, int], last_score: float | None, score: float | None
) -> dict[str, Any]:
    """One row of the log: every rate is over the time between the two snapshots."""
    seconds = max(after.seconds - before.seconds, 1e-9)
    gained = {name: after.totals[name] - before.totals[name] for name in after.totals}

    def per(amount: str, unit: str) -> float:
        return gained[amount] / gained[unit] if gained[unit] else 0.0

    row: dict[str, Any] = {
        "seconds": after.seconds,
        "window": seconds,
        "steps": after.totals["steps"],
        "episodes": after.totals["episodes"],
        "updates": after.totals["updates"],
        "score_last": last_score,
        "score": score,
        "pps": gained["steps"] / seconds,
        "tps": gained["updates"] / seconds,
        "trained_per_second": gained["samples"] / seconds,
        "bootstrap_per_second": (gained["predictions"] - gained["steps"]) / seconds,
        **setting,
        "prediction_queue": per("prediction_queue", "looks"),
        "training_queue": per("training_queue", "looks"),
        "prediction_batch": per("predictions", "prediction_batches"),
        "training_batch": per("samples", "updates"),
        "lag_mean": per("lag", "experiences"),
        "lag_max": lag_max(before, after),
        "policy_loss": per("policy_loss", "updates"),
        "value_loss": per("value_loss", "updates"),
        "entropy": per("entropy", "updates"),
        "gradient_norm": per("gradient_norm", "updates"),
        # Of each thread's time; where there are no such threads, agents do it themselves.
        "predictor_busy": gained["predictor_busy"] / seconds / max(setting["predictors"] or setting["agents"], 1),
        "trainer_busy": gained["trainer_busy"] / seconds / max(setting["trainers"] or setting["agents"], 1),
        "held": per("looks_held", "looks"),
        "stale_steps": after.totals["stale_steps"],
        "lost_steps": after.totals["lost_steps"],
        "unaccounted_steps": after.totals["unaccounted_steps"],
        "bad_updates": after.totals["bad_updates"],
        "bad_messages": after.totals["bad_messages"],
    }
    row["limit"] = limiting_stage(row)
    return row


def limiting_stage(row: dict[str, Any]) -> str:
    """Which stage the others wait for.

    Trainers, when a full training queue holds the agents back or they hardly ever wait for work; predictors, when they
    hardly ever wait; otherwise the agents, since both threads wait for what they play, or since there are only agents.
    """
    if not row["predictors"] and not row["trainers"]:
        return "agents"
    if row["held"] > 0.25 or row["trainer_busy"] > 0.9:
        return "trainers"
    if row["predictor_busy"] > 0.9:
        return "predictors"
    return "agents"
