"""What K environments on a Gymnasium vector environment with next-step resets have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from ga3c.games.spec import Finished, Played


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


class Cuts:
    """One game of each environment is cut within the first ``stagger`` steps, at a step left to chance.

    Games that take equally long (two minutes of Boxing) and begin together would end together for ever. At any time the
    model would then learn from one moment of the game, and forget the others until they come again.
    """

    def __init__(self, count: int, seed: int, stagger: int) -> None:
        self._after = np.random.default_rng(seed).integers(1, stagger + 1, count)
        self._steps = 0
        self.made = np.zeros(count, dtype=bool)  # by the last step: the next one begins a new game

    def step(self, under_way: np.ndarray) -> None:
        """A step was played, after which the games of these environments are still under way."""
        self._steps += 1
        self.made = under_way & (self._after == self._steps)

    @property
    def over(self) -> bool:
        """All cuts were made, and the games after them have begun."""
        return self._steps > int(self._after.max())


class VectorGames:
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
