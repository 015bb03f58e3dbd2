"""Priorities: small cases by hand, frequencies of many draws, and numbers that are none. On both forms of the sums."""

import re

import numpy as np
import pytest
import torch

from ga3c.memory import priorities as module
from ga3c.memory.priorities import Priorities
from ga3c.memory.sums import BLOCK, BlockSums, SumTree


@pytest.fixture(params=["tree", "blocks"])
def make(request, monkeypatch):
    """Makes priorities, as a CPU has them and as other devices do."""
    if request.param == "blocks":
        monkeypatch.setattr(module, "make_sums", BlockSums)
    return Priorities


def numbers(*values):
    return torch.tensor(values, dtype=torch.int64)


def priorities(*values):
    return torch.tensor(values, dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def chi_squared(counts, chances):
    """How far counts are from these chances, in deviations of what is to be expected."""
    counts, chances = np.asarray(counts, dtype=np.float64), np.asarray(chances)
    assert not counts[chances == 0].any()
    expected = counts.sum() * chances[chances > 0] / chances.sum()
    square = ((counts[chances > 0] - expected) ** 2 / expected).sum()
    freedom = len(expected) - 1
    return (square - freedom) / np.sqrt(2 * freedom)


def draws(memory):
    """How often each slot is drawn; the two levels, which are made for other devices, take long on a CPU."""
    chooser, slow = generator(7), isinstance(memory._sums, BlockSums)
    batches = [memory.draw(500, chooser).numbers.numpy() for _ in range(60 if slow else 2_000)]
    return np.bincount(np.concatenate(batches) % memory.size, minlength=memory.size)


def test_weights_by_hand(make):
    # α = ½: chances 1, 2, 3 of 6; β = 1: weights 1/1, 1/2, 1/3 of the largest, that of the first.
    memory = make(4, alpha=0.5)
    memory.add(numbers(0, 1, 2), priorities(1.0, 4.0, 9.0))
    drawn = memory.draw(1_000, generator(), beta=1.0)
    assert set(drawn.numbers.tolist()) == {0, 1, 2}
    expected = {0: 1.0, 1: 1 / 2, 2: 1 / 3}
    for number, weight in zip(drawn.numbers.tolist(), drawn.weights.tolist(), strict=True):
        assert weight == pytest.approx(expected[number])
    assert memory.draw(1, generator(), beta=0.4).weights.tolist() == [1.0]
    memory.update(numbers(0, 2), priorities(0.25, 0.0625))
    assert memory.weights.tolist() == [0.5, 2.0, 0.25, 0.0]


def test_draws_are_proportional_also_after_many_updates_and_rounds(make):
    size, rng = 1_500, np.random.default_rng(0)
    memory = make(size, alpha=1.0)
    expected = np.zeros(size)
    for first in range(0, 7 * size, 50):  # round and round
        values = rng.gamma(0.5, size=50) + 0.01
        memory.add(torch.arange(first, first + 50), torch.from_numpy(values))
        expected[np.arange(first, first + 50) % size] = values
    for _ in range(30 if isinstance(memory._sums, BlockSums) else 1_000):
        some = rng.integers(6 * size, 7 * size, 1_000)
        values = rng.gamma(0.5, size=1_000) + 0.01
        memory.update(torch.from_numpy(some), torch.from_numpy(values))
        expected[some % size] = values
    np.testing.assert_array_equal(memory.weights, expected)
    assert memory._sums.total.item() == pytest.approx(expected.sum(), rel=1e-13)  # no drift
    assert abs(chi_squared(draws(memory), expected)) < 5


def test_what_is_removed_is_never_drawn(make):
    memory = make(BLOCK * 2, alpha=1.0)
    memory.add(torch.arange(2_000), torch.ones(2_000))
    memory.remove_between(0, 1_500)
    memory.remove(numbers(1_600, 1_999, 3))
    expected = np.zeros(memory.size)
    expected[1_500:2_000] = 1.0
    expected[[1_600, 1_999]] = 0.0
    assert len(memory) == 498
    assert abs(chi_squared(draws(memory), expected)) < 5


def test_the_oldest_leave_also_around_the_end_of_the_slots(make):
    memory = make(10, alpha=1.0)
    memory.add(torch.arange(10), torch.ones(10))
    memory.add(torch.arange(10, 16), torch.ones(6))
    memory.remove_between(0, 13)  # of which 0 to 5 have left before, and their slots are taken
    assert sorted(set(memory.draw(1_000, generator()).numbers.tolist())) == [13, 14, 15]


def test_a_late_update_never_touches_a_newer_entry(make):
    memory = make(4, alpha=1.0)
    memory.add(torch.arange(4), torch.ones(4))
    memory.add(numbers(4), priorities(2.0))  # in the slot of 0
    memory.update(numbers(0, 4, 0), priorities(9.0, 3.0, 9.0))
    assert memory.weights.tolist() == [3.0, 1.0, 1.0, 1.0]
    memory.remove(numbers(0))
    assert memory.weights[0] == 3.0


def test_of_an_entry_that_is_updated_twice_the_later_counts(make):
    memory = make(8, alpha=1.0)
    memory.add(torch.arange(8), torch.ones(8))
    memory.update(numbers(3, 5, 3, 5, 3), priorities(7.0, 6.0, 5.0, 4.0, 2.0))
    assert memory.weights.tolist() == [1, 1, 1, 2, 1, 4, 1, 1]
    assert memory._sums.total == 12


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1.0, 1e200])
def test_bad_priorities_are_refused_by_name_and_of_strangers_counted(make, bad):
    memory = make(4, alpha=1.0)
    memory.add(numbers(0, 1), priorities(1.0, 1.0))
    for change in (memory.add, memory.update):
        with pytest.raises(ValueError, match=re.escape(f"a priority of {bad}:")):
            change(numbers(0, 1), priorities(2.0, bad))
    memory.add(numbers(2, 3), priorities(bad, 2.0), trusted=False)
    memory.update(numbers(0, 1), priorities(bad, 3.0), trusted=False)
    assert memory.weights.tolist() == [1.0, 3.0, 0.0, 2.0]
    assert memory.refused == 2
    assert set(memory.draw(1_000, generator()).numbers.tolist()) == {0, 1, 3}
    memory.update(numbers(2), priorities(1.0))  # there is no such entry
    assert memory.weights[2] == 0


def test_a_priority_of_zero_counts_as_a_small_one(make):
    memory = make(2, alpha=1.0, least=0.5)
    memory.add(numbers(0, 1), priorities(0.0, 1.5))
    assert memory.weights.tolist() == [0.5, 1.5]


def test_nothing_can_be_drawn_of_nothing():
    with pytest.raises(ValueError, match="no priorities"):
        Priorities(4).draw(1, generator())


@pytest.mark.parametrize("form", [SumTree, lambda size: BlockSums(size, torch.device("cpu"))])
def test_shares_at_the_edges_find_slots_with_a_weight(form):
    # Rounded sums: the total is less than that of its parts, or more, as the order of adding has it.
    rng = np.random.default_rng(1)
    shares = torch.tensor([0.0, 5e-324, 0.5, np.nextafter(1.0, 0.0)], dtype=torch.float64)
    for trial in range(200):
        size = int(rng.integers(2, 5_000))
        weights = rng.gamma(0.1, size=size) ** 8 * (rng.random(size) < 0.3)
        weights[rng.integers(size)] = 1.0
        sums = form(size)
        sums.set_range(0, torch.from_numpy(weights))
        found = sums.find(shares)
        assert (sums.weights[found] > 0).all(), trial
        assert found[0] == np.flatnonzero(weights)[0]
        assert found[3] == np.flatnonzero(weights)[-1] or weights[found[3] + 1 :].sum() < 1e-12 * weights.sum()


@pytest.mark.parametrize("form", [SumTree, lambda size: BlockSums(size, torch.device("cpu"))])
def test_shares_by_hand(form):
    sums = form(5)
    sums.set_range(0, priorities(1.0, 0.0, 2.0, 1.0, 0.0))
    shares = priorities(0.0, 0.24, 0.25, 0.74, 0.75, 0.99)
    assert sums.find(shares).tolist() == [0, 0, 2, 2, 3, 3]
    sums.set(numbers(0, 4), priorities(0.0, 4.0), torch.tensor([False, True]))
    assert sums.find(priorities(0.1, 0.2, 0.45, 0.5)).tolist() == [0, 2, 3, 4]


def test_a_tree_of_two_million_finds_what_plain_sums_do():
    rng = np.random.default_rng(2)
    weights = (rng.gamma(0.5, size=2_000_000) + 0.001) ** 0.6
    tree = SumTree(2_000_000)
    tree.set_range(0, torch.from_numpy(weights))
    shares = rng.random(10_000)
    expected = np.searchsorted(np.cumsum(weights), shares * weights.sum(), side="right")
    found = tree.find(torch.from_numpy(shares)).numpy()
    assert (found == expected).mean() > 0.999  # but for sums that are rounded otherwise
    assert abs(found - expected).max() <= 1


def test_eviction_is_by_small_priorities_and_numbers_are_never_used_twice(make):
    # Chances to leave are p^−0.4: 1, 4^−0.4 = 0.574 and 16^−0.4 = 0.330 of 1.904.
    left = np.zeros(3)
    chances = np.array([1.0, 4.0, 16.0]) ** -0.4
    chooser = generator(3)
    for _ in range(4_000):
        memory = make(3, alpha=0.6, evict_alpha=-0.4)
        memory.add(memory.make_room(3, chooser), priorities(1.0, 4.0, 16.0))
        (number,) = memory.make_room(1, chooser).tolist()
        left[number - 3] += 1
    assert abs(chi_squared(left, chances)) < 5


def test_room_is_made_for_exactly_as_many(make):
    memory, chooser, used = make(10, evict_alpha=-0.4), generator(4), []
    for _ in range(30):
        new = memory.make_room(7, chooser)
        assert len(set((new % 10).tolist())) == 7
        memory.add(new, torch.rand(7, generator=chooser))
        used += new.tolist()
        assert len(memory) == min(len(used), 10)
    assert len(set(used)) == len(used)


def test_what_was_saved_draws_the_same(make):
    memory, other = (make(100, alpha=0.7, evict_alpha=-0.4) for _ in range(2))
    memory.add(memory.make_room(60, generator()), torch.rand(60, generator=generator(1)))
    other.load(memory.state())
    for one, two in zip(memory.draw(50, generator(2)), other.draw(50, generator(2)), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(memory.make_room(70, generator(3)), other.make_room(70, generator(3)))
    with pytest.raises(ValueError, match="100 slots do not fit into 99"):
        make(99, evict_alpha=-0.4).load(memory.state())
