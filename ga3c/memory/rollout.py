"""Collects steps of K environments into experiences of at most ``t_max`` steps, as the rule wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ga3c.games.spec import EnvSpec, Played
from ga3c.memory.experience import Experience, Schema, finite


class StepsNotFinite(RuntimeError):
    """Steps of which no experience can be made."""


class Steps(NamedTuple):
    """Steps in a row of one environment, before they are an experience.

    Plain lists: an agent with one environment takes a step at a time, where an operation on an array of one number
    costs more than a whole step here.
    """

    actions: list[Any]
    rewards: list[float]  # clipped
    kept: dict[str, list[Any]]  # what the rule keeps of each step beside these
    terminated: bool


class Finisher(Protocol):
    """The part of a rule that makes experiences."""

    schema: Schema  # what experiences consist of
    bootstraps: bool  # ``finish`` needs outputs; else an experience is finished with its last step

    def finish(self, steps: Steps, outputs: np.ndarray | None) -> dict[str, np.ndarray]:
        """The fields of the experience, given the outputs for the observation that its last step reached."""


class Track:
    """The steps under way of one environment."""

    def __init__(self, spec: EnvSpec, number: int, t_max: int, limit: int, rule: Finisher) -> None:
        self.number = number
        self.limit = limit  # steps that complete the experience under way
        self.over = False  # the episode ended with the last step
        self.terminated = False
        self._t_max = t_max
        self._rule = rule
        self._reached = rule.schema.reached
        self._history = spec.stack - 1
        self._version = 0
        self._next_step = 0
        self._frames = np.zeros((self._history + t_max + self._reached, *spec.frame), dtype=spec.dtype)
        self._actions: list[Any] = []
        self._rewards: list[float] = []
        self._kept: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._actions)

    def add(self, observation: np.ndarray, action: Any, version: int, reward: float) -> None:
        at = len(self._actions)
        if not at:
            self._version = version
            self._frames[: self._history] = observation[:-1]
        self._frames[self._history + at] = observation[-1]
        self._actions.append(action)
        self._rewards.append(reward)

    def add_reached(self, observation: np.ndarray) -> None:
        """What the step that was added reached."""
        self._frames[self._history + len(self._actions)] = observation[-1]

    def keep(self, name: str, value: Any) -> None:
        """What the rule wants to know of the step that was added."""
        self._kept.setdefault(name, []).append(value)

    @property
    def _length(self) -> int:
        """Frames of the experience under way."""
        return self._history + len(self._actions) + self._reached

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
            "kept": {name: list(values) for name, values in self._kept.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        self.limit, self.over, self.terminated = state["limit"], state["over"], state["terminated"]
        self._version, self._next_step = state["version"], state["next_step"]
        self._frames[: len(state["frames"])] = state["frames"]
        self._actions, self._rewards = list(state["actions"]), list(state["rewards"])
        chances = state.get("chances")  # of a checkpoint of format 4
        kept = state.get("kept", {"chances": chances} if chances else {})
        self._kept = {name: list(values) for name, values in kept.items()}

    def take(self, agent: int, outputs: np.ndarray | None) -> Experience:
        """The experience, with the outputs for the observation that its last step reached, if the rule needs them."""
        steps = Steps(self._actions, self._rewards, self._kept, self.terminated)
        fields = self._rule.finish(steps, outputs)
        for name, numbers in fields.items():
            if not finite(numbers):  # here it can still be said where they come from
                raise StepsNotFinite(f"{name} that are not finite")
        experience = Experience(
            agent=agent,
            env=self.number,
            first_step=self._next_step,
            version=self._version,
            frames=self._frames[: self._length].copy(),
            fields=fields,
            terminated=self.terminated,
            truncated=self.over and not self.terminated,
        )
        self._next_step += experience.steps
        self._actions, self._rewards, self._kept = [], [], {}
        self.limit = self._t_max
        return experience


class Rollout:
    """The steps under way of K environments.

    ``record`` takes what was played; ``finish`` takes the outputs for the observations reached, which end the
    experiences that are complete. They come with the next prediction, so nothing is asked twice.
    """

    def __init__(
        self,
        spec: EnvSpec,
        count: int,
        rule: Finisher,
        *,
        t_max: int,
        reward_clip: float,
        agent: int = 0,
        first_env: int = 0,
        spread: bool = False,
    ) -> None:
        """With ``spread``, the first experiences have all lengths."""
        self._clip = reward_clip or math.inf
        self._agent = agent
        self._reached = rule.schema.reached
        # Environments that play in step would also end their experiences in step: bursts that fill the training queue
        # and then leave it empty. First experiences of all lengths spread them evenly from there on.
        self._tracks = [
            Track(spec, first_env + env, t_max, limit=1 + env * t_max // count if spread else t_max, rule=rule)
            for env in range(count)
        ]

    def record(
        self, observations: np.ndarray, actions: np.ndarray, kept: Mapping[str, list[Any]], version: int, played: Played
    ) -> None:
        """Add one step: the observations, the actions taken on them by this version, what the rule keeps of each, and
        what came of it."""
        clip, reals = self._clip, played.real.tolist()
        for track, observation, action, reward, terminated, truncated, real in zip(
            self._tracks,
            observations,
            actions.tolist(),
            played.rewards.tolist(),
            played.terminated.tolist(),
            played.truncated.tolist(),
            reals,
            strict=True,
        ):
            if real:
                # Not by min and max: these would hide a reward that is no number.
                if reward > clip:
                    reward = clip
                elif reward < -clip:
                    reward = -clip
                track.add(observation, action, version, reward)
                track.terminated = terminated
                track.over = terminated or truncated
        if self._reached:
            for track, reached, real in zip(self._tracks, played.observations, reals, strict=True):
                if real:
                    track.add_reached(reached)
        for name, values in kept.items():
            for track, value, real in zip(self._tracks, values, reals, strict=True):
                if real:
                    track.keep(name, value)

    def finish(self, outputs: np.ndarray | None = None) -> tuple[Experience, ...]:
        """The experiences that are complete, given the outputs for the observations that the last step reached."""
        if outputs is None:
            return tuple([track.take(self._agent, None) for track in self._tracks if track.complete])
        return tuple(
            [track.take(self._agent, own) for track, own in zip(self._tracks, outputs, strict=True) if track.complete]
        )

    def state(self) -> list[dict[str, Any]]:
        return [track.state() for track in self._tracks]

    def load(self, states: list[dict[str, Any]], cut: list[int]) -> None:
        """Go on from there; episodes that were ``cut`` are learnt as truncated ones are."""
        for track, state in zip(self._tracks, states, strict=True):
            track.load(state)
        for env in cut:
            self._tracks[env].over, self._tracks[env].terminated = True, False
