"""The server's own model and threads, with a note of how long each forward took."""

from __future__ import annotations

import time
from collections import deque

from torch import Tensor

from experiments.bench.stages import settle
from ga3c.engines.workers import Learner
from ga3c.games.spec import EnvSpec
from ga3c.memory.stats import Stats
from ga3c.models.model import Model, Prediction
from ga3c.settings.config import Config

FORWARDS_KEPT = 100_000


class TimedModel(Model):
    def __init__(self, config: Config, spec: EnvSpec) -> None:
        super().__init__(config, spec)
        self.forwards: deque[float] = deque(maxlen=FORWARDS_KEPT)  # seconds; several threads may append

    def predict(self, observations: Tensor) -> Prediction:
        started = time.perf_counter()
        prediction = super().predict(observations)
        self.forwards.append(time.perf_counter() - started)
        return prediction


class TimedLearner(Learner):
    """A learner in its steady state whose predictions are timed."""

    def __init__(self, config: Config, spec: EnvSpec, stats: Stats) -> None:
        super().__init__(config, spec, stats)
        self.model = timed = TimedModel(config, spec)
        self.forwards = timed.forwards
        settle(self)
