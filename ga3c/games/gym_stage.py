"""An environment of Gymnasium, to look at."""

from __future__ import annotations

import gymnasium
import numpy as np

from ga3c.games.gym import GymGames
from ga3c.settings.declare import ConfigError
from ga3c.settings.groups import GameSettings


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
