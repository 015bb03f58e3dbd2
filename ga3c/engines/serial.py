"""The serial mode: the same players, predictor and trainer in one thread, so that a seed decides every bit.

Between two rounds all that decides what follows can be saved, so a stop leaves no trace in what a resumed run does.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ga3c.agents.player import Player, halves
from ga3c.engines.rounds import Rounds
from ga3c.engines.workers import Learner
from ga3c.games.make import make_games
from ga3c.games.repeatable import RepeatableGames
from ga3c.games.spec import EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.stats import Stats
from ga3c.settings.config import Config

log = logging.getLogger(__name__)


class Seat(NamedTuple):
    """A player and its environments."""

    player: Player
    games: RepeatableGames


class SerialServer:
    """Plays and trains in rounds: all players act once, then all full batches are trained."""

    def __init__(
        self, config: Config, spec: EnvSpec, learner: Learner, stats: Stats, saved: dict[str, Any] | None = None
    ) -> None:
        """``saved`` is the ``state`` of a server to go on from."""
        self.setting = {"agents": config.agents or 1, "predictors": 1, "trainers": 1, "remote_agents": 0}
        self._config = config
        self._spec = spec
        self._stats = stats
        self._rounds = Rounds(config, spec, learner.predictor(run_id=0), learner.trainer(), stats)
        self._saved = saved
        self._first_agent: int = saved["first_agent"] if saved else stats.totals.agents_started
        self._agents = range(self._first_agent, self._first_agent + self.setting["agents"])
        self._seats = list(self._make_seats())
        self._ready = False
        self.starting = self._start()  # what is left to do before the first round, in pieces: it takes time

    def wait(self, seconds: float) -> None:
        """Start, play and train for about this long: whole rounds, at least one once all have started."""
        until = time.monotonic() + seconds
        for _ in self.starting:
            if time.monotonic() >= until:
                return
        self.round()
        while time.monotonic() < until and not self._reached_limit():
            self.round()

    def round(self) -> None:
        self._rounds.play()

    def stop(self) -> None:
        """End the environments. Steps under way are in ``state``, and lost only if a round failed."""
        for seat in self._seats:
            seat.player.close()
        if self._rounds.unfinished:
            self._rounds.give_up(self._agents)

    def state(self) -> dict[str, Any] | None:
        """All that decides what follows, but for model and counters; None within a round that failed."""
        if not self._ready:
            return self._saved
        if self._rounds.unfinished:
            return None
        return {
            "first_agent": self._first_agent,
            "accounts": [self._stats.ledger.state(agent) for agent in self._agents],
            "players": [{**player.state(), "episodes": games.state()} for player, games in self._seats],
            "experiences": [dataclasses.asdict(experience) for experience in self._rounds.experiences.waiting],
        }

    def _make_seats(self) -> Iterator[Seat]:
        config = self._config
        for agent in self._agents:
            for half in halves(config):
                games = RepeatableGames(
                    self._spec,
                    half.envs,
                    lambda: make_games(config, 1),
                    seeds=(config.seed, agent, half.number),
                    stagger=config.stagger,
                )
                yield Seat(Player(config, games, run=0, agent=agent, half=half), games)

    def _start(self) -> Iterator[None]:
        if self._saved is None:
            for seat in self._seats:
                yield from seat.games.begin()
            for agent in self._agents:
                self._stats.ledger.open(agent, self._config.envs_per_agent or 1)
            self._stats.add(agents_started=self.setting["agents"])
        else:
            yield from self._restore(self._saved)
        for seat in self._seats:
            self._rounds.join(seat.player, seat.player.begin(seat.games.observations))
        self._ready = True

    def _restore(self, saved: dict[str, Any]) -> Iterator[None]:
        log.info("the episodes that were under way are played again, up to where they were")
        for agent, accounts in zip(self._agents, saved["accounts"], strict=True):
            self._stats.ledger.load(agent, accounts)
        restarted = 0
        for seat, state in zip(self._seats, saved["players"], strict=True):
            cut = yield from seat.games.restore(state["episodes"])
            seat.player.load(state, cut)
            restarted += len(cut)
        self._rounds.experiences.put(Experience(**experience) for experience in saved["experiences"])
        if restarted:
            log.warning(
                "%d of %d environments begin a new episode: the same seed and actions did not lead to where they were",
                restarted,
                sum(seat.games.count for seat in self._seats),
            )

    def _reached_limit(self) -> bool:
        limit = self._config.max_steps
        return bool(limit) and self._stats.totals.steps >= limit
