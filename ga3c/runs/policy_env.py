"""The environments of a run as those of Gymnasium: what ``Policy.make_env`` gives."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ga3c.games.make import backend_of, make_games
from ga3c.games.spec import Discrete, EnvSpec, Games, Played, Stage
from ga3c.settings.declare import ConfigError
from ga3c.settings.groups import GameSettings

SEEDS = 2**30  # what is drawn from where none is given


class PolicyEnv(gymnasium.Env[np.ndarray, Any]):
    """One environment. A seed begins the game that ``eval`` plays with it; without one it is left to chance.

    The last ``info`` of a game has its score and steps, as ``gymnasium.wrappers.RecordEpisodeStatistics`` tells them.
    """

    def __init__(self, config: GameSettings, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode={render_mode!r} is unknown: it is None or 'rgb_array'")
        self._stage: Stage | None = backend_of(config.game).stage(config) if render_mode else None
        self._games: Games = self._stage or make_games(config, 1)
        self._over = True
        self.render_mode = render_mode
        self.observation_space = observation_space(self._games.spec)
        self.action_space = action_space(self._games.spec)
        self.metadata = {"render_modes": ["rgb_array"]} | ({"render_fps": self._stage.fps} if self._stage else {})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._over = False
        observations = self._games.reset(int(self.np_random.integers(SEEDS)) if seed is None else seed)
        return observations[0].copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the game is over, or has not begun: call reset first")
        played = self._games.step(np.asarray(action)[None])
        terminated, truncated = bool(played.terminated[0]), bool(played.truncated[0])
        self._over = terminated or truncated
        info = {"episode": {"r": played.finished[0].score, "l": played.finished[0].steps}} if self._over else {}
        return played.observations[0].copy(), float(played.rewards[0]), terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """The last picture of the last step."""
        return self._stage.pictures()[-1] if self._stage else None

    def close(self) -> None:
        self._games.close()


class PolicyVectorEnv(VectorEnv[np.ndarray, Any, np.ndarray]):
    """Several that play in step. After the end of a game, the next step of its environment only begins the next one."""

    def __init__(self, config: GameSettings, count: int) -> None:
        if count < 1:
            raise ConfigError(f"{count} environments are none: make at least one")
        self._games = make_games(config, count)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = count
        self.single_observation_space = observation_space(self._games.spec)
        self.single_action_space = action_space(self._games.spec)
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Environment i has the seed ``seed + i``."""
        super().reset(seed=seed)
        return self._games.reset(int(self.np_random.integers(SEEDS)) if seed is None else seed).copy(), {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        played = self._games.step(np.asarray(actions))
        return played.observations.copy(), played.rewards, played.terminated, played.truncated, _infos(played)

    def close_extras(self, **kwargs: Any) -> None:
        self._games.close()


def _infos(played: Played) -> dict[str, Any]:
    """Scores and steps of the games that ended, beside a mask of their environments."""
    over = played.terminated | played.truncated
    if not over.any():
        return {}
    scores, steps = np.zeros(len(over)), np.zeros(len(over), dtype=np.int64)
    scores[over] = [game.score for game in played.finished]
    steps[over] = [game.steps for game in played.finished]
    return {"episode": {"r": scores, "l": steps}, "_episode": over}


def observation_space(spec: EnvSpec) -> spaces.Box:
    low, high = (0, 255) if spec.dtype == "uint8" else (-math.inf, math.inf)
    return spaces.Box(low, high, spec.observation, np.dtype(spec.dtype).type)


def action_space(spec: EnvSpec) -> spaces.Discrete | spaces.Box:
    """Actions are counted from 0, as the policy does."""
    if isinstance(spec.action, Discrete):
        return spaces.Discrete(spec.action.n)
    return spaces.Box(spec.action.low, spec.action.high, spec.action.shape, np.float32)
