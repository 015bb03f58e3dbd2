"""The trainer: takes what its memory gives for an update, computes one gradient at one version, and applies it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ga3c.algorithms.rule import Learning
from ga3c.memory.memory import Memory
from ga3c.memory.stats import Stats
from ga3c.models.batches import Batches
from ga3c.models.model import TrainableModel
from ga3c.models.optimizers import linear
from ga3c.settings.config import Resolved

log = logging.getLogger(__name__)

BAD_UPDATES_IN_A_ROW = 5


class UpdatesNotFinite(RuntimeError):
    """Loss or gradient was not finite several times in a row."""


class BadUpdates:
    """Counts updates in a row, of all trainers, whose loss or gradient was not finite."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_a_row = 0

    def good(self) -> None:
        with self._lock:
            self._in_a_row = 0

    def bad(self, loss: float, norm: float) -> None:
        with self._lock:
            self._in_a_row += 1
            log.warning("update skipped: loss %g, gradient norm %g (%d in a row)", loss, norm, self._in_a_row)
            if self._in_a_row >= BAD_UPDATES_IN_A_ROW:
                raise UpdatesNotFinite(
                    f"{self._in_a_row} updates in a row were not finite; the last good weights are kept"
                )


class Trainer:
    """``run`` is the body of a trainer thread; ``train`` alone serves those who play and train in one thread."""

    def __init__(
        self,
        config: Resolved,
        learning: Learning,
        model: TrainableModel,
        memory: Memory,
        stats: Stats,
        bad_updates: BadUpdates,
        steps: Callable[[], int] | None = None,
    ) -> None:
        """``steps`` tells those of the whole run, where ``stats`` has not all of them."""
        self._config = config
        self._learning = learning
        self._model = model
        self._memory = memory
        self._stats = stats
        self._bad_updates = bad_updates
        self._steps = steps or (lambda: stats.totals.steps)
        self._batches = Batches(model.network.spec, model.device)

    def run(self, memory: Iterable[Any]) -> None:
        for sample in memory:
            started = time.perf_counter()
            self.train(sample)
            self._stats.add(trainer_busy=time.perf_counter() - started)

    def train(self, sample: Any) -> None:
        """One update from what was taken from the memory, less what is too old."""
        sample = self._memory.fresh(sample, self._model.updates)
        if not sample:
            return
        try:
            version = self._update(sample)
        except Exception:
            self._memory.dropped(sample, "lost_steps")
            raise
        if version is not None:
            self._memory.learned(sample, version)
        else:
            self._memory.dropped(sample, "lost_steps")

    def _update(self, sample: Any) -> int | None:
        """The version of the gradient; None where loss or gradient was not finite, and so was not applied."""
        config, steps = self._config, self._steps()
        batch = self._memory.batch(sample, self._batches.training)
        target = self._model.target.weights
        version, gradient, loss = self._model.gradient(
            lambda weights: self._learning.loss(weights, batch, steps, target)
        )
        norm, total, *figures = torch.stack(
            [torch.linalg.vector_norm(gradient), loss.total.detach(), *loss.figures.values()]
        ).tolist()
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._stats.add(bad_updates=1)
            self._bad_updates.bad(total, norm)
            return None
        self._bad_updates.good()
        if config.grad_clip and norm > config.grad_clip:
            gradient = gradient * (config.grad_clip / norm)
        frames = batch.observations[:, -1] if self._model.measures_pixels else None
        learning_rate = linear(config.learning_rate, config.learning_rate_end, steps, config.max_steps)
        self._model.apply(gradient, learning_rate, frames)
        self._stats.add(updates=1, full_updates=len(batch) >= config.min_batch, samples=len(batch), gradient_norm=norm)
        self._stats.add_losses(dict(zip(loss.figures, figures, strict=True)))
        return version
