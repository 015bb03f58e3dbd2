"""The server's own model and threads, with a note of how long each forward took."""

from __future__ import annotations

import time
from collections import deque

from torch import Tensor

from experiments.bench.stages import settle
from ga3c.algorithms.rule import make_learning
from ga3c.engines.workers import Workers
from ga3c.games.spec import EnvSpec
from ga3c.memory.memory import Memory
from ga3c.memory.stats import Stats
from ga3c.models.model import Model, Prediction
from ga3c.models.network import Network
from ga3c.settings.config import Resolved

FORWARDS_KEPT = 100_000


class TimedModel(Model):
    def __init__(self, config: Resolved, network: Network) -> None:
        super().__init__(config, network)
        self.forwards: deque[float] = deque(maxlen=FORWARDS_KEPT)  # seconds; several threads may append

    def predict(self, observations: Tensor) -> Prediction:
        started = time.perf_counter()
        prediction = super().predict(observations)
        self.forwards.append(time.perf_counter() - started)
        return prediction


class TimedWorkers(Workers):
    """Those of a server in its steady state, whose predictions are timed."""

    def __init__(self, config: Resolved, spec: EnvSpec, memory: Memory, stats: Stats) -> None:
        model = TimedModel(config, make_learning(config, spec).network)
        super().__init__(config, spec, memory, stats, model)
        self.forwards = model.forwards
        settle(model)
