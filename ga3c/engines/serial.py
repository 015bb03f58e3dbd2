"""The serial mode: the same players, predictor and trainer in one thread, so that a seed decides every bit.

Between two rounds all that decides what follows can be saved, so a stop leaves no trace in what a resumed run does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ga3c.agents.player import Player, halves
from ga3c.algorithms.rule import make_acting
from ga3c.engines.engine import LogQueue
from ga3c.engines.rounds import Rounds
from ga3c.engines.workers import Workers
from ga3c.games.make import make_games
from ga3c.games.repeatable import RepeatableGames
from ga3c.games.spec import EnvSpec
from ga3c.memory.experience import load_experience
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.models.model import TrainableModel
from ga3c.settings.config import Resolved

log = logging.getLogger(__name__)


class Seat(NamedTuple):
    """A player and its environments."""

    player: Player
    games: RepeatableGames


class SerialServer:
    def __init__(self, config: Resolved, spec: EnvSpec, stats: Stats, log_queue: LogQueue | None = None) -> None:
        """It has no processes that could log."""
        self.setting = {"agents": config.agents, "predictors": 1, "trainers": 1, "remote_agents": 0}
        self._config = config
        self._spec = spec
        self._stats = stats
        self._acting = make_acting(config, spec)
        self._memory = make_memory(config, stats)
        self._workers = Workers(config, spec, self._memory, stats)
        self._rounds = Rounds(self._workers.predictor(), self._workers.trainer().train, self._memory, stats)
        self._saved: dict[str, Any] | None = None
        self._agents = range(0)
        self._seats: list[Seat] = []
        self._ready = False
        self._starting: Iterator[None] = iter(())  # what is left to do before the first round

    def prepare(self) -> TrainableModel:
        return self._workers.model

    def start(self, saved: dict[str, Any] | None = None) -> None:
        """Begin to start: it takes time, so ``wait`` does it piece by piece."""
        self._saved = saved
        first: int = saved["first_agent"] if saved else self._stats.totals.agents_started
        self._agents = range(first, first + self._config.agents)
        self._seats = list(self._make_seats())
        self._starting = self._start()

    def wait(self, seconds: float) -> None:
        """Start, play and train for about this long: whole rounds, at least one once all have started."""
        until = time.monotonic() + seconds
        for _ in self._starting:
            if time.monotonic() >= until:
                return
        self.round()
        # A maximum ends it after the very round that reached it, however long that took.
        while time.monotonic() < until and not self._stats.reached(self._config):
            self.round()

    def round(self) -> None:
        self._rounds.play()

    def stop(self) -> None:
        """End the environments. Steps under way are in ``state``, and lost only if a round failed."""
        for seat in self._seats:
            seat.player.close()
        if self._rounds.unfinished:
            self._rounds.give_up(self._agents)
        self._workers.close()

    def state(self) -> dict[str, Any] | None:
        """None within a round that failed."""
        if not self._ready:
            return self._saved
        if self._rounds.unfinished:
            return None
        return {
            "first_agent": self._agents.start,
            "accounts": [self._stats.ledger.state(agent) for agent in self._agents],
            "players": [{**player.state(), "episodes": games.state()} for player, games in self._seats],
            "experiences": [vars(experience) for experience in self._memory.state()],
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
                yield Seat(Player(config, games, self._acting, agent=agent, half=half), games)

    def _start(self) -> Iterator[None]:
        if self._saved is None:
            for seat in self._seats:
                yield from seat.games.begin()
            for agent in self._agents:
                self._stats.ledger.open(agent, self._config.envs_per_agent)
            self._stats.add(agents_started=self._config.agents)
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
        self._memory.add([load_experience(state, self._acting.schema) for state in saved["experiences"]])
        if restarted:
            log.warning(
                "%d of %d environments begin a new episode: the same seed and actions did not lead to where they were",
                restarted,
                sum(seat.games.count for seat in self._seats),
            )
