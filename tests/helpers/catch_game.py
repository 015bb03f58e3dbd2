"""A small game of pixels: a ball falls, a paddle of one pixel has to be under it."""

import gymnasium
import numpy as np

SIDE = 7


class Catch(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._row, self._ball, self._paddle = 0, int(self.np_random.integers(SIDE)), SIDE // 2
        return self._draw(), {}

    def step(self, action):
        self._paddle = min(max(self._paddle + int(action) - 1, 0), SIDE - 1)
        self._row += 1
        over = self._row == SIDE - 1
        reward = (1.0 if self._ball == self._paddle else -1.0) if over else 0.0
        return self._draw(), reward, over, False, {}

    def _draw(self):
        picture = np.zeros((SIDE, SIDE), np.uint8)
        picture[self._row, self._ball] = 255
        picture[SIDE - 1, self._paddle] = 128
        return picture


gymnasium.register("Catch-v0", Catch)
