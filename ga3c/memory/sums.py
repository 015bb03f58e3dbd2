"""Weights of many slots, of which one is drawn by its share of their sum: on the CPU a tree, elsewhere two levels.

Every sum is float64 and made anew from its parts. With differences that are added up, or in float32, sums drift away
from what they stand for: slots of weight 0 are drawn, or others never.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

BITS = 3
FAN = 1 << BITS  # nodes of the tree below one
TOP = 4_096  # nodes that have none above them, at most
BLOCK = 1_024  # slots of a block of the two levels


class Sums(Protocol):
    weights: Tensor  # (slots,) float64, to be read only

    @property
    def total(self) -> Tensor:
        """Of all weights. What is to be drawn from a total of 0 has no meaning, and a tree says so."""

    def set(self, slots: Tensor, weights: Tensor, valid: Tensor) -> None:
        """New weights, where ``valid``; of one slot twice, the later."""

    def set_range(self, start: int, weights: Tensor) -> None:
        """New weights of slots in a row."""

    def find(self, shares: Tensor) -> Tensor:
        """The slots at these shares, from 0 on and below 1, of the total; their weights are never 0."""

    def rebuild(self) -> None:
        """Make all sums anew, after ``weights`` were written."""


class SumTree:
    """Each node is the sum of eight below it; leaves are the weights, and of the highest nodes there are many.

    Steps of three bits, and half of the bits in one bisection: few operations on whole batches, which is what numpy is
    quick at.
    """

    def __init__(self, size: int) -> None:
        self._levels: list[np.ndarray] = []  # (nodes / 8, 8) each but the last, leaves first
        nodes = size
        while nodes > TOP:
            groups = -(-nodes // FAN)
            self._levels.append(np.zeros((groups, FAN)))
            nodes = groups
        self._top = np.zeros(nodes)
        self._ends = np.zeros(nodes + 1)
        self._flat = [level.reshape(-1) for level in self._levels] + [self._top]
        self.weights = torch.from_numpy(self._flat[0][:size])

    @property
    def total(self) -> Tensor:
        return torch.from_numpy(self._top).sum()

    def set(self, slots: Tensor, weights: Tensor, valid: Tensor) -> None:
        at, values = slots.numpy(), weights.numpy()
        if not valid.all():
            known = valid.numpy()
            at, values = at[known], values[known]
        self._flat[0][at] = values  # of equal slots the last one stays
        for below, above in zip(self._levels, self._flat[1:], strict=True):
            at = at >> BITS
            above[at] = below.take(at, axis=0).sum(axis=1)  # a node that stands here twice gets the same sum twice

    def set_range(self, start: int, weights: Tensor) -> None:
        end = start + len(weights)
        self._flat[0][start:end] = weights.numpy()
        for below, above in zip(self._levels, self._flat[1:], strict=True):
            start, end = start >> BITS, -(-end >> BITS)
            above[start:end] = below[start:end].sum(axis=1)

    def rebuild(self) -> None:
        for below, above in zip(self._levels, self._flat[1:], strict=True):
            above[: len(below)] = below.sum(axis=1)

    def find(self, shares: Tensor) -> Tensor:
        ends = self._ends
        np.cumsum(self._top, out=ends[1:])
        if not ends[-1] > 0:
            raise ValueError("nothing can be drawn: there are no priorities")
        # Below the end, so that there is a node whose end is behind it; the first such is not 0.
        rest = np.minimum(shares.numpy() * ends[-1], np.nextafter(ends[-1], 0.0))
        at = ends[1:].searchsorted(rest, side="right")
        rest -= ends.take(at)
        begins = np.zeros((FAN + 1, len(rest)))  # of the nodes below the one that was found, and the end of the last
        column = np.arange(len(rest))
        for level in reversed(self._levels):
            below = level.take(at, axis=0).T.copy()
            for place in range(FAN):  # four times as quick as ``cumsum``
                np.add(begins[place], below[place], out=begins[place + 1])
            # Sums that were added up in another order may be a little smaller than where ``rest`` is.
            np.minimum(rest, np.nextafter(begins[FAN], 0.0), out=rest)
            places = (begins[1:] <= rest).sum(axis=0)
            rest -= begins.take(places * len(rest) + column)
            at = (at << BITS) + places
        return torch.from_numpy(at)


class BlockSums:
    """Blocks of slots and their sums, on any device; nothing here waits for the device."""

    def __init__(self, size: int, device: torch.device) -> None:
        blocks = -(-size // BLOCK)
        self._blocks = torch.zeros((blocks, BLOCK), dtype=torch.float64, device=device)
        self._sums = torch.zeros(blocks, dtype=torch.float64, device=device)
        self.weights = self._blocks.view(-1)[:size]

    @property
    def total(self) -> Tensor:
        return self._sums.sum()

    def set(self, slots: Tensor, weights: Tensor, valid: Tensor) -> None:
        # Writes to one slot come in no certain order, so all of them write the last value.
        count = len(slots)
        order = torch.arange(1, count + 1, device=slots.device)
        last = ((slots[:, None] == slots) & valid).mul(order).amax(dim=1)  # 0: none is valid
        values = torch.where(last > 0, weights[(last - 1).clamp_min(0)], self.weights[slots])
        self.weights[slots] = values
        touched = slots // BLOCK
        self._sums[touched] = self._blocks[touched].sum(dim=1)

    def set_range(self, start: int, weights: Tensor) -> None:
        end = start + len(weights)
        self.weights[start:end] = weights
        blocks = slice(start // BLOCK, -(-end // BLOCK))
        self._sums[blocks] = self._blocks[blocks].sum(dim=1)

    def rebuild(self) -> None:
        self._sums.copy_(self._blocks.sum(dim=1))

    def find(self, shares: Tensor) -> Tensor:
        ends = self._sums.cumsum(0)
        block, rest = _place(ends, shares * ends[-1])
        inside = self._blocks[block].cumsum(1)
        # Sums that were added up in another order may be a little smaller than where ``rest`` is.
        slot, _ = _place(inside, rest[:, None])
        return block * BLOCK + slot[:, 0]


def _place(ends: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """In which part each point is, given where the parts end, and how far from its beginning. Parts of no length have
    no points, and a point behind the end is in the last part that has any length."""
    at = torch.searchsorted(ends, points, right=True)
    at = torch.minimum(at, torch.searchsorted(ends, ends[..., -1:].contiguous()))
    begins = torch.where(at > 0, ends.gather(-1, (at - 1).clamp_min(0)), 0.0)
    return at, (points - begins).clamp_min(0.0)


def make_sums(size: int, device: torch.device) -> Sums:
    return SumTree(size) if device.type == "cpu" else BlockSums(size, device)
