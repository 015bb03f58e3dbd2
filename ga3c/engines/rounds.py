"""Playing and training in one thread: a predictor, a trainer and the players between them, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from ga3c.agents.player import Player
from ga3c.engines.predictor import Predictor
from ga3c.memory.intake import Intake
from ga3c.memory.memory import Memory
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Request, Turn


class Rounds:
    """In a round all players act once, then all full batches are trained."""

    def __init__(self, predictor: Predictor, train: Callable[[Any], None], memory: Memory, stats: Stats) -> None:
        self.unfinished = False  # a round is under way, or failed
        self._predictor = predictor
        self._train = train
        self._memory = memory
        self._stats = stats
        self._players: list[Player] = []
        self._requests: list[Request] = []
        self._intake = Intake(stats, self._requests.extend, memory.add)

    def join(self, player: Player, turn: Turn) -> None:
        """Let a player take part that has just begun, with this turn."""
        self._players.append(player)
        self._intake.turn(turn)
        self._intake.pass_on()

    def play(self) -> None:
        self.unfinished = True
        while self._memory.hold() and (sample := self._memory.take()) is not None:
            self._train(sample)
        requests = self._requests.copy()
        self._requests.clear()
        started = time.perf_counter()
        answers = self._predictor.predict(requests)
        self._stats.add(predictor_busy=time.perf_counter() - started)
        for player, (_, reply) in zip(self._players, answers, strict=True):
            self._intake.turn(player.play(reply))
        self._intake.pass_on()
        started = time.perf_counter()
        while (batch := self._memory.take()) is not None:
            self._train(batch)
        self._stats.add(trainer_busy=time.perf_counter() - started)
        self.unfinished = False

    def give_up(self, agents: Iterable[int]) -> None:
        """Nothing is played any more: count what is under way as lost, and check that every step has ended."""
        self._intake.pass_on()  # what a round that failed had booked
        for agent in agents:
            self._stats.add(lost_steps=self._stats.ledger.leave(agent))
        self._memory.give_up()
        self._stats.close_ledger()
