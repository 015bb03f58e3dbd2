"""The serial mode: the same players, predictor and trainer in one thread, so that a seed decides every bit."""

from __future__ import annotations

import time

from ga3c import wire
from ga3c.agent import Player, make_players
from ga3c.config import Config
from ga3c.envs import EnvSpec
from ga3c.learner import Learner
from ga3c.queues import Queue
from ga3c.rollout import Experience
from ga3c.stats import Stats
from ga3c.wire import Kind, Parts, Request


class SerialServer:
    """Plays and trains in rounds: all players act once, then all full batches are trained."""

    def __init__(self, config: Config, spec: EnvSpec, learner: Learner, stats: Stats) -> None:
        self.setting = {"agents": config.agents or 1, "predictors": 1, "trainers": 1, "remote_agents": 0}
        self._config = config
        self._spec = spec
        self._stats = stats
        self._predictor = learner.predictor(run_id=0)
        self._trainer = learner.trainer()
        self._players: list[Player] = []
        self._requests: list[Request] = []
        self._experiences: Queue[Experience] = Queue(lambda experience: experience.steps, least=config.min_batch)

    def start(self) -> None:
        for agent in range(self.setting["agents"]):
            self._stats.ledger.open(agent, self._config.envs_per_agent or 1)
            self._players += make_players(self._config, run=0, agent=agent)
        for player in self._players:
            self._receive(player.begin())

    def wait(self, seconds: float) -> None:
        """Play and train for about this long: whole rounds, at least one."""
        until = time.monotonic() + seconds
        self.round()
        while time.monotonic() < until and not self._reached_limit():
            self.round()

    def round(self) -> None:
        requests, self._requests = self._requests, []
        started = time.perf_counter()
        answers = self._predictor.predict(requests)
        self._stats.add(predictor_busy=time.perf_counter() - started)
        for player, (_, (head, _)) in zip(self._players, answers, strict=True):
            self._receive(player.play(wire.decode_reply(wire.read_header(head), head)))
        started = time.perf_counter()
        while (batch := self._experiences.take()) is not None:
            self._trainer.train(batch)
        self._stats.add(trainer_busy=time.perf_counter() - started)

    def stop(self) -> None:
        for player in self._players:
            player.close()
        self._players = []
        for agent in range(self.setting["agents"]):
            self._stats.add(lost_steps=self._stats.ledger.leave(agent))
        self._stats.lose(self._experiences.drain())
        self._stats.close_ledger()

    def _reached_limit(self) -> bool:
        limit = self._config.max_steps
        return bool(limit) and self._stats.totals.steps >= limit

    def _receive(self, messages: list[Parts]) -> None:
        for head, body in messages:
            header = wire.read_header(head)
            if header.kind == Kind.REQUEST:
                request = wire.decode_request(header, head, body, self._spec)
                self._stats.ledger.play(header.agent, request.first_env, request.real)
                self._stats.add(steps=request.played)
                self._requests.append(request)
            elif header.kind == Kind.EXPERIENCE:
                experience = wire.decode_experience(header, head, body, self._spec)
                self._stats.ledger.deliver(experience)
                self._experiences.put([experience])
            elif header.kind == Kind.SCORES:
                self._stats.add_games(wire.decode_scores(head))
