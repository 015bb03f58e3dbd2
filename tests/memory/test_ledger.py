"""The ledger: each step ends once, told by its number and not by a sum."""

import random

import numpy as np
import pytest

from ga3c.memory.experience import Experience
from ga3c.memory.ledger import Gap, Ledger, LedgerError


def experience(agent, env, first_step, steps):
    nothing = np.zeros(steps, dtype=np.float32)
    return Experience(agent, env, first_step, 0, nothing, {"actions": nothing.astype(np.int32), "returns": nothing})


def played(ledger, steps, agent=0, envs=1):
    ledger.open(agent, envs)
    for _ in range(steps):
        ledger.play(agent, 0, bytes([1] * envs))
    return ledger


def deliver(ledger, *spans, agent=0, env=0):
    experiences = [experience(agent, env, first, end - first) for first, end in spans]
    for one in experiences:
        ledger.deliver(one)
    return experiences


def test_only_real_steps_count():
    ledger = Ledger()
    ledger.open(3, 3)
    ledger.play(3, 1, b"\0\1")
    ledger.play(3, 0, b"\0\1")
    assert ledger.gaps() == [Gap(3, 1, 0, 1), Gap(3, 2, 0, 1)]


def test_steps_that_ended_in_any_order_leave_no_gap():
    ledger = played(Ledger(), 9)
    first, second, third = deliver(ledger, (0, 2), (2, 5), (5, 9))
    ledger.settle([third])
    assert ledger.gaps() == [Gap(0, 0, 0, 5)]
    ledger.settle([first])
    assert ledger.gaps() == [Gap(0, 0, 2, 5)]
    ledger.settle([second])
    assert ledger.gaps() == []
    assert ledger.overlapping == 0


def test_what_was_never_told_to_have_ended_is_a_gap():
    ledger = played(Ledger(), 9)
    first, _, third = deliver(ledger, (0, 2), (2, 5), (5, 7))
    ledger.settle([first, third])
    assert ledger.leave(0) == 2
    assert ledger.gaps() == [Gap(0, 0, 2, 5)]


def test_what_ended_twice_overlaps():
    for again in (0, 1, 2):
        ledger = played(Ledger(), 9)
        experiences = deliver(ledger, (0, 2), (2, 5), (5, 9))
        ledger.settle([experiences[0], experiences[2]])
        ledger.settle([experiences[again]])
        assert ledger.overlapping == (2, 0, 4)[again]


def test_an_overlap_of_a_part_is_seen():
    ledger = played(Ledger(), 9)
    ledger.settle([experience(0, 0, 4, 3), experience(0, 0, 2, 4)])
    assert ledger.overlapping == 2
    assert ledger.gaps() == [Gap(0, 0, 0, 2), Gap(0, 0, 7, 9)]


def test_a_part_that_ended_again_takes_nothing_back():
    """Neither where it begins with what had ended before, nor where it lies within it."""
    for first in (4, 5):
        ledger = played(Ledger(), 9)
        ledger.settle([experience(0, 0, 4, 5), experience(0, 0, first, 2)])
        assert ledger.overlapping == 2
        assert ledger.gaps() == [Gap(0, 0, 0, 4)]
        ledger.settle([experience(0, 0, 0, 4)])
        assert ledger.gaps() == []


def test_what_ends_after_its_agent_was_forgotten_overlaps():
    ledger = played(Ledger(), 4)
    (only,) = deliver(ledger, (0, 4))
    ledger.settle([only])
    assert ledger.leave(0) == 0
    ledger.settle([only])
    assert ledger.overlapping == 4


def test_an_agent_is_forgotten_when_it_left_and_all_its_steps_ended():
    ledger = Ledger()
    for agent in range(100):
        played(ledger, 5, agent=agent)
        experiences = deliver(ledger, (0, 3), agent=agent)
        assert ledger.leave(agent) == 2
        ledger.settle(experiences)
    assert not ledger._accounts
    assert not ledger._left


@pytest.mark.parametrize(
    ("env", "first", "steps"),
    [(0, 1, 1), (0, 0, 6), (2, 0, 1)],
    ids=["a gap", "more than was played", "an environment that is not there"],
)
def test_what_does_not_follow_is_refused(env, first, steps):
    ledger = played(Ledger(), 5, envs=2)
    with pytest.raises(LedgerError):
        ledger.deliver(experience(0, env, first, steps))
    deliver(ledger, (0, 5))


def test_more_environments_than_the_agent_has_are_refused():
    ledger = Ledger()
    ledger.open(0, 2)
    with pytest.raises(LedgerError):
        ledger.play(0, 1, b"\1\1")
    assert ledger.gaps() == []


def test_against_a_plain_count_of_every_step():
    """Random experiences that end in a random order, some never and some twice, beside a list of all steps."""
    chance = random.Random(1)
    for _ in range(200):
        ledger, steps = played(Ledger(), 40), [0] * 40
        spans, at = [], 0
        while at < 35:
            end = min(at + chance.randint(1, 6), 40)
            spans.append((at, end))
            at = end
        experiences = deliver(ledger, *spans)
        ended = [one for one in experiences for _ in range(chance.choice((0, 1, 1, 1, 2)))]
        chance.shuffle(ended)
        for one in ended:
            ledger.settle([one])
            for step in range(one.first_step, one.first_step + one.steps):
                steps[step] += 1
        assert ledger.overlapping == sum(count - 1 for count in steps if count > 1)
        missing = [step for gap in ledger.gaps() for step in range(gap.first_step, gap.end)]
        assert missing == [step for step, count in enumerate(steps) if not count]
