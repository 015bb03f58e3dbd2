"""Priorities of what is in a replay memory: drawn by them, weighed against them, and thrown out by them.

Entries are known by 64-bit numbers that are never used twice. Their slot is the number modulo the size, so a priority
that comes late, for an entry whose slot has another one by now, is not taken.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ga3c.memory.sums import Sums, make_sums

LEAST = 1e-6  # smaller priorities count as this: what is 0 would never be seen again
MOST = 1e100  # larger ones are refused: their sum could be infinite
NONE = -1  # the number of a slot that has no entry


class Drawn(NamedTuple):
    numbers: Tensor  # int64
    weights: Tensor  # float32, for the loss: the largest is 1


class Priorities:
    """Entry i is drawn with the chance pᵢ^α / Σ p^α. With ``evict_alpha``, entries leave by p^evict_alpha."""

    def __init__(
        self,
        size: int,
        *,
        alpha: float = 0.6,
        evict_alpha: float | None = None,
        least: float = LEAST,
        device: torch.device | str = "cpu",
    ) -> None:
        self.size = size
        self.device = torch.device(device)
        self._least = least
        self._sums = make_sums(size, self.device)
        self._all: list[tuple[Sums, float]] = [(self._sums, alpha)]
        if evict_alpha is not None:
            self._all.append((make_sums(size, self.device), evict_alpha))
        self._numbers = torch.full((size,), NONE, dtype=torch.int64, device=self.device)  # by slot
        self._unused = 0  # slots from here on never had an entry from ``make_room``
        self.refused = 0  # priorities of strangers: no number, infinite, negative, or too large

    def __len__(self) -> int:
        return int((self._sums.weights > 0).sum())

    @property
    def weights(self) -> Tensor:
        """p^α of each slot; 0 where there is nothing to be drawn."""
        return self._sums.weights

    def add(self, numbers: Tensor, priorities: Tensor, *, trusted: bool = True) -> None:
        """New entries, in the places of what had their slots. Of strangers, those with a bad priority are left out."""
        priorities, good = self._check(priorities, trusted)
        slots = numbers % self.size
        self._numbers[slots] = torch.where(good, numbers, NONE)
        in_a_row = self.device.type == "cpu" and len(slots) and bool((slots.diff() == 1).all())
        for sums, exponent in self._all:
            weights = priorities.pow(exponent) * good
            if in_a_row:
                sums.set_range(int(slots[0]), weights)
            else:
                sums.set(slots, weights, torch.ones_like(good))

    def update(self, numbers: Tensor, priorities: Tensor, *, trusted: bool = True) -> None:
        """New priorities. Those of entries that are gone are not taken; of one entry twice, the later is."""
        priorities, good = self._check(priorities, trusted)
        slots = numbers % self.size
        valid = good & (self._numbers[slots] == numbers)
        for sums, exponent in self._all:
            sums.set(slots, priorities.pow(exponent), valid)

    def _check(self, priorities: Tensor, trusted: bool) -> tuple[Tensor, Tensor]:
        """As float64 and not too small, and which of them are good. On a CPU, bad ones raise unless of strangers."""
        priorities = priorities.to(torch.float64)
        good = (priorities >= 0) & (priorities <= MOST)  # no number is neither
        if self.device.type == "cpu":
            if good.all():
                return priorities.clamp_min(self._least), good
            bad = priorities[~good]
            if trusted:
                raise ValueError(f"a priority of {bad[0].item()}: it has to be a number from 0 to {MOST:g}")
            self.refused += len(bad)
        return torch.where(good, priorities, 1.0).clamp_min(self._least), good

    def remove(self, numbers: Tensor) -> None:
        """These entries, each once, cannot be drawn any more."""
        slots = numbers % self.size
        valid = self._numbers[slots] == numbers
        for sums, _ in self._all:
            sums.set(slots, torch.zeros_like(slots, dtype=torch.float64), valid)
        self._numbers[slots] = torch.where(valid, NONE, self._numbers[slots])

    def remove_between(self, first: int, end: int) -> None:
        """The oldest, all at once: the entries from one number on to before another, added in order."""
        first = max(first, end - self.size)
        while first < end:
            slot = first % self.size
            count = min(end - first, self.size - slot)
            numbers = self._numbers[slot : slot + count]
            gone = (numbers >= first) & (numbers < end)
            for sums, _ in self._all:
                sums.set_range(slot, torch.where(gone, 0.0, sums.weights[slot : slot + count]))
            numbers[gone] = NONE
            first += count

    def draw(self, count: int, generator: torch.Generator, beta: float = 0.4) -> Drawn:
        """Entries drawn by their priorities, with replacement; the generator is one of the device.

        Their weights are (N P)^−β divided by the largest of the batch, which leaves neither N nor the sum in them.
        """
        slots = self._draw(self._sums, count, generator)
        weights = self._sums.weights[slots]
        return Drawn(self._numbers[slots], (weights / weights.min()).pow(-beta).to(torch.float32))

    def _draw(self, sums: Sums, count: int, generator: torch.Generator) -> Tensor:
        return sums.find(torch.rand(count, dtype=torch.float64, device=self.device, generator=generator))

    def make_room(self, count: int, generator: torch.Generator) -> Tensor:
        """Numbers for so many new entries; where slots are missing, others leave, drawn by p^evict_alpha."""
        if count > self.size:
            raise ValueError(f"{count} entries do not fit into {self.size} slots")
        new = torch.arange(self._unused, min(self._unused + count, self.size), device=self.device)
        self._unused += len(new)
        freed = [new]
        while (missing := count - sum(map(len, freed))) > 0:
            slots = torch.unique(self._draw(self._all[-1][0], missing, generator))
            freed.append(self._numbers[slots] + self.size)
            self.remove(self._numbers[slots])
        return torch.cat(freed)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps, copied."""
        state = {f"weights{place}": sums.weights.cpu().clone() for place, (sums, _) in enumerate(self._all)}
        return state | {"numbers": self._numbers.cpu().clone(), "unused": torch.tensor(self._unused)}

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on from there, if it was of the same size."""
        if len(state["numbers"]) != self.size:
            raise ValueError(f"priorities of {len(state['numbers'])} slots do not fit into {self.size}")
        self._numbers.copy_(state["numbers"])
        self._unused = int(state["unused"])
        for place, (sums, _) in enumerate(self._all):
            sums.weights.copy_(state[f"weights{place}"])
            sums.rebuild()
