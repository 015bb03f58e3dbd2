"""Batches of a replay memory: what was drawn, and the buffers that it is laid out in."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ga3c.games.spec import Discrete, EnvSpec

# Stacks that are laid out at a time on a CPU. They stay in its core's cache, and what the shuffle allocates for them is
# so little that the allocator keeps it. 2 MB at once came with page faults, which can take longer than all the rest.
PIECE = 32
ROW, REACHED, DISCOUNT, RETURN, ACTION = range(5)  # columns of a transition; an action can have several


class Batch(NamedTuple):
    """Transitions that were drawn. It lasts until its buffers have their next turn."""

    observations: Tensor  # (n, stack, *frame), in memory (n, *frame, stack)
    next_observations: Tensor  # n steps later; of no meaning where the discount is 0
    actions: Tensor  # int64, or float32 (n, …)
    returns: Tensor  # float32: rewards until then, discounted
    discounts: Tensor  # float32: of what follows; 0 where nothing does
    numbers: Tensor  # int64: of the transitions, in order of insertion

    def __len__(self) -> int:
        return len(self.returns)


class Buffers:
    """Where batches of one size are made. ``to`` is where they are needed, if that is not where the memory is."""

    def __init__(self, spec: EnvSpec, count: int, columns: int, device: torch.device, to: torch.device) -> None:
        self.spec = spec
        self.count = count
        self._device = device
        self._to = to
        self._copied: torch.cuda.Event | None = None
        stack, pinned = spec.stack, to.type == "cuda" and device.type == "cpu"
        integers = partial(torch.empty, dtype=torch.int32, device=device)
        self.numbers = torch.empty(count, dtype=torch.int64, device=device)
        self._slots = torch.empty_like(self.numbers)
        self._picked = integers((count, columns))
        self._columns = integers((columns, count))
        self._rows = integers((stack, 2 * count))  # of each frame of each stack, the newest last
        self._in_turn = integers((2 * count, stack))
        dtype: torch.dtype = getattr(torch, spec.dtype)
        piece = min(2 * count, PIECE) if device.type == "cpu" else 2 * count
        self._planes = torch.empty((piece, stack, *spec.frame), dtype=dtype, device=device)
        self._stacks = torch.empty((2 * count, *spec.frame, stack), dtype=dtype, device=device, pin_memory=pinned)
        floats = self._columns.view(torch.float32)
        if isinstance(spec.action, Discrete):
            self._actions = torch.empty(count, dtype=torch.int64, device=device)
            self._stored_actions = self._columns[ACTION]
        else:
            self._actions = torch.empty((count, *spec.action.shape), dtype=torch.float32, device=device)
            self._stored_actions = floats[ACTION:].t().view(count, *spec.action.shape)
        self._returns, self._discounts = floats[RETURN], floats[DISCOUNT]
        self._there: Tensor | None = None  # stacks on the other device
        if to != device:
            self._there = torch.empty_like(self._stacks, device=to)

    def gather(self, frames: Tensor, before: Tensor, transitions: Tensor) -> Batch:
        """The transitions with the numbers in the buffer, from the store."""
        if self._copied is not None:
            self._copied.synchronize()  # what was here is on its way no more
        count, stack = self.count, self.spec.stack
        torch.remainder(self.numbers, len(transitions), out=self._slots)
        torch.index_select(transitions, 0, self._slots, out=self._picked)
        self._columns.copy_(self._picked.t())
        rows = self._rows
        rows[-1].copy_(self._columns[ROW : REACHED + 1].view(-1))
        for place in range(stack - 1, 0, -1):
            torch.index_select(before, 0, rows[place], out=rows[place - 1])
        self._actions.copy_(self._stored_actions)
        stacks = self._lay_out(frames)
        rest = [self._actions, self._returns, self._discounts, self.numbers]
        if self._there is not None:
            self._there.copy_(stacks, non_blocking=True)
            stacks = self._there
            rest = [part.pin_memory().to(self._to, non_blocking=True) for part in rest]
            self._copied = torch.cuda.current_stream(self._to).record_event()
        stacks = stacks.movedim(-1, 1)
        return Batch(stacks[:count], stacks[count:], *rest)

    def _lay_out(self, frames: Tensor) -> Tensor:
        """The stacks, their frames turned to the end: (2 n, *frame, stack)."""
        rows, stack, planes, stacks = self._in_turn, self.spec.stack, self._planes, self._stacks
        if stack == 1:
            torch.index_select(frames, 0, self._rows[0], out=stacks[..., 0])
            return stacks
        rows.copy_(self._rows.t())
        piece = len(planes)
        for start in range(0, 2 * self.count, piece):
            some = rows[start : start + piece]
            torch.index_select(frames, 0, some.view(-1), out=planes[: len(some)].view(-1, *self.spec.frame))
            stacks[start : start + piece].copy_(_turn(planes[: len(some)]))
        return stacks


def _turn(planes: Tensor) -> Tensor:
    """(n, stack, *frame) as (n, *frame, stack).

    To torch that is a shuffle of channels, where each observation is one pixel. On a CPU it takes a tenth of the time
    that copies of single bytes take.
    """
    count, stack, *frame = planes.shape
    if planes.device.type != "cpu":
        return planes.movedim(1, -1)
    pixels = planes.view(1, count, 1, stack * math.prod(frame)).movedim(-1, 1)
    return functional.channel_shuffle(pixels, stack).movedim(1, -1).view(count, *frame, stack)
