"""The counters of a run: each observer has windows of its own, and time never runs backwards."""

import pytest

from ga3c.memory.stats import Stats, window_row

SETTING = {"agents": 1, "predictors": 1, "trainers": 1}


def test_a_snapshot_takes_nothing_from_other_observers():
    stats = Stats()
    first = stats.snapshot()
    stats.add(steps=10, updates=2)
    stats.add_lags([3, 7])
    stats.look(4, 6, True)
    between = stats.snapshot()
    stats.add(steps=5)
    stats.add_lags([1])
    last = stats.snapshot()
    whole, part = window_row(first, last, SETTING, None, None), window_row(between, last, SETTING, None, None)
    assert (whole["lag_max"], part["lag_max"]) == (7, 1)
    assert (whole["steps"], part["steps"]) == (15, 15)
    assert whole["lag_mean"] == pytest.approx(11 / 3)
    assert whole["training_queue"] == 6


def test_a_run_is_at_least_as_old_as_what_it_wrote():
    """A killed run had written more than its checkpoint knows; the resumed one does not go back in time."""
    stats = Stats()
    stats.pass_over(500.0)
    assert 500 <= stats.seconds < 510
    stats.pass_over(100.0)
    assert 500 <= stats.seconds < 510
