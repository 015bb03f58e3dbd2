"""A replay memory on the device of the training: each frame once, stacks found by going back from row to row.

Two rings. Rows are frames of all lanes, as they came; transitions are a few numbers each, which name the rows that they
need. A transition is drawn from the ``flush`` after it is complete until ``capacity`` others have come, or until the
first of its frames has to make room, which happens earlier only in lanes that are much slower than the others.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.lanes import Lanes, Transitions
from ga3c.memory.replay_size import check_room, usual_block, usual_headroom

PIECE = 32  # observations that are laid out at a time on a CPU: they stay in its core's cache


class Batch(NamedTuple):
    """Transitions that were drawn. It lasts until the memory is asked for its next batch but ``buffers`` − 1."""

    observations: Tensor  # (n, stack, *frame), in memory (n, *frame, stack)
    next_observations: Tensor  # n steps later; of no meaning where the discount is 0
    actions: Tensor  # int64, or float32 (n, …)
    returns: Tensor  # float32: rewards until then, discounted
    discounts: Tensor  # float32: of what follows; 0 where nothing does
    numbers: Tensor  # int64: of the transitions, in order of insertion

    def __len__(self) -> int:
        return len(self.returns)


class Replay:
    """``add`` runs of steps, ``flush`` them now and then, ``sample`` transitions."""

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        *,
        n_step: int = 1,
        discount: float = 0.99,
        device: torch.device | str = "cpu",
        block: int | None = None,
        headroom: int | None = None,
        buffers: int = 1,
    ) -> None:
        """Room for ``capacity`` transitions and ``headroom`` more rows, of which up to a ``block`` wait for ``flush``.

        The rest of the headroom is for frames that are no step (the last ones of truncated episodes), and for what
        lanes have under way.
        """
        if capacity < 1:
            raise ValueError(f"a replay memory of {capacity} steps: it needs room for at least one")
        if not 1 <= n_step <= 255:
            raise ValueError(f"n_step is {n_step}: it can be 1 to 255")
        self.spec = spec
        self.capacity = capacity
        self.n_step = n_step
        self.device = torch.device(device)
        least = spec.stack + 1  # rows of a step: it, its history, and what it reached
        self.block = max(usual_block(spec, capacity) if block is None else block, least)
        self.headroom = max(usual_headroom(spec, capacity) if headroom is None else headroom, self.block + least)
        self._size = capacity + self.headroom  # rows
        self.lanes = Lanes(spec, n_step=n_step, discount=discount)
        check_room(self.bytes, self.host_bytes, self.device, capacity)
        self._allocate()
        self._lock = threading.Lock()  # of what is drawn from
        self._adding = threading.Lock()
        self._buffers: dict[int, list[_Buffers]] = {}
        self._turn = buffers
        self._next_row = 1
        self._rows = 0  # that can be used
        self._waiting: list[Transitions] = []
        self.inserted = 0  # transitions ever, so the number of the next one
        self.oldest = 0  # number of the oldest one that can be drawn
        self.dropped = 0  # transitions that never could, since their frames were gone or their lane ended
        self._holes: Tensor | None = None  # see ``_expire``
        self._holes_count = 0

    def _allocate(self) -> None:
        size, capacity, device, lanes = self._size, self.capacity, self.device, self.lanes
        dtype: torch.dtype = getattr(torch, self.spec.dtype)
        action = torch.int32 if isinstance(self.spec.action, Discrete) else torch.float32
        # Pages are taken from the system when they are first written to.
        self._frames = torch.empty((size + 1, *self.spec.frame), dtype=dtype, device=device)
        self._before = torch.empty(size + 1, dtype=torch.int32, device=device)
        self._frames[0] = 0
        self._before[0] = 0
        self._row = torch.empty(capacity, dtype=torch.int32, device=device)
        self._reached = torch.empty(capacity, dtype=torch.int32, device=device)
        self._actions = torch.empty((capacity, *lanes.action_shape), dtype=action, device=device)
        self._returns = torch.empty(capacity, dtype=torch.float32, device=device)
        self._spans = torch.empty(capacity, dtype=torch.uint8, device=device)
        self._discounts = torch.from_numpy(lanes.discounts).to(device)
        self._oldest_rows = np.empty(capacity, dtype=np.uint32)  # modulo 2³²
        # On a CPU rows are written where they stay; elsewhere they are copied there, a block at a time.
        self._staged_before = np.empty(self.block, dtype=np.int32)
        self._stage = None if device.type == "cpu" else _Stage(self.spec, self.block, self.device)

    @property
    def bytes(self) -> int:
        """Of the device: frames and all books."""
        action = 4 * int(np.prod(self.lanes.action_shape, dtype=np.int64))
        return (self._size + 1) * (self.spec.frame_bytes + 4) + self.capacity * (4 + 4 + action + 4 + 1)

    @property
    def host_bytes(self) -> int:
        """Of the host: books, and the blocks on their way where the memory is on another device."""
        blocks = 0 if self.device.type == "cpu" else 2 * self.block * self.spec.frame_bytes
        return 4 * self.capacity + 4 * self.block + blocks

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return self.inserted - self.oldest - self._holes_count

    def add(
        self,
        lane: Hashable,
        frames: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        *,
        terminated: bool,
        truncated: bool,
        reached: np.ndarray | None = None,
    ) -> None:
        """Steps of one environment that follow its last ones, within one episode.

        ``frames`` are stack − 1 of history, then one per step, and maybe one more that the last step reached, which a
        truncated run needs (or ``reached`` is given). History is stored where it is not there yet: of a lane that is
        new, and after an episode. What was added waits for ``flush``, which also comes by itself with each block.
        """
        steps, past = len(actions), self.spec.stack - 1
        if not steps:
            return
        if len(frames) not in (past + steps, past + steps + 1) or len(rewards) != steps:
            raise ValueError(f"{len(frames)} frames and {len(rewards)} rewards do not belong to {steps} steps")
        if not np.isfinite(rewards).all():
            raise ValueError("rewards that are not finite")
        if reached is None and len(frames) > past + steps:
            reached = frames[-1]
        if truncated and not terminated and reached is None:
            raise ValueError("a truncated run needs the frame that its last step reached")
        most = self.block - past - 1  # steps that a block has room for in any case
        with self._adding:
            for start in range(0, steps, most):
                end = min(start + most, steps)
                self._add(
                    lane,
                    frames[start : end + past],
                    actions[start:end],
                    rewards[start:end],
                    terminated and end == steps,
                    reached if truncated and not terminated and end == steps else None,
                )

    def _add(
        self,
        lane: Hashable,
        frames: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminated: bool,
        reached: np.ndarray | None,
    ) -> None:
        if self._next_row + len(frames) + 1 > self._rows + 1 + self.block:
            self._flush()
        kept_from = self._next_row - self._size // 2
        run = self.lanes.add(
            lane, self._next_row, kept_from, frames, actions, rewards, terminated=terminated, reached=reached
        )
        at = self._next_row - self._rows - 1
        self._staged_before[at : at + len(run.before)] = self._places(run.before)
        for piece in run.frames:
            self._write(piece)
        self._waiting.append(run.transitions)

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """Where rows are in the ring; row 0 has a place of its own."""
        return np.where(rows > 0, (rows - 1) % self._size + 1, 0)

    def _write(self, frames: np.ndarray) -> None:
        """The frames of the next rows."""
        if self._stage is not None:
            at = self._next_row - self._rows - 1
            self._stage.frames[at : at + len(frames)] = frames
        else:
            place = (self._next_row - 1) % self._size
            whole = self._frames.numpy()[1:]
            fitting = min(len(frames), self._size - place)
            whole[place : place + fitting] = frames[:fitting]
            whole[: len(frames) - fitting] = frames[fitting:]
        self._next_row += len(frames)

    def forget(self, lane: Hashable) -> None:
        """Nothing more comes of this lane, or what comes does not follow: its unfinished windows are dropped."""
        with self._adding:
            self.dropped += self.lanes.forget(lane)

    def flush(self) -> None:
        """From now on what was added can be drawn, and as much of the oldest cannot."""
        with self._adding:
            self._flush()

    def _flush(self) -> None:
        new, self._waiting = _joined(self._waiting, self.lanes), []
        start, rows = self._rows, self._next_row - 1
        alive = new.oldest > rows + self.block - self._size
        self.dropped += len(new) - int(np.count_nonzero(alive))
        new = Transitions(*(numbers[alive] for numbers in new))
        with self._lock:
            self._put_rows(start, rows - start)
            self._put_transitions(new)
            self._rows, self.inserted = rows, self.inserted + len(new)
            self._expire()

    def _put_rows(self, start: int, count: int) -> None:
        place = start % self._size
        fitting = min(count, self._size - place)
        for at, begin, end in ((0, place, place + fitting), (fitting, 0, count - fitting)):
            if begin < end:
                taken = slice(at, at + end - begin)
                self._before[1:][begin:end] = torch.from_numpy(self._staged_before[taken])
                if self._stage is not None:
                    self._frames[1:][begin:end].copy_(self._stage.tensor[taken])

    def _put_transitions(self, new: Transitions) -> None:
        new = Transitions(*(numbers[-self.capacity :] for numbers in new)) if len(new) > self.capacity else new
        numbers = self.inserted + np.arange(len(new))
        slots = torch.from_numpy(numbers % self.capacity).to(self.device)
        for store, values in (
            (self._row, self._places(new.rows).astype(np.int32)),
            (self._reached, self._places(new.reached).astype(np.int32)),
            (self._actions, new.actions),
            (self._returns, new.returns),
            (self._spans, new.spans),
        ):
            store[slots] = torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
        self._oldest_rows[numbers % self.capacity] = new.oldest.astype(np.uint32)

    def _expire(self) -> None:
        """Forget what is too old: beyond the capacity, or with a frame where the next block will be written.

        What is left is all numbers from ``oldest`` on but few holes: transitions of slow lanes, whose first frame came
        long before they were complete.
        """
        first = max(self.oldest, self.inserted - self.capacity)
        slots = np.arange(first, self.inserted) % self.capacity
        ages = np.uint32(self._rows % 2**32) - self._oldest_rows[slots]
        dead = ages >= np.uint32(self._size - self.block)
        living = np.flatnonzero(~dead)
        self.oldest = first + (int(living[0]) if len(living) else len(dead))
        holes = np.flatnonzero(dead[self.oldest - first :])
        self._holes_count = len(holes)
        # The i-th transition is number oldest + i + (how many of these are ≤ i).
        self._holes = torch.from_numpy(holes - np.arange(len(holes))).to(self.device) if len(holes) else None

    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """Transitions drawn with equal chances, with replacement; the generator is one of the memory's device."""
        with self._lock:
            if not len(self):
                raise ValueError("the replay memory is empty")
            buffers = self._next_buffers(count)
            drawn = buffers.numbers
            torch.randint(0, len(self), (count,), generator=generator, out=drawn)
            if self._holes is not None:
                drawn += torch.searchsorted(self._holes, drawn, right=True)
            drawn += self.oldest
            return self._gather(buffers)

    def fetch(self, numbers: Tensor) -> Batch:
        """The transitions with these numbers, all of which have to be there."""
        with self._lock:
            buffers = self._next_buffers(len(numbers))
            buffers.numbers.copy_(numbers)
            return self._gather(buffers)

    def _next_buffers(self, count: int) -> _Buffers:
        turns = self._buffers.setdefault(count, [])
        if len(turns) < self._turn:
            turns.append(_Buffers(self, count))
        else:
            turns.append(turns.pop(0))
        return turns[-1]

    def _gather(self, to: _Buffers) -> Batch:
        """The transitions with the numbers in the buffers."""
        slots, stack = to.slots, self.spec.stack
        torch.remainder(to.numbers, self.capacity, out=slots)
        rows = to.rows  # (stack, 2, n), the newest frame last
        torch.index_select(self._row, 0, slots, out=rows[-1, 0])
        torch.index_select(self._reached, 0, slots, out=rows[-1, 1])
        flat = rows.view(stack, -1)
        for place in range(stack - 1, 0, -1):
            torch.index_select(self._before, 0, flat[place], out=flat[place - 1])
        torch.index_select(self._actions, 0, slots, out=to.stored_actions)
        to.actions.copy_(to.stored_actions)
        torch.index_select(self._returns, 0, slots, out=to.returns)
        torch.index_select(self._discounts, 0, torch.index_select(self._spans, 0, slots).int(), out=to.discounts)
        self._lay_out(flat, to)
        return to.batch

    def _lay_out(self, rows: Tensor, to: _Buffers) -> None:
        """The stacks, frame by frame."""
        if self.spec.stack == 1:
            torch.index_select(self._frames, 0, rows[0], out=to.stacks[..., 0])
            return
        count = rows.shape[1]
        for start in range(0, count, len(to.frames)):
            end = min(start + len(to.frames), count)
            frames = to.frames[: end - start]
            for place in range(self.spec.stack):
                torch.index_select(self._frames, 0, rows[place, start:end], out=frames)
                to.stacks[start:end, ..., place].copy_(frames)


class _Buffers:
    """Where batches of one size are made."""

    def __init__(self, replay: Replay, count: int) -> None:
        spec, device = replay.spec, replay.device
        stores = (replay._actions, replay._returns)
        self.numbers = torch.empty(count, dtype=torch.int64, device=device)
        self.slots = torch.empty_like(self.numbers)
        self.rows = torch.empty((spec.stack, 2, count), dtype=torch.int32, device=device)
        piece = 2 * count if device.type != "cpu" else min(2 * count, PIECE)
        dtype = replay._frames.dtype
        self.frames = torch.empty((piece, *spec.frame), dtype=dtype, device=device)
        self.stacks = torch.empty((2 * count, *spec.frame, spec.stack), dtype=dtype, device=device)
        self.stored_actions = stores[0].new_empty((count, *stores[0].shape[1:]))
        integers = isinstance(spec.action, Discrete)
        self.actions = torch.empty_like(self.stored_actions, dtype=torch.int64 if integers else torch.float32)
        self.returns = stores[1].new_empty(count)
        self.discounts = stores[1].new_empty(count)
        stacks = self.stacks.movedim(-1, 1)
        self.batch = Batch(stacks[:count], stacks[count:], self.actions, self.returns, self.discounts, self.numbers)


class _Stage:
    """A block of frames in the host's memory, on its way to the device."""

    def __init__(self, spec: EnvSpec, block: int, device: torch.device) -> None:
        shape, dtype = (block, *spec.frame), getattr(torch, spec.dtype)
        self.tensor = torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")
        self.frames = self.tensor.numpy()


def _joined(waiting: list[Transitions], lanes: Lanes) -> Transitions:
    if not waiting:
        none = np.zeros(0, dtype=np.int64)
        actions = np.zeros((0, *lanes.action_shape), dtype=lanes.action_dtype)
        return Transitions(none, none, none, actions, np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.uint8))
    return Transitions(*(np.concatenate(numbers) for numbers in zip(*waiting, strict=True)))
