"""A trained policy: what a checkpoint holds, in the hands of ``eval``, ``play``, ``export`` and other programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike

from ga3c.algorithms.rule import make_acting, make_learning, with_exploration
from ga3c.games.spec import EnvSpec
from ga3c.models.batches import Batches
from ga3c.models.model import Model
from ga3c.runs.checkpoint import CheckpointError, load_checkpoint, load_newest
from ga3c.runs.policy_env import PolicyEnv, PolicyVectorEnv
from ga3c.runs.resolve import probe, resolve
from ga3c.settings.commands import CheckpointOptions
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds, with the settings of its run changed to whole games."""

    path: Path
    config: Config
    arrays: dict[str, np.ndarray]
    state: dict[str, Any]

    @classmethod
    def load(cls, options: CheckpointOptions, device: str = "cpu") -> Saved:
        if options.checkpoint:
            path = Path(options.checkpoint).expanduser()
            arrays, state = load_checkpoint(path)
        else:
            path, arrays, state = load_newest(Path(options.run).expanduser())
        try:
            config = Config.from_mapping(state["config"])
        except (KeyError, TypeError) as error:  # a setting that this version does not know
            raise CheckpointError(f"the settings in {path} cannot be used: {error}") from None
        if options.weights == "mean":
            arrays["weights"] = arrays["mean_weights"]
        return cls(path, config.replace(episodic_life=False, device=device), arrays, state)


class Policy:
    """The model of a checkpoint, with its rule of acting. It is for one thread at a time.

    ``config`` has the settings of its run, changed to whole games, and ``checkpoint`` is the file it was read from.
    """

    def __init__(self, saved: Saved, spec: EnvSpec, epsilon: float = 0.0, seed: int = 0) -> None:
        """Rules that explore take an action by chance with the probability ``epsilon``."""
        self.config = resolve(saved.config, spec)
        self.spec = spec
        self.checkpoint = saved.path
        self.steps: int = saved.state["steps"]  # that it was trained for
        self.acting = make_acting(self.config, spec)
        learning = make_learning(self.config, spec)
        self._epsilon = None if learning.exploration(0) is None else epsilon
        self.model = Model(self.config, learning.network)
        self.model.load(saved.state["updates"], saved.arrays)
        self._batches = Batches(spec, self.model.device)
        self._random = np.random.default_rng(seed)

    def act(self, observations: ArrayLike, *, greedy: bool = False) -> Any:
        """An action for each observation (n, stack, *frame): (n,); for a single one (stack, *frame), its action alone.

        Actions are drawn from the policy, or the best ones with ``greedy``. Observations are those of ``make_env``.
        """
        batch, single = self._batch(observations)
        outputs = self.advice(batch)
        actions = self.acting.best(outputs) if greedy else self.acting.act(outputs, self._random)[0]
        return actions[0] if single else actions

    def outputs(self, observations: ArrayLike) -> np.ndarray:
        """What the model gives for each: probabilities of the actions and the value, or Q-values of the actions."""
        batch, single = self._batch(observations)
        outputs = self._predict(batch)
        return outputs[0] if single else outputs

    @overload
    def make_env(self, count: None = None, *, render_mode: str | None = None) -> gymnasium.Env[np.ndarray, Any]: ...
    @overload
    def make_env(self, count: int) -> VectorEnv[np.ndarray, Any, np.ndarray]: ...
    def make_env(
        self, count: int | None = None, *, render_mode: str | None = None
    ) -> gymnasium.Env[np.ndarray, Any] | VectorEnv[np.ndarray, Any, np.ndarray]:
        """The game of the run, preprocessed as in training, with whole games and the rewards of the game itself.

        One environment, as ``gymnasium.make`` gives; with a count so many that play in step, as ``make_vec`` gives.
        """
        return PolicyEnv(self.config, render_mode) if count is None else PolicyVectorEnv(self.config, count)

    def advice(self, batch: np.ndarray) -> np.ndarray:
        """What the rule acts by, (n, width): the outputs, and the chance of exploring where the rule has such."""
        outputs = self._predict(batch)
        return outputs if self._epsilon is None else with_exploration(outputs, self._epsilon)

    def _predict(self, observations: np.ndarray) -> np.ndarray:
        return self.model.predict(self._batches.prediction([observations])).outputs

    def _batch(self, observations: ArrayLike) -> tuple[np.ndarray, bool]:
        """(n, stack, *frame), and whether there was only one. Without a stack, one need not have its axis."""
        given = np.asarray(observations)
        one = self.spec.observation
        single = given.shape == one or (self.spec.stack == 1 and given.shape == self.spec.frame)
        if not single and (given.shape[1:] != one or not len(given)):
            raise ConfigError(
                f"observations of shape {given.shape} do not fit this policy: it takes {('n', *one)} or {one}"
            )
        if not np.can_cast(given.dtype, self.spec.dtype, "same_kind"):
            raise ConfigError(f"observations of {given.dtype} do not fit this policy: it takes {self.spec.dtype}")
        return np.array(given, dtype=self.spec.dtype).reshape(-1, *one), single


def load(
    run: str | os.PathLike[str], *, weights: str = "mean", device: str = "auto", seed: int = 0, epsilon: float = 0.05
) -> Policy:
    """The policy of a run: by its directory, whose newest checkpoint is taken, or by the file of a checkpoint.

    ``weights`` are the running ``mean``, as ``eval`` and ``play`` take, or the ``newest``. The seed decides the draws.
    With a rule that explores, ``epsilon`` is the chance of an action without regard to the model.
    """
    path = os.path.expanduser(run)
    run, checkpoint = ("", path) if os.path.isfile(path) else (path, "")
    saved = Saved.load(CheckpointOptions(run=run, checkpoint=checkpoint, weights=weights), device)
    return Policy(saved, probe(saved.config), epsilon, seed)
