"""Random play of many lanes, what each observation and transition of it is, and how a memory is to show it."""

from dataclasses import dataclass, field

import numpy as np

from ga3c.games.spec import Discrete, EnvSpec

SPEC = EnvSpec(frame=(3, 2), stack=4, dtype="uint8", action=Discrete(2**31 - 1))  # an action is the step's own number


@dataclass
class Step:
    observation: np.ndarray
    action: int
    reward: float


@dataclass
class Episode:
    """A whole one, remembered in the plainest way."""

    steps: list = field(default_factory=list)
    last: np.ndarray | None = None  # the observation that the last step reached, once it is over
    terminated: bool = False

    def transitions(self, n, discount):
        """By action: the observation, the n-step return, the discount of what follows, and its observation."""
        for i, step in enumerate(self.steps):
            window = self.steps[i : i + n]
            returns = sum(discount**j * later.reward for j, later in enumerate(window))
            if i + n < len(self.steps):
                yield step.action, (step.observation, returns, discount**n, self.steps[i + n].observation)
            elif self.last is not None:
                follows = 0.0 if self.terminated else discount ** len(window)
                yield step.action, (step.observation, returns, follows, self.last)


class Player:
    """One lane: plays on by itself, with random frames, rewards and ends."""

    def __init__(self, key, rng, numbers, spec=SPEC, end=0.05):
        self.key, self.rng, self.numbers, self.spec, self.end = key, rng, numbers, spec, end
        self.episodes = [Episode()]
        self.observation = self._push(np.zeros(spec.observation, dtype=spec.dtype))

    def _push(self, stack):
        frame = self.rng.integers(1, 256, (1, *self.spec.frame)).astype(self.spec.dtype)
        return np.concatenate([stack[1:], frame])

    def run(self, most):
        """Up to so many steps, as ``Replay.add`` wants them."""
        episode = self.episodes[-1]
        frames = list(self.observation[:-1])
        actions, rewards = [], []
        over, terminated, life = False, False, False
        while len(actions) < most and not over:
            action, reward = next(self.numbers), float(self.rng.integers(-1, 2))
            episode.steps.append(Step(self.observation, action, reward))
            frames.append(self.observation[-1])
            actions.append(action)
            rewards.append(reward)
            self.observation = self._push(self.observation)
            chance = self.rng.random()
            over = chance < self.end
            terminated = chance < self.end * 0.7
            life = chance < self.end * 0.3  # the episode terminates, but frames go on
        reached = self.observation[-1]
        if over:
            episode.last, episode.terminated = self.observation, terminated
            self.episodes.append(Episode())
            if not life:
                self.observation = self._push(np.zeros(self.spec.observation, dtype=self.spec.dtype))
        what = {"terminated": terminated, "truncated": over and not terminated}
        return (self.key, np.stack([*frames, reached]), np.array(actions), np.array(rewards, dtype=np.float32)), what

    def transitions(self, n, discount):
        return {key: value for episode in self.episodes for key, value in episode.transitions(n, discount)}


def all_numbers(replay):
    """The numbers of all transitions that can be drawn, oldest first."""
    return np.setdiff1d(np.arange(replay.oldest, replay.inserted), replay.holes)
