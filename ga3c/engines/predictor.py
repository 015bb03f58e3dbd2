"""The predictor: takes all requests that wait, predicts them as one batch, and answers each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ga3c.algorithms.rule import with_exploration
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Answer, Reply, Request
from ga3c.models.batches import Batches
from ga3c.models.model import TrainableModel


def none() -> None:
    return None


class Predictor:
    """``run`` is the body of a predictor thread; ``predict`` alone serves those who play in the same thread."""

    def __init__(
        self, model: TrainableModel, stats: Stats, *, in_order: bool = False, explore: Callable[[], float | None] = none
    ) -> None:
        """``in_order``: a batch has its rows by agent, whoever asked first. ``explore`` tells the chance of an action
        against the model's advice, which is one number more of each row."""
        self._model = model
        self._stats = stats
        self._in_order = in_order
        self._explore = explore
        self._batches = Batches(model.network.spec, model.device)

    def run(self, queue: Iterable[list[Request]], answer: Callable[[list[Answer]], None]) -> None:
        for requests in queue:
            started = time.perf_counter()
            answer(self.predict(requests))
            self._stats.add(predictor_busy=time.perf_counter() - started)

    def predict(self, requests: list[Request]) -> list[Answer]:
        if self._in_order:
            requests = sorted(requests, key=lambda request: (request.agent, request.half))
        version, outputs = self._model.predict(self._batches.prediction([request.observations for request in requests]))
        chance = self._explore()
        if chance is not None:
            self._stats.set(epsilon=chance)
            outputs = with_exploration(outputs, chance)
        answers = []
        start = 0
        for request in requests:
            end = start + len(request.real)
            answers.append((request.agent, Reply(request.half, version, outputs[start:end])))
            start = end
        self._stats.add(predictions=start, prediction_batches=1)
        return answers
