"""Steps of many environments, each in its own order, as rows and transitions of one store.

A lane is one environment of one agent. Its steps come in runs, and the runs of all lanes come mixed. A row is one
frame, numbered from 1 in order of arrival; row 0 is the zero frame before the first of an episode. Each row knows the
row before it in its lane, so a stack is found by going back.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ga3c.games.spec import Discrete, EnvSpec

ZERO = 0  # the row that is no frame


class Transitions(NamedTuple):
    """What is learnt from, each complete: an action, what came of it within n steps, and where that led."""

    rows: np.ndarray  # (n,) int64: of the last frame of the observation
    reached: np.ndarray  # (n,) int64: of the observation at the end of the window; 0 where the episode terminated in it
    oldest: np.ndarray  # (n,) int64: of the first frame that it needs
    actions: np.ndarray
    returns: np.ndarray  # (n,) float32: discounted sum of the window's rewards
    spans: np.ndarray  # (n,) uint8: steps of the window, so the discount is γ^span; 0: nothing follows

    def __len__(self) -> int:
        return len(self.rows)


class Run(NamedTuple):
    """What a run of steps adds: frames with the rows before them, and the transitions that it completes."""

    frames: list[np.ndarray]  # (…, *frame) each, in order
    before: np.ndarray  # (rows,) int64: the row before each in its lane
    transitions: Transitions


@dataclass
class Lane:
    """An environment, as far as it was heard of."""

    history: np.ndarray  # (stack − 1,) int64: rows of its last frames
    rows: np.ndarray  # (pending,) int64: steps whose window is not complete
    oldest: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    last: np.ndarray | None = None  # its last frames, if its episode is over

    @classmethod
    def new(cls, action_dtype: np.dtype[Any], action_shape: tuple[int, ...]) -> Lane:
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, np.zeros((0, *action_shape), dtype=action_dtype), np.zeros(0))


class Lanes:
    """Windows of n steps within each lane, and the rows of its history."""

    def __init__(self, spec: EnvSpec, *, n_step: int, discount: float) -> None:
        self._history = spec.stack - 1
        self._n = n_step
        action = spec.action
        self.action_dtype = np.dtype(np.int32 if isinstance(action, Discrete) else np.float32)
        self.action_shape = () if isinstance(action, Discrete) else action.shape
        self._gammas = float(discount) ** np.arange(n_step + 1)
        self._lanes: dict[Hashable, Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def discounts(self) -> np.ndarray:
        """By the span of a transition; nothing follows where that is 0."""
        discounts = self._gammas.astype(np.float32)
        discounts[0] = 0.0
        return discounts

    @property
    def pending(self) -> int:
        """Steps whose windows are not complete."""
        return sum(len(lane.rows) for lane in self._lanes.values())

    def forget(self, key: Hashable) -> int:
        """The lane ends without an end of its episode; how many steps will never be transitions."""
        lane = self._lanes.pop(key, None)
        return 0 if lane is None else len(lane.rows)

    def state(self) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
        """What a file keeps of each lane, and arrays that all of them have parts of."""
        lanes = list(self._lanes.values())
        none = Lane.new(self.action_dtype, self.action_shape)
        arrays = {
            name: np.concatenate([getattr(none, name), *(getattr(lane, name) for lane in lanes)])
            for name in ("history", "rows", "oldest", "actions", "rewards")
        }
        over = [lane.last for lane in lanes if lane.last is not None]
        if over:
            arrays["last"] = np.concatenate(over)
        known = [
            {"key": key, "past": len(lane.history), "pending": len(lane.rows), "over": lane.last is not None}
            for key, lane in self._lanes.items()
        ]
        return known, arrays

    def load(self, known: list[dict[str, Any]], arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from there."""
        past = self._history
        at = dict.fromkeys(arrays, 0)

        def take(name: str, count: int) -> np.ndarray:
            at[name] += count
            return arrays[name][at[name] - count : at[name]].copy()

        for lane in known:
            count = lane["pending"]
            self._lanes[_as_key(lane["key"])] = Lane(
                take("history", lane["past"]),
                take("rows", count),
                take("oldest", count),
                take("actions", count),
                take("rewards", count),
                take("last", past) if lane["over"] else None,
            )

    def add(
        self,
        key: Hashable,
        next_row: int,
        kept_from: int,
        frames: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        *,
        terminated: bool,
        reached: np.ndarray | None,
    ) -> Run:
        """Steps that follow the last ones of this lane; the row that comes next is ``next_row``, and rows before
        ``kept_from`` cannot be relied on any more. With ``reached``, the episode is truncated."""
        past, count = self._history, len(actions)
        lane = self._lanes.get(key)
        fresh = frames[:0]  # history that is not in the store
        if lane is None:
            lane = self._lanes[key] = Lane.new(self.action_dtype, self.action_shape)
        if self._goes_on(lane, frames[:past], kept_from):
            history = lane.history
        else:
            zeros = _leading_zeros(frames[:past])
            fresh = frames[zeros:past]
            history = np.zeros(past, dtype=np.int64)
            history[zeros:] = next_row + np.arange(len(fresh))
        first = next_row + len(fresh)
        chain = np.concatenate([history, first + np.arange(count)])
        missing = int(np.count_nonzero(history == ZERO))
        oldest = chain[np.maximum(np.arange(count), missing)]  # zero frames are the first ones
        before = np.concatenate([[ZERO], chain[:-1]])[past - len(fresh) :]
        pieces = [fresh, frames[past : past + count]]
        end = ZERO
        if reached is not None:
            end = first + count
            pieces.append(reached[None])
            before = np.append(before, chain[-1])
        over = terminated or reached is not None
        lane.rows = np.concatenate([lane.rows, chain[past:]])
        lane.oldest = np.concatenate([lane.oldest, oldest])
        lane.actions = np.concatenate([lane.actions, np.asarray(actions, dtype=self.action_dtype)])
        lane.rewards = np.concatenate([lane.rewards, np.asarray(rewards, dtype=np.float64)])
        lane.history = chain[len(chain) - past :]
        lane.last = frames[count : count + past].copy() if over else None
        return Run(pieces, before, self._complete(lane, over, end))

    def _goes_on(self, lane: Lane, history: np.ndarray, kept_from: int) -> bool:
        """Whether the frames of the history are rows already."""
        if len(lane.history) != self._history:
            return False  # a new lane
        rows = lane.history[lane.history != ZERO]
        if len(rows) and rows[0] < kept_from:
            return False
        return lane.last is None or np.array_equal(lane.last, history)  # a lost life ends an episode but not the game

    def _complete(self, lane: Lane, over: bool, end: int) -> Transitions:
        """The transitions whose windows are complete; they leave the lane."""
        steps, n = len(lane.rows), self._n
        count = steps if over else max(steps - n, 0)
        returns = np.zeros(count)
        for place in range(min(n, steps)):
            rewards = lane.rewards[place : place + count]
            returns[: len(rewards)] += self._gammas[place] * rewards
        reached = np.full(count, end, dtype=np.int64)
        spans = np.minimum(n, steps - np.arange(count)).astype(np.uint8)
        whole = min(count, max(steps - n, 0))  # windows that end at a step
        reached[:whole] = lane.rows[n : n + whole]
        if end == ZERO:
            spans[whole:] = 0
        done = Transitions(
            lane.rows[:count], reached, lane.oldest[:count], lane.actions[:count], returns.astype(np.float32), spans
        )
        lane.rows, lane.oldest = lane.rows[count:], lane.oldest[count:]
        lane.actions, lane.rewards = lane.actions[count:], lane.rewards[count:]
        return done


def _leading_zeros(frames: np.ndarray) -> int:
    """Zero frames before the first other one."""
    return next((place for place, frame in enumerate(frames) if frame.any()), len(frames))


def _as_key(key: Any) -> Hashable:
    """A key as it was before JSON made a list of it."""
    return tuple(_as_key(part) for part in key) if isinstance(key, list) else key


def join(some: list[Transitions], lanes: Lanes) -> Transitions:
    none = np.zeros(0, dtype=np.int64)
    actions = np.zeros((0, *lanes.action_shape), dtype=lanes.action_dtype)
    nothing = Transitions(none, none, none, actions, none.astype(np.float32), none.astype(np.uint8))
    return Transitions(*(np.concatenate(numbers) for numbers in zip(nothing, *some, strict=True)))
