"""The counters of a run: each observer has windows of its own, and time never runs backwards."""

from dataclasses import replace

import pytest

from ga3c.memory.figures import window_row
from ga3c.memory.stats import Stats
from ga3c.settings.config import Config

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


def test_an_update_of_no_experiences_has_no_lags():
    stats = Stats()
    stats.add_lags([])
    stats.add_lags([3])
    stats.add_lags([])
    assert (stats.totals.experiences, stats.totals.lag, stats.lag_max_ever) == (1, 3, 3)


def window(seconds, setting=SETTING, **amounts):
    """The row of a window of so many seconds in which this was counted, after other things were."""
    stats = Stats()
    stats.add(**dict.fromkeys(amounts, 7))
    before = stats.snapshot()
    stats.add(**amounts)
    return window_row(before, replace(stats.snapshot(), seconds=before.seconds + seconds), setting, None, None)


def test_rates_are_over_the_window_and_bootstraps_are_no_steps():
    row = window(4.0, steps=200, predictions=240, prediction_batches=30, updates=8, samples=180)
    assert row["pps"] == pytest.approx(50)
    assert row["bootstrap_per_second"] == pytest.approx(10)
    assert row["tps"] == pytest.approx(2)
    assert row["trained_per_second"] == pytest.approx(45)
    assert row["prediction_batch"] == pytest.approx(8)
    assert row["training_batch"] == pytest.approx(22.5)


@pytest.mark.parametrize(
    ("threads", "share"),
    [
        ({"predictors": 1, "trainers": 4}, (0.75, 0.25)),
        ({"predictors": 3, "trainers": 2}, (0.25, 0.5)),
        ({"predictors": 0, "trainers": 0}, (0.125, 0.1667)),  # six agents do it themselves
    ],
)
def test_who_is_busy_is_so_for_a_share_of_each_threads_time(threads, share):
    row = window(4.0, {"agents": 6, **threads}, predictor_busy=3.0, trainer_busy=4.0)
    assert (row["predictor_busy"], row["trainer_busy"]) == pytest.approx(share, rel=1e-3)


@pytest.mark.parametrize(
    ("held", "trainers_busy", "predictors_busy", "limit"),
    [
        (0, 0.00, 0.00, "agents"),
        (25, 0.89, 0.89, "agents"),
        (26, 0.00, 0.00, "trainers"),
        (26, 0.00, 0.99, "trainers"),
        (0, 0.91, 0.00, "trainers"),
        (0, 0.91, 0.99, "trainers"),
        (0, 0.00, 0.91, "predictors"),
        (25, 0.89, 0.91, "predictors"),
    ],
)
def test_the_stage_that_the_others_wait_for(held, trainers_busy, predictors_busy, limit):
    """Held in more than a quarter of 100 looks, or busy for more than nine tenths of two threads' time."""
    threads = {"agents": 6, "predictors": 2, "trainers": 2}
    busy = {"trainer_busy": 20 * trainers_busy, "predictor_busy": 20 * predictors_busy}
    assert window(10.0, threads, looks=100, looks_held=held, **busy)["limit"] == limit
    # Agents that do it all themselves wait for nobody.
    alone = {"agents": 2, "predictors": 0, "trainers": 0}
    assert window(10.0, alone, looks=100, looks_held=held, **busy)["limit"] == "agents"


def test_a_run_is_at_least_as_old_as_what_it_wrote():
    """A killed run had written more than its checkpoint knows; the resumed one does not go back in time."""
    stats = Stats()
    stats.pass_over(500.0)
    assert 500 <= stats.seconds < 510
    stats.pass_over(100.0)
    assert 500 <= stats.seconds < 510


@pytest.mark.parametrize(("setting", "counter"), [("max_steps", "steps"), ("max_episodes", "episodes")])
def test_a_maximum_is_reached_when_so_many_were_counted(setting, counter):
    stats, config = Stats(), Config(**{setting: 10})
    stats.add(**{counter: 9})
    assert stats.reached(config) == ""
    stats.add(**{counter: 1})
    assert stats.reached(config) == setting
    stats.add(**{counter: 5})
    assert stats.reached(config) == setting
    assert stats.reached(Config()) == ""  # without a maximum there is nothing to reach


def test_the_seconds_of_all_sessions_reach_a_maximum():
    stats = Stats()
    stats.pass_over(100.0)
    assert stats.reached(Config(max_seconds=200.0)) == ""
    assert stats.reached(Config(max_seconds=100.0)) == "max_seconds"
    assert stats.reached(Config(max_seconds=100.0, max_steps=1)) == "max_seconds"


def test_what_a_rule_tells_is_summed_and_saved_beside_the_rest():
    stats = Stats()
    stats.add_losses({"surprise": 0.5})
    stats.add_losses({"surprise": 0.25, "regret": 2.0})
    stats.add(updates=2)
    assert stats.snapshot().totals.items() >= {"surprise": 0.75, "regret": 2.0, "updates": 2}.items()
    loaded = Stats()
    loaded.load(stats.state())
    assert loaded.losses == {"surprise": 0.75, "regret": 2.0}
    assert loaded.totals == stats.totals
    loaded.add_losses({"surprise": 1.0})
    assert loaded.snapshot().totals["surprise"] == 1.75
    assert stats.losses["surprise"] == 0.75
