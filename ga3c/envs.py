"""From a game's name to K preprocessed environments that play in step, all behind one small interface.

An ALE game runs on ale-py's own vector environment; any other Gymnasium id on Gymnasium's, with the same preprocessing
for images. Both reset on the step *after* an episode's end; that step is no data, and ``Played.real`` says so.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.spaces.utils import flatten
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ga3c.checked import Checked, GameFault
from ga3c.config import Config
from ga3c.settings import ConfigError
from ga3c.stagger import Cuts

FRAME = 84  # pixels of a side
STACK = 4  # frames of an observation
FRAMESKIP = 4
TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")  # ale-py ends the process when it loads one
MAX_FRAMES = 108_000  # of one game: 30 minutes at 60 Hz


@dataclass(frozen=True)
class EnvSpec:
    """What the networks and the wire have to know of an environment. Observations are ``(stack, *frame)``."""

    frame: tuple[int, ...]
    stack: int
    dtype: str
    actions: int

    @property
    def is_image(self) -> bool:
        return len(self.frame) == 2

    @cached_property
    def frame_bytes(self) -> int:
        return math.prod(self.frame) * np.dtype(self.dtype).itemsize

    @property
    def observation(self) -> tuple[int, ...]:
        return (self.stack, *self.frame)


@dataclass(frozen=True)
class Finished:
    """A whole game that ended: its unclipped score and its steps."""

    score: float
    steps: int


class Played(NamedTuple):
    """What one step of K environments gave."""

    observations: np.ndarray  # (K, stack, *frame)
    rewards: np.ndarray  # (K,) float32, unclipped
    terminated: np.ndarray  # (K,) bool: nothing follows, so the bootstrap is 0
    truncated: np.ndarray  # (K,) bool: cut short, so the bootstrap is V of this very observation
    real: np.ndarray  # (K,) bool: False where the step only reset the environment
    finished: tuple[Finished, ...]


class Playable(Protocol):
    """K environments that are stepped together, once they have begun."""

    spec: EnvSpec
    count: int

    def step(self, actions: np.ndarray) -> Played: ...
    def close(self) -> None: ...


class Games(Playable, Protocol):
    """K environments that begin together."""

    def reset(self, seed: int, stagger: int = 0) -> np.ndarray:
        """Begin; with ``stagger``, each environment has one game cut within so many steps, when is left to chance."""


def make_games(config: Config, count: int) -> Games:
    """K environments of the game that the settings name."""
    rom = find_rom(config.game)
    if rom is not None:
        return AtariGames(config, rom, count)
    return GymGames(config, count)


def make_seed(*numbers: int) -> int:
    """A seed for each sequence of numbers. ALE takes 31 bits, and environments in step have seeds in a row: so 30."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 2


def find_rom(game: str) -> str | None:
    """The ROM of ``Pong``, ``ms_pacman``, ``ALE/Pong-v5`` or ``PongNoFrameskip-v4``; None for what is no ALE game."""
    name = re.sub(r"^(?:ALE/(\w+)-v5|(\w+?)(?:NoFrameskip)?-v[04])$", r"\1\2", game)
    known = {rom.replace("_", ""): rom for rom in roms.get_all_rom_ids()}
    rom = known.get(name.replace("_", "").lower())
    if rom in TWO_PLAYERS:
        raise ConfigError(f"GAME={game} is a game for two players, and there is only one here")
    return rom


def sticky_probability(config: Config) -> float:
    """An id (``ALE/Pong-v5``) means its own sticky actions, a name (``Pong``) the game as the papers played it."""
    if config.sticky is not None:
        return config.sticky
    return 0.25 if config.game.endswith(("-v5", "-v0")) else 0.0


def network_name(config: Config, spec: EnvSpec) -> str:
    """NETWORK with ``auto`` decided by the observations, refused where it does not fit them."""
    if config.network == "auto":
        return "small" if spec.is_image else "mlp"
    if config.network != "mlp" and not spec.is_image:
        raise ConfigError(
            f"NETWORK={config.network} needs images, but GAME={config.game} has vectors of {spec.frame[0]}: use mlp"
        )
    return config.network


class Scores:
    """Adds up the unclipped rewards of whole games."""

    def __init__(self, count: int) -> None:
        self._score = [0.0] * count
        self._steps = [0] * count

    def add(self, rewards: np.ndarray, real: np.ndarray, over: np.ndarray) -> tuple[Finished, ...]:
        for game, (reward, counts) in enumerate(zip(rewards.tolist(), real.tolist(), strict=True)):
            if counts:
                self._score[game] += reward
                self._steps[game] += 1
        return tuple(self._finish(game) for game, ended in enumerate(over.tolist()) if ended)

    def drop(self, games: np.ndarray) -> None:
        """These games are cut, so they have no score."""
        for game in np.flatnonzero(games).tolist():
            self._finish(game)

    def _finish(self, game: int) -> Finished:
        finished = Finished(self._score[game], self._steps[game])
        self._score[game], self._steps[game] = 0.0, 0
        return finished


class VectorGames:
    """What K environments on a Gymnasium vector environment with next-step resets have in common."""

    _vector: VectorEnv[Any, Any, Any]

    def __init__(self, count: int) -> None:
        self.count = count
        self._begin(seed=0, stagger=0)

    def _begin(self, seed: int, stagger: int) -> None:
        self._scores = Scores(self.count)
        self._over = np.zeros(self.count, dtype=bool)  # the next step only resets
        self._cuts = Cuts(self.count, seed, stagger) if stagger else None

    def _begin_cut(
        self, observations: Any, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """What a step gave, with new games where the step before cut the old ones.

        The vector environment knows nothing of that and has played them on, which must not be seen.
        """
        if self._cuts is None or not self._cuts.made.any():
            return observations, rewards, terminated, truncated
        cut = self._cuts.made
        observations, _ = self._vector.reset(options={"reset_mask": cut})
        return observations, np.where(cut, 0.0, rewards), terminated & ~cut, truncated & ~cut

    def _played(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        over: np.ndarray,
    ) -> Played:
        real, self._over = ~self._over, over
        played = Played(
            observations=observations,
            rewards=rewards.astype(np.float32),
            terminated=terminated,
            truncated=truncated & ~terminated,
            real=real,
            finished=self._scores.add(rewards, real, over),
        )
        return played if self._cuts is None else self._cut(played, self._cuts)

    def _cut(self, played: Played, cuts: Cuts) -> Played:
        truncated = played.truncated
        cuts.step(under_way=played.real & ~played.terminated & ~truncated)
        self._scores.drop(cuts.made)
        self._over |= cuts.made
        if cuts.over:
            self._cuts = None
        return played._replace(truncated=truncated | cuts.made)

    def close(self) -> None:
        self._vector.close()


class AtariGames(VectorGames):
    """K games on ale-py's vector environment, every setting of the emulator passed on purpose."""

    _vector: AtariVectorEnv

    def __init__(self, config: Config, rom: str, count: int) -> None:
        super().__init__(count)
        self._vector = AtariVectorEnv(
            rom,
            count,
            num_threads=1,
            max_num_frames_per_episode=MAX_FRAMES,
            repeat_action_probability=sticky_probability(config),
            full_action_space=False,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=FRAME,
            img_width=FRAME,
            grayscale=True,
            stack_num=STACK,
            frameskip=FRAMESKIP,
            maxpool=True,
            noop_max=config.noop_max,
            use_fire_reset=True,
            # ``episodic_life`` would restart the whole game at each lost life; ``life_loss_info`` plays on.
            episodic_life=False,
            life_loss_info=config.episodic_life,
            reward_clipping=False,
        )
        space = self._vector.single_action_space
        assert isinstance(space, gymnasium.spaces.Discrete)
        self.spec = EnvSpec(frame=(FRAME, FRAME), stack=STACK, dtype="uint8", actions=int(space.n))
        self._lives_end_episodes = config.episodic_life
        self._strength = np.ones(count, dtype=np.float32)  # of each action: the whole way of a joystick

    def reset(self, seed: int, stagger: int = 0) -> np.ndarray:
        observations: np.ndarray
        observations, _ = self._vector.reset(seed=seed)
        self._begin(seed, stagger)
        return observations

    def step(self, actions: np.ndarray) -> Played:
        # What ``step`` of the vector environment does, less its checks: an agent with one game waits for this.
        self._vector.ale.send(actions, self._strength)
        *step, info = self._vector.ale.recv()
        observations, rewards, terminated, truncated = self._begin_cut(*step)
        # A lost life ends an episode but not the game, and the next step of that game is real.
        over = truncated | (terminated & (info["lives"] == 0) if self._lives_end_episodes else terminated)
        return self._played(observations, rewards, terminated, truncated, over)


class GymGames(VectorGames):
    """K environments of any Gymnasium id with a discrete action space."""

    _vector: SyncVectorEnv

    def __init__(self, config: Config, count: int, render_mode: str | None = None) -> None:
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
        self.spec = self._encode.spec(int(space.n))
        self._zeros = np.zeros(count * self.spec.frame[0] if not self.spec.is_image else 0, dtype=np.float32)

    def reset(self, seed: int, stagger: int = 0) -> np.ndarray:
        try:
            observations, _ = self._vector.reset(seed=seed)
            self._begin(seed, stagger)
            taken = self._encode(observations, np.ones(self.count, dtype=bool))
        except GameFault:
            raise
        except Exception as error:
            raise self._misfit(error) from error
        self._check_finite(taken)
        return taken

    def step(self, actions: np.ndarray) -> Played:
        try:
            *step, _ = self._vector.step(actions + self._first_action)
            observations, rewards, terminated, truncated = self._begin_cut(*step)
            taken = self._encode(observations, first=self._over)
        except GameFault:
            raise
        except Exception as error:
            raise self._misfit(error) from error
        self._check_finite(taken)
        return self._played(taken, rewards, terminated, truncated, terminated | truncated)

    def _check_finite(self, taken: np.ndarray) -> None:
        """One number that is none would spoil all that is trained together with it."""
        # Times 0, only what is not finite makes another sum than 0: a quarter of the time of ``isfinite``.
        if len(self._zeros) and taken.ravel().dot(self._zeros) != 0.0:
            (env, *_) = np.argwhere(~np.isfinite(taken))[0]
            raise GameFault(f"GAME={self._game} returned an observation that is not finite: {taken[env, 0]}")

    def _misfit(self, error: Exception) -> GameFault:
        """What Gymnasium or numpy say to what ``Checked`` let pass."""
        space = self._vector.single_observation_space
        return GameFault(f"GAME={self._game} returned what does not fit its observation space {space}: {error}")


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

    def spec(self, actions: int) -> EnvSpec:
        if self._image:
            return EnvSpec(frame=(FRAME, FRAME), stack=STACK, dtype="uint8", actions=actions)
        size = gymnasium.spaces.flatdim(self._space)
        return EnvSpec(frame=(size,), stack=1, dtype="float32", actions=actions)

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
