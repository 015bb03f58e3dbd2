"""A replay memory on the device of the training: each frame once, stacks found by going back from row to row.

Two rings. Rows are frames of all lanes, as they came; transitions are a few numbers each, which name the rows that they
need. A transition is drawn from the ``flush`` after it is complete until ``capacity`` others have come, or until the
first of its frames has to make room, which happens earlier only in lanes that are much slower than the others.

Nothing that can be drawn is ever being written: of the rows, a block is always kept free for what comes next.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ga3c.games.spec import EnvSpec
from ga3c.memory.drawn import ACTION, DISCOUNT, REACHED, RETURN, ROW, Batch, Buffers
from ga3c.memory.lanes import Lanes, Transitions, join
from ga3c.memory.replay_size import check_room, size_of
from ga3c.memory.turns import take_turns


@dataclass(frozen=True)
class Snapshot:
    """A memory at one moment but for its frames: numbers for JSON, and arrays."""

    state: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def first_row(self) -> int:
        return int(self.state["first_row"])

    @property
    def last_row(self) -> int:
        return int(self.state["rows"])


class Replay:
    """``add`` runs of steps, ``flush`` them now and then, ``sample`` transitions; several threads may do so."""

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        *,
        n_step: int = 1,
        discount: float = 0.99,
        device: torch.device | str = "cpu",
        to: torch.device | str | None = None,
        block: int | None = None,
        headroom: int | None = None,
        buffers: int = 1,
        staged: bool | None = None,
    ) -> None:
        """Room for ``capacity`` transitions and ``headroom`` more rows, of which a ``block`` is kept free.

        The rest of the headroom is for frames that are no step (the last ones of truncated episodes), and for what
        lanes have under way. Batches are given on the device ``to``, where it is not the memory's own; ``buffers`` of
        each size take turns. With ``staged``, rows wait in a block of the host's memory until they are flushed; that
        is how it is unless the device is the host's own CPU.
        """
        if capacity < 1:
            raise ValueError(f"a replay memory of {capacity} steps: it needs room for at least one")
        if not 1 <= n_step <= 255:
            raise ValueError(f"n_step is {n_step}: it can be 1 to 255")
        self.spec = spec
        self.capacity = capacity
        self.n_step = n_step
        self.device = torch.device(device)
        self._staged = self.device.type != "cpu" if staged is None else staged
        size = size_of(spec, capacity, block=block, headroom=headroom, staged=self._staged)
        check_room(size, self.device)
        self.block, self.headroom, self.bytes, self.host_bytes = size.block, size.headroom, size.bytes, size.host_bytes
        self.lanes = Lanes(spec, n_step=n_step, discount=discount)
        self._size = capacity + self.headroom  # rows, but for row 0
        self._columns = size.columns
        # Pages are taken from the system when they are first written to.
        dtype: torch.dtype = getattr(torch, spec.dtype)
        self._frames = torch.empty((self._size + 1, *spec.frame), dtype=dtype, device=self.device)
        self._before = torch.empty(self._size + 1, dtype=torch.int32, device=self.device)  # the row before each
        self._frames[0], self._before[0] = 0, 0
        self._transitions = torch.empty((capacity, self._columns), dtype=torch.int32, device=self.device)
        self._oldest_rows = np.empty(capacity, dtype=np.uint32)  # the first that each transition needs, modulo 2³²
        self._stage = self._new_stage()
        self._rows = 0  # that can be drawn from
        self._next_row = 1
        self._before_new: list[np.ndarray] = []  # of the rows since then
        self._new: list[Transitions] = []
        self.inserted = 0  # transitions ever, so the number of the next one
        self.oldest = 0  # number of the oldest one that can be drawn
        self.dropped = 0  # steps that never were, since their frames were gone or their lane was
        self.holes = np.zeros(0, dtype=np.int64)  # numbers from ``oldest`` on that cannot be drawn any more
        self._jumps: Tensor | None = None  # at which draws these are passed over
        self._to = self.device if to is None else torch.device(to)
        self._buffers: dict[int, list[Buffers]] = {}
        self._buffers_each = buffers
        self._adding = threading.Condition()
        self._unsaved: int | None = None  # the first row that a file still waits for
        self._turns = take_turns(self.device)

    def _new_stage(self) -> Tensor | None:
        if not self._staged:
            return None
        # On CUDA it goes back to a pool when it is dropped, and is not given out before its copy is done.
        pinned = self.device.type == "cuda"
        return torch.empty((self.block, *self.spec.frame), dtype=getattr(torch, self.spec.dtype), pin_memory=pinned)

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return self.inserted - self.oldest - len(self.holes)

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
        cut = truncated and not terminated
        if reached is None and len(frames) > past + steps:
            reached = frames[-1]
        if cut and reached is None:
            raise ValueError("a truncated run needs the frame that its last step reached")
        most = self.block - past - 1  # steps that a block has room for in any case
        with self._adding:
            for start in range(0, steps, most):
                end = min(start + most, steps)
                if self._next_row + past + end - start > self._rows + self.block:
                    self._flush()
                # While a file is written, what is not in it must not be overwritten.
                self._wait_for_file(self._next_row + past + end - start)
                run = self.lanes.add(
                    lane,
                    self._next_row,
                    self._next_row - self._size // 2,  # history that is older is better stored again
                    frames[start : end + past],
                    actions[start:end],
                    rewards[start:end],
                    terminated=terminated and end == steps,
                    reached=reached if cut and end == steps else None,
                )
                for piece in run.frames:
                    self._write(piece)
                self._before_new.append(run.before)
                self._new.append(run.transitions)

    def _wait_for_file(self, row: int) -> None:
        """Until all is written that the rows up to this one will overwrite."""
        self._adding.wait_for(lambda: self._unsaved is None or row - self._size < self._unsaved)

    def _write(self, frames: np.ndarray) -> None:
        """The frames of the next rows."""
        if self._stage is None:
            place, store = (self._next_row - 1) % self._size, self._frames.numpy()[1:]
        else:
            place, store = self._next_row - 1 - self._rows, self._stage.numpy()
        fitting = min(len(frames), len(store) - place)
        store[place : place + fitting] = frames[:fitting]
        store[: len(frames) - fitting] = frames[fitting:]
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
        first, rows = self._rows, self._next_row - 1
        new, before = join(self._new, self.lanes), np.concatenate([np.zeros(0, dtype=np.int64), *self._before_new])
        alive = new.oldest > rows + self.block - self._size
        self.dropped += len(new) - int(np.count_nonzero(alive))
        new = Transitions(*(numbers[alive] for numbers in new))
        with self._turns.writing():
            self._put(self._before[1:], first, self._places(before).astype(np.int32))
            if self._stage is not None and rows > first:
                self._put(self._frames[1:], first, self._stage[: rows - first])
                self._stage = self._new_stage()
            latest = Transitions(*(numbers[-self.capacity :] for numbers in new))
            start = self.inserted + len(new) - len(latest)
            self._put(self._transitions, start, self._table(latest))
            self._oldest_rows[(start + np.arange(len(latest))) % self.capacity] = latest.oldest % 2**32
            self._rows, self.inserted = rows, self.inserted + len(new)
            self._expire()
        self._new, self._before_new = [], []

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """Where rows are in the store; row 0 has a place of its own."""
        return np.where(rows > 0, (rows - 1) % self._size + 1, 0)

    def _table(self, new: Transitions) -> np.ndarray:
        """Transitions as they are stored."""
        table = np.empty((len(new), self._columns), dtype=np.int32)
        floats = table.view(np.float32)
        table[:, ROW], table[:, REACHED] = self._places(new.rows), self._places(new.reached)
        floats[:, DISCOUNT], floats[:, RETURN] = self.lanes.discounts[new.spans], new.returns
        table[:, ACTION:] = new.actions.reshape(len(new), self._columns - ACTION).view(np.int32)
        return table

    def _put(self, store: Tensor, first: int, values: np.ndarray | Tensor) -> None:
        """Write to a ring, from the place of this number on."""
        tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
        if self.device.type == "cuda" and not tensor.is_pinned():
            tensor = tensor.pin_memory()
        place = first % len(store)
        fitting = min(len(tensor), len(store) - place)
        store[place : place + fitting].copy_(tensor[:fitting], non_blocking=True)
        if fitting < len(tensor):
            store[: len(tensor) - fitting].copy_(tensor[fitting:], non_blocking=True)

    def _expire(self) -> None:
        """Forget what is too old: beyond the capacity, or with a frame where the next block will be written.

        What is left is all numbers from ``oldest`` on but few holes: transitions of slow lanes, whose first frame came
        long before they were complete.
        """
        first = max(self.oldest, self.inserted - self.capacity)
        place, count = first % self.capacity, self.inserted - first
        rows = np.concatenate(
            [self._oldest_rows[place : place + count], self._oldest_rows[: max(place + count - self.capacity, 0)]]
        )
        ages = np.uint32(self._rows % 2**32) - rows
        dead = ages >= self._size - self.block
        living = int(np.argmin(dead)) if count else 0  # the first
        if count and dead[living]:
            living = count
        self.oldest = first + living
        holes = np.flatnonzero(dead[living:])
        self.holes = self.oldest + holes
        self._jumps = None
        if len(holes):
            # The i-th transition has the number oldest + i + (how many of these are ≤ i).
            jumps = torch.from_numpy(holes - np.arange(len(holes)))
            self._jumps = jumps.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else jumps

    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """Transitions drawn with equal chances, with replacement; the generator is one of the memory's device."""
        with self._turns.reading():
            if not len(self):
                raise ValueError("nothing can be drawn: the replay memory is empty")
            buffers = self._next_buffers(count)
            if self._jumps is None:
                torch.randint(self.oldest, self.inserted, (count,), generator=generator, out=buffers.numbers)
            else:
                torch.randint(0, len(self), (count,), generator=generator, out=buffers.numbers)
                buffers.numbers += torch.searchsorted(self._jumps, buffers.numbers, right=True) + self.oldest
            return buffers.gather(self._frames, self._before, self._transitions)

    def fetch(self, numbers: Tensor) -> Batch:
        """The transitions with these numbers, which can be drawn."""
        with self._turns.reading():
            buffers = self._next_buffers(len(numbers))
            buffers.numbers.copy_(numbers)
            return buffers.gather(self._frames, self._before, self._transitions)

    def _next_buffers(self, count: int) -> Buffers:
        turns = self._buffers.setdefault(count, [])
        if len(turns) < self._buffers_each:
            turns.append(Buffers(self.spec, count, self._columns, self.device, self._to))
        else:
            turns.append(turns.pop(0))
        return turns[-1]

    @property
    def kind(self) -> dict[str, Any]:
        """What a file has to have in common with the memory that goes on from it."""
        return {
            "observation": list(self.spec.observation),
            "dtype": self.spec.dtype,
            "action": [str(self.lanes.action_dtype), *self.lanes.action_shape],
            "capacity": self.capacity,
            "headroom": self.headroom,
            "block": self.block,
            "n_step": self.n_step,
            "discounts": self.lanes.discounts.tolist(),
        }

    @property
    def rows_kept(self) -> int:
        """Rows of which a transition can be made: all but the block that is kept free."""
        return self._size - self.block

    @contextlib.contextmanager
    def saving(self) -> Iterator[Snapshot]:
        """All but the frames, which ``take_rows`` gives, in order; until the end none of them is overwritten before."""
        with self._adding:
            self._adding.wait_for(lambda: self._unsaved is None)
            self._flush()
            lanes, arrays = self.lanes.state()
            first = max(1, self._rows - self.rows_kept + 1)
            names = ("inserted", "oldest", "dropped")
            state = {name: getattr(self, name) for name in names} | {"lanes": lanes, "first_row": first}
            slots = np.arange(self.oldest, self.inserted) % self.capacity
            with self._turns.reading():
                table = self._transitions.cpu().numpy()[slots]
                before = self._before.cpu().numpy()[self._places(np.arange(first, self._rows + 1))]
            arrays |= {"transitions": table, "oldest_rows": self._oldest_rows[slots], "before": before}
            snapshot = Snapshot(state | {"rows": self._rows}, arrays)
            self._unsaved = first
        try:
            yield snapshot
        finally:
            self._release(None)

    def _release(self, unsaved: int | None) -> None:
        with self._adding:
            self._unsaved = unsaved
            self._adding.notify_all()

    def take_rows(self, first: int, count: int) -> np.ndarray:
        """The frames of the next rows of the file; from then on they may be overwritten."""
        places = torch.from_numpy(self._places(np.arange(first, first + count))).to(self.device)
        with self._turns.reading():
            frames = self._frames[places].cpu().numpy()
        self._release(first + count)
        return frames

    def restore(self, snapshot: Snapshot, frames: Iterable[np.ndarray]) -> None:
        """Go on from there; the memory has to be new."""
        state, arrays, first = snapshot.state, snapshot.arrays, snapshot.first_row
        self.inserted, self.oldest, self.dropped = state["inserted"], state["oldest"], state["dropped"]
        with self._adding, self._turns.writing():
            place = first - 1
            for piece in frames:
                self._put(self._frames[1:], place, piece)
                place += len(piece)
            self._put(self._before[1:], first - 1, arrays["before"])
            self._put(self._transitions, self.oldest, arrays["transitions"])
            self._oldest_rows[np.arange(self.oldest, self.inserted) % self.capacity] = arrays["oldest_rows"]
            self._rows, self._next_row = snapshot.last_row, snapshot.last_row + 1
            self.lanes.load(state["lanes"], arrays)
            self._expire()
