"""What is wrong with an environment, found by playing it by chance: the part of ``check`` that knows Gymnasium.

It runs in a process of its own, since an environment may hang or end its process: each finding is told at once.
"""

from __future__ import annotations

import math
import re
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from ga3c.games.images import image_of
from ga3c.games.making import check_actions, find_id, make_plain
from ga3c.games.parts import Part, parts_of
from ga3c.settings.groups import GameSettings

OK, MIND, WRONG = "ok", "mind", "wrong"
LARGE = 100.0  # numbers beyond this are a strange input of a network
COMPARED = 100  # steps by which two episodes of the same seed are compared


class Finding(NamedTuple):
    kind: str  # OK; MIND: it trains, but; WRONG: it does not, or not on what is meant
    subject: str
    text: str


Tell = Callable[[Finding], None]
Beat = Callable[[str], None]  # says what is done next, whenever something was done


class Broken(Exception):
    """Nothing more can be found out."""


class Inspection:
    """Plays one environment as it comes from its maker, and looks at all that it returns."""

    def __init__(self, config: GameSettings, tell: Tell, beat: Beat) -> None:
        self._config = config
        self._tell = tell
        self._beat = beat
        self._random = np.random.default_rng(config.seed)
        self._seen: dict[tuple[Any, ...], tuple[float, float]] = {}  # lowest and highest number of each part
        self._told: set[str] = set()
        self._wrong = False
        self.limit: int | None = None  # steps after which Gymnasium truncates a game

    def run(self, steps: int, seconds: float) -> None:
        """At most so many steps, in about so many seconds."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._inspect(steps, seconds)
        told = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        for text in dict.fromkeys(told):
            self._tell(Finding(MIND, "warning", re.sub(r"\x1b\[\d+m(WARN: )?", "", text)))  # Gymnasium's are yellow

    def _inspect(self, steps: int, seconds: float) -> None:
        identity, _ = find_id(self._config.game)
        env = self._make(identity)
        self.limit = env.spec.max_episode_steps if env.spec else None
        check_actions(self._config, env)
        self._parts = list(parts_of(env.observation_space))
        if self._look_at_returns(self._make(identity, max_episode_steps=-1)):
            self._play(env, steps, time.monotonic() + seconds)
            self._tell_ranges()
            if not self._wrong:  # what has not its parts cannot be compared
                self._compare(identity, time.monotonic() + seconds / 2)
        self._call("close", env.close)

    def _make(self, identity: str, **others: Any) -> gymnasium.Env[Any, Any]:
        self._beat("making it")
        return make_plain(self._config, identity, disable_env_checker=True, **others)

    def _call(self, name: str, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._beat(name)
        try:
            return method(*arguments, **named)
        except Exception as error:
            self._tell(Finding(WRONG, name, raised(error)))
            raise Broken from error

    def _once(self, kind: str, subject: str, text: str) -> None:
        """The same is told once, however often it happens."""
        if text not in self._told:
            self._told.add(text)
            self._wrong |= kind == WRONG
            self._tell(Finding(kind, subject, text))

    def _look_at_returns(self, env: gymnasium.Env[Any, Any]) -> bool:
        """Whether reset and step return what can be unpacked, without wrappers that would unpack it before us."""
        result = self._call("reset", env.reset, seed=self._config.seed)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            self._tell(Finding(WRONG, "reset", f"returns {_shape_of(result)} instead of (observation, info)"))
            return False
        result = self._call("step", env.step, self._action(env))
        wanted = "(observation, reward, terminated, truncated, info)"
        if not (isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], dict)):
            old = ", as the old Gym did" if isinstance(result, tuple) and len(result) == 4 else ""
            self._tell(Finding(WRONG, "step", f"returns {_shape_of(result)}{old}, instead of {wanted}"))
            return False
        self._call("close", env.close)
        return True

    def _action(self, env: gymnasium.Env[Any, Any]) -> int:
        space = env.action_space
        assert isinstance(space, gymnasium.spaces.Discrete)
        return int(space.start) + int(self._random.integers(space.n))

    def _play(self, env: gymnasium.Env[Any, Any], steps: int, until: float) -> None:
        over = True
        for _ in range(steps):
            if time.monotonic() > until:
                return
            if over:
                observation, _ = self._call("reset", env.reset, seed=int(self._random.integers(2**30)))
                self._look_at(observation, "reset")
            observation, reward, terminated, truncated, _ = self._call("step", env.step, self._action(env))
            self._look_at(observation, "step")
            self._look_at_reward(reward)
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                if not isinstance(flag, (bool, np.bool_)):
                    self._once(MIND, "step", f"{name} is of type {type(flag).__name__}, not bool")
            over = bool(terminated or truncated)

    def _look_at_reward(self, reward: Any) -> None:
        try:
            finite = math.isfinite(reward)
        except TypeError:
            self._once(WRONG, "reward", f"is of type {type(reward).__name__}, not a number")
            return
        if not finite:
            self._once(WRONG, "reward", f"is not finite: {reward}")

    def _look_at(self, observation: Any, method: str) -> None:
        for part in self._parts:
            try:
                value = part.of(observation)
            except (LookupError, TypeError):
                self._once(WRONG, "observation", f"has no {part.name} in {method}")
                continue
            if isinstance(part.space, Box):
                self._look_at_box(part, part.space, value, method)
            elif part.numbers and not part.space.contains(value):
                self._once(WRONG, "observation", f"{_name(part)}is not in {part.space}: {value!r:.60} in {method}")

    def _look_at_box(self, part: Part, space: Box, value: Any, method: str) -> None:
        array, name = np.asarray(value), _name(part)
        if array.shape != space.shape:
            self._once(WRONG, "observation", f"{name}has the shape {array.shape} instead of {space.shape} in {method}")
            return
        if array.dtype.kind not in "biuf":
            self._once(WRONG, "observation", f"{name}is of {array.dtype}, which are no numbers")
            return
        if array.dtype != space.dtype:
            kind = MIND if np.can_cast(array.dtype, space.dtype, "same_kind") else WRONG
            self._once(kind, "observation", f"{name}is of {array.dtype}, and its space of {space.dtype}")
        if not np.isfinite(array).all():
            self._once(WRONG, "observation", f"{name}is not finite in {method}")
            return
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        before = self._seen.get(part.path, (low, high))
        self._seen[part.path] = (min(low, before[0]), max(high, before[1]))
        if (array < space.low).any() or (array > space.high).any():
            kind = WRONG if image_of(space) else MIND
            self._once(kind, "observation", f"{name}leaves the bounds of its space in {method}")

    def _tell_ranges(self) -> None:
        for part in self._parts:
            if part.path not in self._seen:
                continue
            low, high = self._seen[part.path]
            large = max(abs(low), abs(high)) > LARGE and image_of(part.space) is None
            text = f"{_name(part)}had numbers from {low:g} to {high:g}"
            if large:
                text += ": scale them, since the network takes them as they are (gymnasium.wrappers.RescaleObservation)"
            self._tell(Finding(MIND if large else OK, "observation", text))

    def _compare(self, identity: str, until: float) -> None:
        """Whether a seed decides an episode, in a new environment and in one that has played."""
        first, second = self._make(identity), self._make(identity)
        seed = self._config.seed
        actions = [self._action(first) for _ in range(COMPARED)]
        episode = self._episode(first, seed, actions, until)
        if not _same(episode, self._episode(second, seed, actions, until)):
            text = "the same seed and actions gave something else: eval and SERIAL=1 cannot repeat its games"
            self._tell(Finding(MIND, "seed", text))
        elif not _same(episode, self._episode(first, seed, actions, until)):
            text = "a game before has an effect on the next one, also with a seed: SERIAL=1 cannot repeat its games"
            self._tell(Finding(MIND, "seed", text))
        else:
            self._tell(Finding(OK, "seed", "the same seed and actions give the same game"))
        for env in (first, second):
            self._call("close", env.close)

    def _episode(self, env: gymnasium.Env[Any, Any], seed: int, actions: list[int], until: float) -> list[Any]:
        observation, _ = self._call("reset", env.reset, seed=seed)
        shown = [self._numbers(observation)]
        for action in actions:
            if time.monotonic() > until:
                break
            observation, reward, terminated, truncated, _ = self._call("step", env.step, action)
            shown.append([*self._numbers(observation), np.asarray(reward), np.asarray([terminated, truncated])])
            if terminated or truncated:
                break
        return shown

    def _numbers(self, observation: Any) -> list[np.ndarray]:
        return [np.array(part.of(observation)) for part in self._parts if part.numbers]


def _same(one: list[Any], other: list[Any]) -> bool:
    """As far as both were played: one may have been stopped by its time."""
    return all(
        len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(one, other, strict=False)
    )


def _name(part: Part) -> str:
    return f"{part.name} " if part.path else ""


def _shape_of(result: Any) -> str:
    if isinstance(result, tuple):
        return f"({', '.join(type(item).__name__ for item in result)})"
    return f"a {type(result).__name__}"


def raised(error: Exception) -> str:
    """What was raised, and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
