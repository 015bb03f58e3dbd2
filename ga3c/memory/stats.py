"""What a run counts.

Counters only ever grow, and each is added to under one lock. A figure over a window (``ga3c.memory.figures``) is a
difference of two snapshots, and a snapshot changes nothing, so all who look (log, tuner) have windows of their own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ga3c.games.spec import Finished
from ga3c.memory.ledger import Ledger
from ga3c.settings.groups import RunSettings

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
    samples: int = 0  # steps trained on, each as often as it was
    stored_steps: int = 0  # steps that ended as they should: trained on once, or stored in the replay memory
    experiences: int = 0  # trained on
    lag: int = 0  # summed over experiences, in updates
    stale_steps: int = 0  # thrown away: older than MAX_LAG
    lost_steps: int = 0  # thrown away: unfinished when an agent left, queued at the end, of a bad update, or killed
    unaccounted_steps: int = 0  # that did not end in one of these ways, or in more than one: none
    bad_updates: int = 0  # not applied: loss or gradient was not finite
    bad_messages: int = 0
    agents_started: int = 0  # each gets a number, and with it seeds, that no other agent of the run had
    gradient_norm: float = 0.0  # summed over updates
    predictor_busy: float = 0.0  # seconds of work, summed over threads
    trainer_busy: float = 0.0
    network_in: int = 0  # bytes of what agents of other machines sent, as they came
    network_unpacked: int = 0  # the same, before it was compressed
    network_out: int = 0  # bytes of what was sent to them
    remote_idle: float = 0.0  # seconds in which they had nothing to do, by what they say, summed over them
    remote_held: float = 0.0  # of these, with all their requests in the server
    looks: int = 0  # at the queues; the next three are summed over them
    looks_held: int = 0  # that found agents held back by a full training queue
    prediction_queue: int = 0
    training_queue: int = 0

    @property
    def under_way(self) -> int:
        """Steps that were played and neither trained on, nor stored, nor thrown away."""
        return self.steps - self.stored_steps - self.stale_steps - self.lost_steps


COUNTERS = frozenset(field.name for field in fields(Totals))


@dataclass(frozen=True)
class Snapshot:
    """The totals at one moment, with the sums of the rule's own, and the experiences trained on until then by lag."""

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
    losses: Counter[str] = field(default_factory=Counter)  # what the rule tells of each update, summed
    gauges: dict[str, float] = field(default_factory=dict)  # numbers as they are now
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

    def set(self, **gauges: float) -> None:
        with self._lock:
            self.gauges.update(gauges)

    def add_losses(self, amounts: Mapping[str, float]) -> None:
        with self._lock:
            self.losses.update(amounts)

    def number_agent(self) -> int:
        """A number for an agent that starts or joins."""
        with self._lock:
            self.totals.agents_started += 1
            return self.totals.agents_started - 1

    def close_ledger(self) -> None:
        """Nothing plays or trains any more, so every step must have ended, once."""
        gaps = self.ledger.gaps()
        unaccounted = sum(gap.end - gap.first_step for gap in gaps) + self.ledger.overlapping
        self.add(unaccounted_steps=unaccounted, steps=self.ledger.untold)
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
            self.lag_max_ever = max(self.lag_max_ever, *lags, 0)

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

    def reached(self, maxima: RunSettings) -> str:
        """The maximum that ends the run, by its name; empty: none is reached yet."""
        if maxima.max_steps and self.totals.steps >= maxima.max_steps:
            return "max_steps"
        if maxima.max_episodes and self.totals.episodes >= maxima.max_episodes:
            return "max_episodes"
        if maxima.max_seconds and self.seconds >= maxima.max_seconds:
            return "max_seconds"
        return ""

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
            return Snapshot(self.seconds, {**self.gauges, **self.losses, **asdict(self.totals)}, dict(self._lags))

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        with self._lock:
            return {
                "totals": {**self.losses, **asdict(self.totals)},
                "scores": list(self.scores),
                "seconds": self.seconds,
                "lag_max": self.lag_max_ever,
            }

    def load(self, state: dict[str, Any]) -> None:
        with self._lock:
            totals = {"stored_steps": state["totals"]["samples"], **state["totals"]}  # older ones have it not
            self.totals = Totals(**{name: amount for name, amount in totals.items() if name in COUNTERS})
            self.losses = Counter({name: amount for name, amount in totals.items() if name not in COUNTERS})
            self.scores.extend(state["scores"])
            self.lag_max_ever = state["lag_max"]
            self._seconds_before = state["seconds"]
