"""Deaths: how many are too many, and how long the next replacement waits."""

import time

import pytest

from ga3c.agents.deaths import BACKOFF_MOST, BACKOFF_WINDOW, DEATHS_TOLERATED, DEATHS_WINDOW, STEPS_PER_DEATH, Deaths
from ga3c.agents.supervision import AgentProcess, Supervision


@pytest.mark.parametrize(("agents", "tolerated"), [(1, DEATHS_TOLERATED), (20, 40)])
def test_all_agents_may_die_twice_and_a_few_may_die_more_often(agents, tolerated):
    deaths = Deaths()
    for number in range(tolerated):
        deaths.add("agents", 100.0 + number / 100, started=0.0)
    assert not deaths.too_many("agents", agents)
    deaths.add("agents", 101.0, started=0.0)
    assert deaths.too_many("agents", agents)
    assert not deaths.too_many("starts", agents)  # each kind counts for itself


def test_deaths_of_long_ago_count_no_more():
    deaths = Deaths()
    for number in range(3):
        deaths.add("agents", 100.0 + number, started=0.0)
    deaths.add("agents", 102.0 + DEATHS_WINDOW, started=0.0)
    assert deaths.count("agents") == 2  # this one, and the one that is just as old as counts


def test_deaths_close_together_are_one_blow():
    deaths = Deaths()
    assert deaths.add("agents", 100.0, started=0.0)
    assert not deaths.add("agents", 101.0, started=99.0)
    assert deaths.backoff == 0.25


def test_the_death_of_a_replacement_is_a_blow_however_soon_it_comes():
    deaths = Deaths()
    assert deaths.add("agents", 100.0, started=0.0)
    assert deaths.add("agents", 100.5, started=100.25)


def test_each_blow_doubles_the_wait_for_a_while():
    deaths, waits = Deaths(), []
    for number in range(7):
        deaths.add("agents", 100.0 + 1.25 * number, started=0.0)
        waits.append(deaths.backoff)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, BACKOFF_MOST, BACKOFF_MOST]
    deaths.add("agents", 200.0, started=0.0)
    assert deaths.backoff == 0.25
    deaths.add("agents", 200.0 + BACKOFF_WINDOW, started=0.0)
    assert deaths.backoff == 0.5


def test_what_is_played_between_deaths_makes_up_for_them():
    """A game that breaks once in 500 steps is worth replacing, however often that is in a minute."""
    deaths = Deaths()
    for number in range(500):
        deaths.add("failure", 100.0 + number / 10, started=0.0, steps=500 * number)
        assert not deaths.too_many("failure", agents=2)


@pytest.mark.parametrize(("steps", "too_many"), [(STEPS_PER_DEATH - 1, True), (STEPS_PER_DEATH, False)])
def test_too_little_between_them_does_not(steps, too_many):
    deaths = Deaths()
    for number in range(DEATHS_TOLERATED + 1):
        deaths.add("failure", 100.0 + number, started=0.0, steps=1_000_000 + steps * number)
    assert deaths.too_many("failure", agents=2) == too_many


def test_what_was_played_before_the_first_of_them_counts_no_more():
    deaths = Deaths()
    deaths.add("failure", 100.0, started=0.0)
    for number in range(DEATHS_TOLERATED + 1):
        deaths.add("failure", 101.0 + DEATHS_WINDOW + number, started=0.0, steps=1_000_000)
    assert deaths.too_many("failure", agents=2)


def test_blows_that_were_made_up_for_double_no_wait():
    deaths, waits = Deaths(), []
    for number in range(5):
        deaths.add("failure", 100.0 + 2.0 * number, started=0.0, steps=STEPS_PER_DEATH * number)
        waits.append(deaths.backoff)
    assert waits == [0.25] * 5
    deaths.add("failure", 109.0, started=108.5, steps=STEPS_PER_DEATH * 4)
    assert deaths.backoff == 0.5


def test_whether_a_death_is_a_blow_follows_from_when_that_very_process_was_started():
    """Others that were started meanwhile do not matter (D6): else each death would lengthen the pause of all."""
    supervision = Supervision(place=None)
    now = time.monotonic()
    old, fresh = (AgentProcess(process=None, started=moment) for moment in (now - 10, now + 10))
    assert supervision.note_death(old, "agents", steps=0)
    assert not supervision.note_death(old, "agents", steps=0)
    assert supervision.note_death(fresh, "agents", steps=0)
    assert not supervision.may_start
