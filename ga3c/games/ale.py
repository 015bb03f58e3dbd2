"""ALE games: from a name to a ROM, and K of them on ale-py's own vector environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

from ga3c.games.names import find_name
from ga3c.games.spec import FRAME, STACK, Discrete, EnvSpec, Played
from ga3c.games.vector import VectorGames
from ga3c.settings.declare import ConfigError
from ga3c.settings.groups import GameSettings

FRAMESKIP = 4
TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")  # ale-py ends the process when it loads one
ENVS_IN_ALL = 96  # of all agents together, where nothing else is said
VIEW_SKIP = 2  # emulated frames of a picture: 30 pictures a second, and the brighter of two, so nothing flickers
MAX_FRAMES = 108_000  # of one game: 30 minutes at 60 Hz


def find_rom(game: str) -> str | None:
    """The ROM of a game, however its name is written; None for what is no ALE game."""
    rom = find_name(game, roms.get_all_rom_ids())
    if rom in TWO_PLAYERS:
        raise ConfigError(f"GAME={game} is a game for two players, and there is only one here")
    return rom


def plays(game: str) -> bool:
    return find_rom(game) is not None


def usual_envs(agents: int) -> int:
    """Many together use the cores best: on two, 3x16 has 79 % of what they can give, 6x16 85 % and 3x32 91 %.

    But more environments in all are a longer policy lag, and a quarter of a second each until they play.
    """
    return min(max(ENVS_IN_ALL // agents, 8), 32)


def sticky_probability(config: GameSettings) -> float:
    """An id (``ALE/Pong-v5``) means its own sticky actions, a name (``Pong``) the game as the papers played it."""
    if config.sticky is not None:
        return config.sticky
    return 0.25 if config.game.endswith(("-v5", "-v0")) else 0.0


def _rom(config: GameSettings) -> str:
    rom = find_rom(config.game)
    assert rom is not None
    return rom


def _emulators(config: GameSettings, count: int, **others: Any) -> AtariVectorEnv:
    """What those that train and those that show have in common: no-ops, FIRE and sticky actions come out alike."""
    return AtariVectorEnv(
        _rom(config),
        count,
        num_threads=1,
        repeat_action_probability=sticky_probability(config),
        maxpool=True,
        noop_max=config.noop_max,
        use_fire_reset=True,
        reward_clipping=False,
        **others,
    )


class AtariGames(VectorGames):
    """K games on ale-py's vector environment, every setting of the emulator passed on purpose."""

    _vector: AtariVectorEnv

    def __init__(self, config: GameSettings, count: int) -> None:
        super().__init__(count)
        if config.env_args:
            slower = f"GAME=ale_py:ALE/{_rom(config).title().replace('_', '')}-v5"
            raise ConfigError(
                f"GAME={config.game} is an ALE game, which takes no ENV_ARGS: STICKY, NOOP_MAX and EPISODIC_LIFE are "
                f"settings, and {slower}, which is slower, takes what gymnasium.make does"
            )
        self._color = config.color
        self._vector = _emulators(
            config,
            count,
            max_num_frames_per_episode=MAX_FRAMES,
            full_action_space=False,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=FRAME,
            img_width=FRAME,
            grayscale=not config.color,
            stack_num=STACK,
            frameskip=FRAMESKIP,
            # ``episodic_life`` would restart the whole game at each lost life; ``life_loss_info`` plays on.
            episodic_life=False,
            life_loss_info=config.episodic_life,
        )
        space = self._vector.single_action_space
        assert isinstance(space, gymnasium.spaces.Discrete)
        frame = (3, FRAME, FRAME) if config.color else (FRAME, FRAME)
        self.spec = EnvSpec(frame=frame, stack=STACK, dtype="uint8", action=Discrete(int(space.n)))
        self._lives_end_episodes = config.episodic_life
        self._strength = np.ones(count, dtype=np.float32)  # of each action: the whole way of a joystick

    def reset(self, seed: int, stagger: int = 0) -> np.ndarray:
        observations: np.ndarray
        observations, _ = self._vector.reset(seed=seed)
        self._begin(seed, stagger)
        return self._colors_first(observations)

    def step(self, actions: np.ndarray) -> Played:
        # What ``step`` of the vector environment does, less its checks: an agent with one game waits for this.
        self._vector.ale.send(actions, self._strength)
        *step, info = self._vector.ale.recv()
        observations, rewards, terminated, truncated = self._begin_cut(*step)
        # A lost life ends an episode but not the game, and the next step of that game is real.
        over = truncated | (terminated & (info["lives"] == 0) if self._lives_end_episodes else terminated)
        return self._played(self._colors_first(observations), rewards, terminated, truncated, over)

    def _colors_first(self, observations: np.ndarray) -> np.ndarray:
        """The emulators give colours last, where there are any."""
        return np.ascontiguousarray(np.moveaxis(observations, -1, 2)) if self._color else observations


class AtariStage(AtariGames):
    """A game to look at. That of training has no colours, so they come from a second emulator.

    It repeats the game from the same seed and actions; should the two ever part, it is noticed.
    """

    fps = 60 / VIEW_SKIP

    def __init__(self, config: GameSettings) -> None:
        from ale_py.env import AtariEnv  # only who looks needs it

        super().__init__(config, 1)
        self._pictures: list[np.ndarray] = []
        height, width = AtariEnv(_rom(config)).ale.getScreenDims()  # mostly 210 × 160, but a few are higher
        self._view = _emulators(
            config,
            1,
            max_num_frames_per_episode=2 * MAX_FRAMES,  # only the game itself decides when it is cut
            img_height=height,
            img_width=width,
            grayscale=False,
            stack_num=1,
            frameskip=VIEW_SKIP,
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


make, stage = AtariGames, AtariStage  # as a backend has them
