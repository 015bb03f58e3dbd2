"""Environments of any Gymnasium id, on Gymnasium's own vector environment; images are preprocessed as ALE's are."""

from __future__ import annotations

import difflib
from typing import Any

import gymnasium
import numpy as np
from ale_py import roms
from gymnasium.spaces.utils import flatten
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ga3c.games.checked_game import Checked, GameFault
from ga3c.games.spec import FRAME, STACK, Discrete, EnvSpec, Played
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
        self._vector = SyncVectorEnv(
            [lambda: Checked(make_gym(config.game, render_mode), config.game) for _ in range(count)],
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )
        space = self._vector.single_action_space
        assert isinstance(space, gymnasium.spaces.Discrete)
        self._game = config.game
        self._first_action = int(space.start)
        self._encode = Preprocess(self._vector.single_observation_space, count)
        self.spec = self._encode.spec(Discrete(int(space.n)))
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
        taken = self._encode(observations, first)
        # Times 0, only what is not finite makes another sum than 0: a quarter of the time of ``isfinite``.
        if len(self._zeros) and taken.ravel().dot(self._zeros) != 0.0:
            (env, *_) = np.argwhere(~np.isfinite(taken))[0]
            raise GameFault(f"GAME={self._game} returned an observation that is not finite: {taken[env, 0]}")
        return taken

    def _misfit(self, error: Exception) -> GameFault:
        """What Gymnasium or numpy say to what ``Checked`` let pass."""
        space = self._vector.single_observation_space
        return GameFault(f"GAME={self._game} returned what does not fit its observation space {space}: {error}")


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


class Preprocess:
    """Observations as the networks take them: images gray, 84×84 and stacked (zeros before the first frame); other
    spaces flat, as float32."""

    def __init__(self, space: gymnasium.Space[Any], count: int) -> None:
        self._space = space
        shape = space.shape or ()
        self._image = isinstance(space, gymnasium.spaces.Box) and space.dtype == np.uint8 and len(shape) in (2, 3)
        if self._image:
            self._channel = 1 if len(shape) == 3 and shape[0] <= 4 < shape[2] else 3
            height, width = shape[1:] if self._channel == 1 else shape[:2]
            self._rows = area_weights(height, FRAME)
            self._columns = area_weights(width, FRAME).T
            self._stacks = np.zeros((count, STACK, FRAME, FRAME), dtype=np.uint8)

    def spec(self, action: Discrete) -> EnvSpec:
        if self._image:
            return EnvSpec(frame=(FRAME, FRAME), stack=STACK, dtype="uint8", action=action)
        size = gymnasium.spaces.flatdim(self._space)
        return EnvSpec(frame=(size,), stack=1, dtype="float32", action=action)

    def __call__(self, observations: Any, first: np.ndarray) -> np.ndarray:
        """The batch, where ``first`` marks the observations that start an episode."""
        if not self._image:
            if isinstance(self._space, gymnasium.spaces.Box):
                flat = np.asarray(observations, dtype=np.float32).reshape(len(first), -1)
            else:
                items = gymnasium.vector.utils.iterate(
                    gymnasium.vector.utils.batch_space(self._space, len(first)), observations
                )
                flat = np.stack([np.asarray(flatten(self._space, item), dtype=np.float32) for item in items])
            return flat[:, None]
        gray = observations if observations.ndim == 3 else observations.mean(axis=self._channel)
        frames = self._rows @ gray.astype(np.float32) @ self._columns
        self._stacks[:, :-1] = self._stacks[:, 1:]
        self._stacks[first] = 0
        self._stacks[:, -1] = np.rint(frames)
        return self._stacks.copy()


def area_weights(source: int, target: int) -> np.ndarray:
    """The (target, source) matrix that resizes one axis: each target pixel is the mean of what it covers."""
    edges = np.linspace(0, source, target + 1)
    cells = np.arange(source)
    low = np.maximum(edges[:-1, None], cells[None, :])
    high = np.minimum(edges[1:, None], cells[None, :] + 1)
    covered = np.clip(high - low, 0, None)
    weights: np.ndarray = covered / covered.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)


def make_gym(game: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """One Gymnasium environment, or a sentence that says why not."""
    if game.count(":") > 1:
        raise ConfigError(f"GAME={game} has more than one colon: write module:Id")
    try:
        # Not every environment takes the argument, so it is only given where it is needed.
        options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
        env = gymnasium.make(game, **options)
    except ModuleNotFoundError as error:
        raise ConfigError(f"GAME={game} cannot be made: {error}. Is its module importable from here?") from None
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(f"GAME={game} cannot be made: {error}") from None
    except gymnasium.error.Error as error:
        raise ConfigError(f"GAME={game} is neither an ALE game nor a Gymnasium id.{_suggest(game)} ({error})") from None
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise ConfigError(
            f"GAME={game} has the action space {env.action_space}; the policy is a softmax over discrete actions, "
            "so only Discrete action spaces can be trained"
        )
    try:
        gymnasium.spaces.flatdim(env.observation_space)
    except (NotImplementedError, ValueError):
        raise ConfigError(
            f"GAME={game} has the observation space {env.observation_space}, which has no fixed size"
        ) from None
    return env


def _suggest(game: str) -> str:
    games = [name.title().replace("_", "") for name in roms.get_all_rom_ids()]
    match = difflib.get_close_matches(game, [*games, *gymnasium.registry], n=1, cutoff=0.6)
    return f" Did you mean {match[0]}?" if match else ""
