"""The torch side of a run: the model, and the predictors and trainers around it.

It is the only thing that the server has to import torch for, so it comes after the agents were started: torch takes
seconds to import, and so do their environments.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ga3c.algorithms.rule import make_learning
from ga3c.engines.predictor import Predictor
from ga3c.engines.trainer import BadUpdates, Trainer
from ga3c.games.spec import EnvSpec
from ga3c.memory.memory import Memory
from ga3c.memory.stats import Stats
from ga3c.models.device import limit_threads
from ga3c.models.model import Model, TrainableModel
from ga3c.settings.config import Resolved


def memory_advice(error: BaseException) -> str:
    """What to do if this error says that memory ran out; else nothing."""
    told = any(words in str(error) for words in ("out of memory", "can't allocate memory"))  # by the CPU, and by MPS
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (isinstance(error, RuntimeError) and told):
        return "A smaller MAX_PREDICTION_BATCH, MIN_BATCH, ENVS_PER_AGENT or NETWORK needs less memory"
    return ""


class Workers:
    """One shared model, and as many predictors and trainers of it as are asked for."""

    def __init__(
        self,
        config: Resolved,
        spec: EnvSpec,
        memory: Memory,
        stats: Stats,
        model: TrainableModel | None = None,
        steps: Callable[[], int] | None = None,
    ) -> None:
        """``steps`` tells those of the whole run, where ``stats`` has not all of them."""
        self._learning = make_learning(config, spec)
        self.close = limit_threads(config.torch_threads)  # gives torch's threads back
        try:
            self.model = model or Model(config, self._learning.network)
        except BaseException:  # DEVICE may be refused
            self.close()
            raise
        self._config = config
        self._memory = memory
        self._stats = stats
        self._steps = steps
        self._run_steps = steps or (lambda: stats.totals.steps)
        self._bad_updates = BadUpdates()
        memory.attach(self.model)

    def predictor(self) -> Predictor:
        return Predictor(
            self.model,
            self._stats,
            in_order=self._config.in_step,
            explore=lambda: self._learning.exploration(self._run_steps()),
        )

    def trainer(self) -> Trainer:
        steps = self._steps
        if self._config.recipe.replays:
            # Not those that are played meanwhile, whose number depends on who is faster.
            steps = lambda: self._stats.totals.stored_steps  # noqa: E731
        return Trainer(self._config, self._learning, self.model, self._memory, self._stats, self._bad_updates, steps)
