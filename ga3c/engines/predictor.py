"""The predictor: takes all requests that wait, predicts them as one batch, and answers each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ga3c.memory.stats import Stats
from ga3c.memory.turn import Answer, Reply, Request
from ga3c.models.batches import Batches
from ga3c.models.model import TrainableModel


class Predictor:
    """``run`` is the body of a predictor thread; ``predict`` alone serves those who play in the same thread."""

    def __init__(self, model: TrainableModel, stats: Stats) -> None:
        self._model = model
        self._stats = stats
        self._batches = Batches(model.network.spec, model.device)

    def run(self, queue: Iterable[list[Request]], answer: Callable[[list[Answer]], None]) -> None:
        for requests in queue:
            started = time.perf_counter()
            answer(self.predict(requests))
            self._stats.add(predictor_busy=time.perf_counter() - started)

    def predict(self, requests: list[Request]) -> list[Answer]:
        version, outputs = self._model.predict(self._batches.prediction([request.observations for request in requests]))
        answers = []
        start = 0
        for request in requests:
            end = start + len(request.real)
            answers.append((request.agent, Reply(request.half, version, outputs[start:end])))
            start = end
        self._stats.add(predictions=start, prediction_batches=1)
        return answers
