"""Collects steps of K environments into experiences of at most ``t_max`` steps with their n-step returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ga3c.games.spec import EnvSpec, Played
from ga3c.memory.experience import Experience

LEAST_CHANCE = 1e-6  # of an action that was drawn: rounding can lead to one whose probability is 0


def n_step_returns(rewards: Sequence[float], bootstrap: float, discount: float) -> np.ndarray:
    """R_t = r_t + γ·R_{t+1}, with the bootstrap value after the last reward."""
    returns = np.empty(len(rewards), dtype=np.float32)
    following = bootstrap
    for step in range(len(rewards) - 1, -1, -1):
        following = rewards[step] + discount * following
        returns[step] = following
    return returns


class Track:
    """The steps under way of one environment.

    Plain lists: an agent with one environment takes a step at a time, where an operation on an array of one number
    costs more than a whole step here.
    """

    def __init__(self, spec: EnvSpec, number: int, t_max: int, limit: int, corrected: bool) -> None:
        self.number = number
        self.limit = limit  # steps that complete the experience under way
        self.over = False  # the episode ended with the last step
        self.terminated = False
        self._t_max = t_max
        self._corrected = corrected
        self._history = spec.stack - 1
        self._version = 0
        self._next_step = 0
        self._frames = np.zeros((self._history + t_max + corrected, *spec.frame), dtype=spec.dtype)
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self._chances: list[float] = []

    def __len__(self) -> int:
        return len(self._actions)

    def add(self, observation: np.ndarray, action: int, version: int, reward: float) -> None:
        at = len(self._actions)
        if not at:
            self._version = version
            self._frames[: self._history] = observation[:-1]
        self._frames[self._history + at] = observation[-1]
        self._actions.append(action)
        self._rewards.append(reward)

    def add_correction(self, chance: float, reached: np.ndarray) -> None:
        """What V-trace needs of the step that was added: how likely its action was, and the observation it reached."""
        self._chances.append(chance)
        self._frames[self._history + len(self._actions)] = reached[-1]

    @property
    def _length(self) -> int:
        """Frames of the experience under way."""
        return self._history + len(self._actions) + self._corrected

    @property
    def complete(self) -> bool:
        steps = len(self._actions)
        return steps >= self.limit or (self.over and steps > 0)

    def state(self) -> dict[str, Any]:
        return {
            "limit": self.limit,
            "over": self.over,
            "terminated": self.terminated,
            "version": self._version,
            "next_step": self._next_step,
            "frames": self._frames[: self._length].copy(),
            "actions": list(self._actions),
            "rewards": list(self._rewards),
            "chances": list(self._chances),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.limit, self.over, self.terminated = state["limit"], state["over"], state["terminated"]
        self._version, self._next_step = state["version"], state["next_step"]
        self._frames[: len(state["frames"])] = state["frames"]
        self._actions, self._rewards = list(state["actions"]), list(state["rewards"])
        self._chances = list(state.get("chances", ()))  # checkpoints were written before there were any

    def take(self, agent: int, value: float, discount: float) -> Experience:
        """The experience, with this value of the observation that its last step reached."""
        steps = len(self._actions)
        experience = Experience(
            agent=agent,
            env=self.number,
            first_step=self._next_step,
            version=self._version,
            frames=self._frames[: self._length].copy(),
            actions=np.array(self._actions, dtype=np.int32),
            returns=n_step_returns(self._rewards, 0.0 if self.terminated else value, discount),
            rewards=np.array(self._rewards, dtype=np.float32) if self._corrected else None,
            chances=np.array(self._chances, dtype=np.float32) if self._corrected else None,
            terminated=self.terminated if self._corrected else False,
        )
        self._next_step += steps
        self._actions.clear()
        self._rewards.clear()
        self._chances.clear()
        self.limit = self._t_max
        return experience


class Rollout:
    """The steps under way of K environments.

    ``record`` takes what was played; ``finish`` takes the values of the observations reached, which end the experiences
    that are complete. Values come with the next prediction, so nothing is asked twice.
    """

    def __init__(
        self,
        spec: EnvSpec,
        count: int,
        *,
        t_max: int,
        discount: float,
        reward_clip: float,
        agent: int = 0,
        first_env: int = 0,
        stagger: bool = False,
        corrected: bool = False,
    ) -> None:
        """``corrected`` experiences have what V-trace needs."""
        self._discount = discount
        self._clip = reward_clip or math.inf
        self._agent = agent
        # Environments that play in step would also end their experiences in step: bursts that fill the training queue
        # and then leave it empty. First experiences of all lengths spread them evenly from there on.
        self._tracks = [
            Track(
                spec, first_env + env, t_max, limit=1 + env * t_max // count if stagger else t_max, corrected=corrected
            )
            for env in range(count)
        ]

    def record(self, observations: np.ndarray, actions: np.ndarray, version: int, played: Played) -> None:
        """Add one step: the observations, the actions taken on them by this version, and what came of it."""
        clip = self._clip
        for track, observation, action, reward, terminated, truncated, real in zip(
            self._tracks,
            observations,
            actions.tolist(),
            played.rewards.tolist(),
            played.terminated.tolist(),
            played.truncated.tolist(),
            played.real.tolist(),
            strict=True,
        ):
            if real:
                # Not by min and max, which would make a number of one that is none; whoever sends it has to see that.
                if reward > clip:
                    reward = clip
                elif reward < -clip:
                    reward = -clip
                track.add(observation, action, version, reward)
                track.terminated = terminated
                track.over = terminated or truncated

    def record_correction(self, policies: np.ndarray, actions: np.ndarray, played: Played) -> None:
        """Add what V-trace needs of the step that was recorded."""
        chances = np.maximum(policies[np.arange(len(actions)), actions], LEAST_CHANCE).tolist()
        for track, chance, reached, real in zip(
            self._tracks, chances, played.observations, played.real.tolist(), strict=True
        ):
            if real:
                track.add_correction(chance, reached)

    def finish(self, values: np.ndarray) -> list[Experience]:
        """The experiences that are complete, given the values of the observations that the last step reached."""
        return [
            track.take(self._agent, float(value), self._discount)
            for track, value in zip(self._tracks, values, strict=True)
            if track.complete
        ]

    def state(self) -> list[dict[str, Any]]:
        return [track.state() for track in self._tracks]

    def load(self, states: list[dict[str, Any]], cut: list[int]) -> None:
        """Go on from there; episodes that were ``cut`` get the value of the last observation, as truncated ones do."""
        for track, state in zip(self._tracks, states, strict=True):
            track.load(state)
        for env in cut:
            self._tracks[env].over, self._tracks[env].terminated = True, False
