"""The torch side of a run: the model, and the predictors and trainers around it.

It is the only thing that the server has to import torch for, so it comes after the agents were started: torch takes
seconds to import, and so do their environments.
"""

from __future__ import annotations

import torch

from ga3c.config import Config
from ga3c.envs import EnvSpec
from ga3c.model import Model
from ga3c.predictor import Predictor
from ga3c.stats import Stats
from ga3c.trainer import BadUpdates, Trainer


class Learner:
    """One shared model, and as many predictors and trainers of it as are asked for."""

    def __init__(self, config: Config, spec: EnvSpec, stats: Stats) -> None:
        # torch's own threads would multiply with predictors and trainers, and spin.
        torch.set_num_threads(config.torch_threads or 1)
        self.model = Model(config, spec)
        self._config = config
        self._stats = stats
        self._bad_updates = BadUpdates()

    def predictor(self, run_id: int) -> Predictor:
        return Predictor(self.model, self._stats, run_id)

    def trainer(self) -> Trainer:
        return Trainer(self._config, self.model, self._stats, self._bad_updates)
