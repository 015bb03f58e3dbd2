"""Environments whose episodes can be brought back: each begins with a seed of its own, and its actions are kept.

For the serial mode alone: with a seed, an ALE game loads its ROM again, which takes as long as hundreds of steps.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from ga3c.games.make import make_seed
from ga3c.games.spec import EnvSpec, Games, Played

LONGEST_REPLAY = 1_000_000  # steps; the actions of an episode that hardly ever ends must not fill the memory
PIECE = 50  # steps of a replay


class Episodes:
    """One environment: its episode under way, and those that follow."""

    def __init__(self, make: Callable[[], Games], seeds: tuple[int, ...], stagger: int) -> None:
        self.observation = np.empty(0)  # (1, stack, *frame)
        self._make = make
        self._seeds = seeds  # what the seed of each episode is made of, with its number
        self._stagger = stagger  # steps within which the first episode is cut
        self._games: Games | None = None  # not before it is needed: making one takes time
        self._number = -1
        self._actions: array[int] | None = array("i")  # None: more than are replayed
        self._over = False  # the next step only begins the next episode

    def begin(self) -> None:
        """Begin the first episode, or the next one."""
        self._number += 1
        self._actions = array("i")
        self._reset()

    def step(self, action: int) -> Played:
        if self._over:
            self.begin()
            no = np.zeros(1, dtype=bool)
            return Played(self.observation, np.zeros(1, dtype=np.float32), no, no, real=no, finished=())
        if self._actions is not None:
            self._actions.append(action)
            if len(self._actions) > LONGEST_REPLAY:
                self._actions = None
        return self._play(action)

    def close(self) -> None:
        if self._games is not None:
            self._games.close()

    def state(self) -> dict[str, Any]:
        """What brings the episode back; there after the environment was closed, too."""
        return {
            "number": self._number,
            "over": self._over,
            "actions": None if self._actions is None else np.array(self._actions, dtype=np.int32),
            "observation": self.observation,
        }

    def restore(self, state: dict[str, Any]) -> Generator[None, None, bool]:
        """Bring the saved episode back, piece by piece; returns whether that was possible.

        Where it was not, the episode is cut at the saved observation, as if it had been truncated there.
        """
        self._number, self._over = state["number"], state["over"]
        returned = self._over or (yield from self._replay(state))
        if not returned:
            self._over = True
        self.observation = state["observation"]
        return returned

    def _replay(self, state: dict[str, Any]) -> Generator[None, None, bool]:
        """Play the saved episode again; returns whether it leads to the saved observation."""
        if state["actions"] is None:
            return False
        self._actions = array("i", state["actions"].tolist())
        self._reset()
        for place, action in enumerate(self._actions):
            if place % PIECE == 0:
                yield
            self._play(action)
            if self._over:
                return False
        saved: np.ndarray = state["observation"]
        return self.observation.tobytes() == saved.tobytes()

    def _reset(self) -> None:
        if self._games is None:
            self._games = self._make()
        stagger = 0 if self._number else self._stagger
        self.observation = self._games.reset(make_seed(*self._seeds, self._number), stagger)
        self._over = False

    def _play(self, action: int) -> Played:
        assert self._games is not None
        played = self._games.step(np.array([action]))
        self.observation = played.observations
        self._over = bool(played.finished) or bool(played.truncated[0])  # one that was cut has no score
        return played


class RepeatableGames:
    """K environments that are stepped together and can all be brought back to where they were."""

    def __init__(
        self, spec: EnvSpec, count: int, make: Callable[[], Games], seeds: tuple[int, ...], stagger: int
    ) -> None:
        self.spec = spec
        self.count = count
        self._episodes = [Episodes(make, (*seeds, env), stagger) for env in range(count)]

    @property
    def observations(self) -> np.ndarray:
        return np.concatenate([episodes.observation for episodes in self._episodes])

    def begin(self) -> Iterator[None]:
        """Make the environments and begin their first episodes, one after the other."""
        for episodes in self._episodes:
            episodes.begin()
            yield

    def step(self, actions: np.ndarray) -> Played:
        played = [episodes.step(action) for episodes, action in zip(self._episodes, actions.tolist(), strict=True)]
        return Played(
            observations=np.concatenate([one.observations for one in played]),
            rewards=np.concatenate([one.rewards for one in played]),
            terminated=np.concatenate([one.terminated for one in played]),
            truncated=np.concatenate([one.truncated for one in played]),
            real=np.concatenate([one.real for one in played]),
            finished=tuple(game for one in played for game in one.finished),
        )

    def close(self) -> None:
        for episodes in self._episodes:
            episodes.close()

    def state(self) -> list[dict[str, Any]]:
        return [episodes.state() for episodes in self._episodes]

    def restore(self, states: list[dict[str, Any]]) -> Generator[None, None, list[int]]:
        """Bring all saved episodes back, piece by piece; returns the numbers of those for which that was impossible."""
        cut = []
        for env, (episodes, state) in enumerate(zip(self._episodes, states, strict=True)):
            if not (yield from episodes.restore(state)):
                cut.append(env)
            yield
        return cut
