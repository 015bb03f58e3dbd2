"""Playing and training in one thread: a predictor, a trainer and the players between them, round by round."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from ga3c.agents.player import Player
from ga3c.engines.predictor import Predictor
from ga3c.games.spec import EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.queue import Queue
from ga3c.memory.stats import Stats
from ga3c.messages import wire
from ga3c.messages.wire import Kind, Parts, Request
from ga3c.settings.config import Config


class Trains(Protocol):
    def train(self, experiences: list[Experience]) -> None: ...


class Rounds:
    """In a round all players act once, then all full batches are trained."""

    def __init__(self, config: Config, spec: EnvSpec, predictor: Predictor, trainer: Trains, stats: Stats) -> None:
        self.experiences: Queue[Experience] = Queue(lambda experience: experience.steps, least=config.min_batch or 1)
        self.unfinished = False  # a round is under way, or failed
        self._spec = spec
        self._corrected = config.corrected
        self._predictor = predictor
        self._trainer = trainer
        self._stats = stats
        self._players: list[Player] = []
        self._requests: list[Request] = []

    def join(self, player: Player, messages: list[Parts]) -> None:
        """Let a player take part that has just begun, with these messages."""
        self._players.append(player)
        self._receive(messages)

    def play(self) -> None:
        """One round."""
        self.unfinished = True
        requests, self._requests = self._requests, []
        started = time.perf_counter()
        answers = self._predictor.predict(requests)
        self._stats.add(predictor_busy=time.perf_counter() - started)
        for player, (_, (head, _)) in zip(self._players, answers, strict=True):
            self._receive(player.play(wire.decode_reply(wire.read_header(head), head)))
        started = time.perf_counter()
        while (batch := self.experiences.take()) is not None:
            self._trainer.train(batch)
        self._stats.add(trainer_busy=time.perf_counter() - started)
        self.unfinished = False

    def give_up(self, agents: Iterable[int]) -> None:
        """Nothing is played any more: count what is under way as lost, and check that every step has ended."""
        for agent in agents:
            self._stats.add(lost_steps=self._stats.ledger.leave(agent))
        self._stats.lose(self.experiences.drain())
        self._stats.close_ledger()

    def _receive(self, messages: list[Parts]) -> None:
        for head, body in messages:
            header = wire.read_header(head)
            if header.kind == Kind.REQUEST:
                request = wire.decode_request(header, head, body, self._spec)
                self._stats.ledger.play(header.agent, request.first_env, request.real)
                self._stats.add(steps=request.played)
                self._requests.append(request)
            elif header.kind == Kind.EXPERIENCE:
                experience = wire.decode_experience(header, head, body, self._spec, corrected=self._corrected)
                self._stats.ledger.deliver(experience)
                self.experiences.put([experience])
            elif header.kind == Kind.SCORES:
                self._stats.add_games(wire.decode_scores(head))
