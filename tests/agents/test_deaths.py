"""Deaths: how many are too many, and how long the next replacement waits."""

import pytest

from ga3c.agents.deaths import BACKOFF_MOST, BACKOFF_WINDOW, DEATHS_TOLERATED, DEATHS_WINDOW, Deaths


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
