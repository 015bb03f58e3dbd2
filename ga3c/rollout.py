"""Collects steps of K environments into experiences of at most ``t_max`` steps with their n-step returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ga3c.envs import EnvSpec, Played


@dataclass(frozen=True)
class Experience:
    """Consecutive steps of one environment within one episode.

    Each frame stands here once: ``frames[i : i + stack]`` is the observation of step i.
    """

    agent: int
    env: int  # number of the environment within its agent
    first_step: int  # number of the first step within its environment
    version: int  # of the model that chose the first, and so the oldest, action
    frames: np.ndarray  # (stack − 1 + steps, *frame), or one more: the observation that the last step reached
    actions: np.ndarray  # (steps,) int32
    returns: np.ndarray  # (steps,) float32

    @property
    def steps(self) -> int:
        return len(self.actions)


def n_step_returns(rewards: np.ndarray, bootstrap: float, discount: float) -> np.ndarray:
    """R_t = r_t + γ·R_{t+1}, with the bootstrap value after the last reward."""
    returns = np.empty(len(rewards), dtype=np.float32)
    following = float(bootstrap)
    for step in range(len(rewards) - 1, -1, -1):
        following = float(rewards[step]) + discount * following
        returns[step] = following
    return returns


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
    ) -> None:
        self._t_max = t_max
        self._discount = discount
        self._reward_clip = reward_clip
        self._agent = agent
        self._first_env = first_env
        self._history = spec.stack - 1
        self._frames = np.zeros((count, self._history + t_max, *spec.frame), dtype=spec.dtype)
        self._actions = np.zeros((count, t_max), dtype=np.int32)
        self._rewards = np.zeros((count, t_max), dtype=np.float32)
        self._versions = np.zeros(count, dtype=np.int64)
        self._length = np.zeros(count, dtype=np.int64)
        self._terminated = np.zeros(count, dtype=bool)
        self._truncated = np.zeros(count, dtype=bool)
        self._next_step = np.zeros(count, dtype=np.int64)
        # Environments that play in step would also end their experiences in step: bursts that fill the training queue
        # and then leave it empty. First experiences of all lengths spread them evenly from there on.
        self._limit = 1 + np.arange(count) * t_max // count if stagger else np.full(count, t_max)

    def record(self, observations: np.ndarray, actions: np.ndarray, version: int, played: Played) -> None:
        """Add one step: the observations, the actions taken on them by this version, and what came of it."""
        real = np.flatnonzero(played.real)
        at = self._length[real]
        fresh = real[at == 0]
        self._versions[fresh] = version
        self._frames[fresh, : self._history] = observations[fresh, :-1]
        self._frames[real, self._history + at] = observations[real, -1]
        self._actions[real, at] = actions[real]
        rewards = played.rewards[real]
        self._rewards[real, at] = (
            np.clip(rewards, -self._reward_clip, self._reward_clip) if self._reward_clip else rewards
        )
        self._length[real] += 1
        self._next_step[real] += 1
        self._terminated[real] = played.terminated[real]
        self._truncated[real] = played.truncated[real]

    def finish(self, values: np.ndarray) -> list[Experience]:
        """The experiences that are complete, given the values of the observations that the last step reached."""
        over = self._terminated | self._truncated
        complete = np.flatnonzero((self._length > 0) & (over | (self._length >= self._limit)))
        return [self._take(int(env), 0.0 if self._terminated[env] else float(values[env])) for env in complete]

    def _take(self, env: int, bootstrap: float) -> Experience:
        steps = int(self._length[env])
        self._length[env] = 0
        self._limit[env] = self._t_max
        self._terminated[env] = self._truncated[env] = False
        return Experience(
            agent=self._agent,
            env=self._first_env + env,
            first_step=int(self._next_step[env]) - steps,
            version=int(self._versions[env]),
            frames=self._frames[env, : self._history + steps].copy(),
            actions=self._actions[env, :steps].copy(),
            returns=n_step_returns(self._rewards[env, :steps], bootstrap, self._discount),
        )

    @property
    def unfinished(self) -> int:
        """Steps that are in no experience yet: lost if the agent leaves now."""
        return int(self._length.sum())
