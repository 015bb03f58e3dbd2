"""Environments of any Gymnasium id, on Gymnasium's own vector environment; images are preprocessed as ALE's are."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ga3c.games.checked_game import GameFault
from ga3c.games.images import Preprocess
from ga3c.games.making import make_gym
from ga3c.games.spec import Discrete, Played
from ga3c.games.vector import VectorGames
from ga3c.settings.declare import ConfigError
from ga3c.settings.groups import GameSettings

USUAL_ENVS = 4  # of each agent


def plays(game: str) -> bool:
    """Also what Gymnasium does not know: it is refused here, in a sentence."""
    return True


def usual_envs(agents: int) -> int:
    return USUAL_ENVS


def sticky_probability(config: GameSettings) -> float:
    return config.sticky or 0.0


class GymGames(VectorGames):
    """K environments of any Gymnasium id with a discrete action space."""

    _vector: SyncVectorEnv

    def __init__(self, config: GameSettings, count: int, render_mode: str | None = None) -> None:
        super().__init__(count)
        made = [make_gym(config, render_mode) for _ in range(count)]
        _, view, self._space, remarks = made[0]
        envs = iter(made)
        self._vector = SyncVectorEnv([lambda: next(envs).env] * count, autoreset_mode=AutoresetMode.NEXT_STEP)
        space = self._vector.single_action_space
        assert isinstance(space, gymnasium.spaces.Discrete)
        self._game = config.game
        self._first_action = int(space.start)
        self._encode = Preprocess(view.space, view.image, count, color=config.color)
        self.spec = self._encode.spec(Discrete(int(space.n)), remarks)
        self._float_image = view.image is not None and view.space.dtype.kind == "f"
        self._zeros = np.zeros(count * self.spec.frame[0] if not self.spec.is_image else 0, dtype=np.float32)

    def reset(self, seed: int, stagger: int = 0) -> np.ndarray:
        try:
            observations, _ = self._vector.reset(seed=seed)
            self._begin(seed, stagger)
            return self._take(observations, first=np.ones(self.count, dtype=bool))
        except GameFault:
            raise
        except Exception as error:
            raise self._misfit(error) from error

    def step(self, actions: np.ndarray) -> Played:
        try:
            *step, _ = self._vector.step(actions + self._first_action)
            observations, rewards, terminated, truncated = self._begin_cut(*step)
            taken = self._take(observations, first=self._over)
        except GameFault:
            raise
        except Exception as error:
            raise self._misfit(error) from error
        return self._played(taken, rewards, terminated, truncated, terminated | truncated)

    def _take(self, observations: Any, first: np.ndarray) -> np.ndarray:
        """As the networks take them; one number that is none would spoil all that is trained together with it."""
        if self._float_image and not np.isfinite(observations).all():
            raise GameFault(f"GAME={self._game} returned an observation that is not finite")
        taken = self._encode(observations, first)
        # Times 0, only what is not finite makes another sum than 0: a quarter of the time of ``isfinite``.
        if len(self._zeros) and taken.ravel().dot(self._zeros) != 0.0:
            (env, *_) = np.argwhere(~np.isfinite(taken))[0]
            raise GameFault(f"GAME={self._game} returned an observation that is not finite: {taken[env, 0]}")
        return taken

    def _misfit(self, error: Exception) -> GameFault:
        """What Gymnasium or numpy say to what ``Checked`` let pass."""
        return GameFault(f"GAME={self._game} returned what does not fit its observation space {self._space}: {error}")


class GymStage(GymGames):
    """Any other Gymnasium id: the environment of training, made so that it draws."""

    def __init__(self, config: GameSettings) -> None:
        super().__init__(config, 1, render_mode="rgb_array")
        self.fps = float(self._vector.envs[0].metadata.get("render_fps") or 30)

    def pictures(self) -> list[np.ndarray]:
        try:
            picture = self._vector.envs[0].render()
        except gymnasium.error.Error as error:
            raise ConfigError(f"GAME={self._game} cannot be drawn: {error}") from None
        if not isinstance(picture, np.ndarray):
            raise ConfigError(f"GAME={self._game} cannot be drawn: it has no render mode rgb_array")
        return [picture]


make, stage = GymGames, GymStage  # as a backend has them
