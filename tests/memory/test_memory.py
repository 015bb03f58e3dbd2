"""The training queue as a memory: what becomes of each step is in the ledger and in the counters."""

import numpy as np
import pytest

from ga3c.memory.experience import Experience
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.settings.config import Resolved

STEPS = 4  # of an experience


@pytest.fixture
def stats():
    return Stats()


def experiences_of(stats, count, agent=0):
    """So many experiences in a row of one environment, played and delivered."""
    stats.ledger.open(agent, 1)
    made = []
    for number in range(count):
        for _ in range(STEPS):
            stats.ledger.play(agent, 0, b"\1")
        nothing = np.zeros(STEPS, np.float32)
        fields = {"actions": nothing.astype(np.int32), "returns": nothing}
        made.append(Experience(agent, 0, number * STEPS, 0, nothing[:, None], fields))
        stats.ledger.deliver(made[-1])
    stats.add(steps=count * STEPS)
    return made


def unaccounted(stats):
    stats.close_ledger()
    return stats.totals.unaccounted_steps


def test_it_is_first_in_first_out_in_batches_of_at_least_so_many_steps(stats):
    memory = make_memory(Resolved(min_batch=STEPS + 1), stats)
    first, second, third = experiences_of(stats, 3)
    memory.add([first])
    assert memory.take() is None
    memory.add([second, third])
    assert memory.state() == [first, second, third]
    assert memory.take() == [first, second]
    assert len(memory) == 1
    assert memory.take() is None


def test_what_was_learned_has_ended(stats):
    memory = make_memory(Resolved(), stats)
    experiences = experiences_of(stats, 2)
    memory.add(experiences)
    memory.learned(memory.take(), version=0)
    assert [(gap.first_step, gap.end) for gap in stats.ledger.gaps()] == [(STEPS, 2 * STEPS)]
    memory.learned(memory.take(), version=0)
    assert unaccounted(stats) == 0
    assert stats.totals.lost_steps == stats.totals.stale_steps == 0


def test_what_is_learned_twice_overlaps(stats):
    memory = make_memory(Resolved(), stats)
    (only,) = experiences_of(stats, 1)
    memory.learned([only], version=0)
    memory.learned([only], version=0)
    assert stats.ledger.overlapping == STEPS


@pytest.mark.parametrize(("why", "other"), [("stale_steps", "lost_steps"), ("lost_steps", "stale_steps")])
def test_what_was_dropped_has_ended_and_is_counted_for_its_reason(stats, why, other):
    memory = make_memory(Resolved(), stats)
    memory.dropped(experiences_of(stats, 3), why)
    assert getattr(stats.totals, why) == 3 * STEPS
    assert getattr(stats.totals, other) == 0
    assert stats.totals.under_way == 0
    assert unaccounted(stats) == 0


def test_what_nobody_takes_any_more_is_lost_and_counted(stats):
    memory = make_memory(Resolved(), stats)
    memory.add(experiences_of(stats, 3))
    memory.learned(memory.take(), version=0)
    memory.give_up()
    assert len(memory) == 0
    assert stats.totals.lost_steps == 2 * STEPS
    memory.give_up()
    assert stats.totals.lost_steps == 2 * STEPS
    assert unaccounted(stats) == 0


def test_what_is_in_it_and_given_up_by_nobody_is_unaccounted_for(stats):
    memory = make_memory(Resolved(), stats)
    memory.add(experiences_of(stats, 2))
    assert unaccounted(stats) == 2 * STEPS


def test_it_is_full_at_its_bound_and_tells_when_there_is_room(stats):
    told = []
    memory = make_memory(Resolved(), stats, bound=2, on_room=lambda: told.append(len(memory)))
    memory.add(experiences_of(stats, 2))
    assert memory.full
    taken = next(iter(memory.consumer()))
    assert len(taken) == 1
    assert not memory.full
    assert told == [1]
    memory.close()
    assert list(memory.consumer()) == []
    unbound = make_memory(Resolved(), stats)
    unbound.add(experiences_of(stats, 100, agent=1))
    assert not unbound.full
