"""The trainer: merges experiences to the minimum batch, computes one gradient at one version, and applies it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from ga3c.algorithms.actor_critic.loss import Loss, actor_critic_loss
from ga3c.algorithms.actor_critic.vtrace import vtrace
from ga3c.memory.experience import Experience
from ga3c.memory.stats import Stats
from ga3c.models.batches import Batches, TrainingBatch
from ga3c.models.model import TrainableModel
from ga3c.settings.config import Config

log = logging.getLogger(__name__)

BAD_UPDATES_IN_A_ROW = 5


class NotFinite(RuntimeError):
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
                raise NotFinite(f"{self._in_a_row} updates in a row were not finite; the last good weights are kept")


def anneal(start: float, end: float | None, steps: int, max_steps: int) -> float:
    """The value on the line from ``start`` at step 0 to ``end`` at ``max_steps``; constant where there is no end."""
    if end is None or not max_steps:
        return start
    return start + (end - start) * min(steps / max_steps, 1.0)


class Trainer:
    """``run`` is the body of a trainer thread; ``train`` alone serves those who play and train in one thread."""

    def __init__(
        self,
        config: Config,
        model: TrainableModel,
        stats: Stats,
        bad_updates: BadUpdates,
        steps: Callable[[], int] | None = None,
    ) -> None:
        """``steps`` tells those of the whole run, where ``stats`` has not all of them."""
        self._config = config
        self._model = model
        self._stats = stats
        self._bad_updates = bad_updates
        self._steps = steps or (lambda: stats.totals.steps)
        self._batches = Batches(model.network.spec, model.device)

    def run(self, queue: Iterable[list[Experience]]) -> None:
        for experiences in queue:
            started = time.perf_counter()
            self.train(experiences)
            self._stats.add(trainer_busy=time.perf_counter() - started)

    def train(self, experiences: list[Experience]) -> None:
        """One update from these experiences, less those that are too old."""
        experiences = self._drop_stale(experiences)
        if not experiences:
            return
        try:
            trained = self._update(experiences)
        except Exception:
            self._stats.lose(experiences)
            raise
        if trained:
            self._stats.ledger.settle(experiences)
        else:
            self._stats.lose(experiences)

    def _update(self, experiences: list[Experience]) -> bool:
        """False where loss or gradient was not finite, and so was not applied."""
        batch = self._batches.training(experiences)
        steps = self._steps()
        config = self._config
        beta = anneal(config.beta, config.beta_end, steps, config.max_steps)
        learning_rate = anneal(config.learning_rate, config.learning_rate_end, steps, config.max_steps)
        parts: list[Loss] = []

        def loss(weights: Tensor) -> Tensor:
            policies, values = self._model.network.forward(weights, batch.observations)
            returns, advantages = self._targets(weights, policies, values, batch)
            parts.append(
                actor_critic_loss(
                    policies,
                    values,
                    batch.actions,
                    returns,
                    advantages,
                    beta=beta,
                    log_epsilon=config.log_epsilon,
                    value_cost=config.value_cost,
                )
            )
            return parts[0].total

        version, gradient = self._model.gradient(loss)
        total, policy_loss, value_loss, entropy, norm = torch.stack(
            [*(part.detach() for part in parts[0]), torch.linalg.vector_norm(gradient)]
        ).tolist()
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._stats.add(bad_updates=1)
            self._bad_updates.bad(total, norm)
            return False
        self._bad_updates.good()
        if config.grad_clip and norm > config.grad_clip:
            gradient = gradient * (config.grad_clip / norm)
        frames = batch.observations[:, -1] if self._model.measures_pixels else None
        self._model.apply(gradient, learning_rate, frames)
        self._stats.add_lags([version - experience.version for experience in experiences])
        self._stats.add(
            updates=1,
            full_updates=len(batch.returns) >= (config.min_batch or 1),
            samples=len(batch.returns),
            policy_loss=policy_loss,
            value_loss=value_loss,
            entropy=entropy,
            gradient_norm=norm,
        )
        return True

    @torch.no_grad()
    def _targets(
        self, weights: Tensor, policies: Tensor, values: Tensor, batch: TrainingBatch
    ) -> tuple[Tensor, Tensor | None]:
        """What the values are drawn to, and the advantages of the actions where these are not the differences to it."""
        correction, config = batch.correction, self._config
        if correction is None:
            return batch.returns, None
        _, following = self._model.network.forward(weights, correction.reached)
        chosen = policies.gather(1, batch.actions[:, None]).squeeze(1)
        targets = vtrace(
            ratios=chosen.cpu().numpy() / correction.chances,
            rewards=correction.rewards,
            values=values.detach().cpu().numpy(),
            lengths=correction.lengths,
            following=np.where(correction.terminated, 0.0, following.cpu().numpy()),
            discount=config.discount,
            rho_bar=config.rho_bar,
            c_bar=config.c_bar,
        )
        returns, advantages = (torch.from_numpy(numbers.astype(np.float32)).to(values.device) for numbers in targets)
        return returns, advantages

    def _drop_stale(self, experiences: list[Experience]) -> list[Experience]:
        if not self._config.oldest:
            return experiences
        oldest = self._model.updates - self._config.oldest
        fresh = [experience for experience in experiences if experience.version >= oldest]
        if len(fresh) < len(experiences):
            stale = [experience for experience in experiences if experience.version < oldest]
            self._stats.ledger.settle(stale)
            self._stats.add(stale_steps=sum(experience.steps for experience in stale))
        return fresh
