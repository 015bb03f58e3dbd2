"""An ALE game of training, to look at.

That has no colours; they come from a second emulator, which repeats the game from the same seed and actions. Both are
ale-py's vector environment, so no-ops, FIRE and sticky actions come out alike; should the two ever part, it is noticed.
"""

from __future__ import annotations

import numpy as np
from ale_py.env import AtariEnv
from ale_py.vector_env import AtariVectorEnv

from ga3c.games.ale import FRAMESKIP, MAX_FRAMES, AtariGames, sticky_probability
from ga3c.games.spec import Played
from ga3c.settings.groups import GameSettings

VIEW_SKIP = 2  # emulated frames of a picture: 30 pictures a second, and the brighter of two, so nothing flickers


class AtariStage(AtariGames):
    """An ALE game of training, and its repetition in colour."""

    fps = 60 / VIEW_SKIP

    def __init__(self, config: GameSettings, rom: str) -> None:
        super().__init__(config, rom, 1)
        self._pictures: list[np.ndarray] = []
        height, width = AtariEnv(rom).ale.getScreenDims()  # mostly 210 × 160, but a few are higher
        self._view = AtariVectorEnv(
            rom,
            1,
            num_threads=1,
            max_num_frames_per_episode=2 * MAX_FRAMES,  # only the game itself decides when it is cut
            repeat_action_probability=sticky_probability(config),
            img_height=height,
            img_width=width,
            grayscale=False,
            stack_num=1,
            frameskip=VIEW_SKIP,
            maxpool=True,
            noop_max=config.noop_max,
            use_fire_reset=True,
            reward_clipping=False,
        )

    def reset(self, seed: int, stagger: int = 0) -> np.ndarray:
        screens, _ = self._view.reset(seed=seed)
        self._pictures = [screens[0, -1]]
        return super().reset(seed, stagger)

    def step(self, actions: np.ndarray) -> Played:
        played = super().step(actions)
        self._pictures = []
        reward, over = 0.0, False
        while len(self._pictures) < FRAMESKIP // VIEW_SKIP and not over:
            screens, rewards, terminated, _, _ = self._view.step(actions)
            self._pictures.append(screens[0, -1])
            reward += float(rewards[0])
            over = bool(terminated[0])
        if reward != played.rewards[0] or over != played.terminated[0]:
            raise RuntimeError("the colour picture no longer shows the game that is played: the emulators differ")
        return played

    def close(self) -> None:
        super().close()
        self._view.close()

    def pictures(self) -> list[np.ndarray]:
        """What there is to see since the last step: (height, width, 3) uint8."""
        return self._pictures
