"""The figures of a window, by hand: what they are made of, and which stage the others wait for."""

from collections import Counter

import pytest

from ga3c.algorithms.actor_critic.acting import FIGURES as ACTOR_CRITIC
from ga3c.algorithms.rule import make_acting
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.figures import BUSY, FIGURES, HELD_OFTEN, WAITS_OFTEN, Figure, Window, limiting_stage, mean, window_row
from ga3c.memory.stats import COUNTERS, Snapshot, Stats
from ga3c.settings.config import Resolved

SPEC = EnvSpec(frame=(2,), stack=1, dtype="float32", action=Discrete(3))
SETTING = {"agents": 4, "predictors": 1, "trainers": 2, "remote_agents": 3}
NOTHING = dict.fromkeys(COUNTERS, 0)


def snapshot(seconds, lags=(), **totals):
    return Snapshot(seconds, {**NOTHING, **totals}, Counter(lags))


def row(before, after, setting=SETTING, figures=FIGURES):
    return window_row(before, after, setting, 5.0, 2.5, figures)


def test_every_figure_has_a_name_of_its_own():
    rules = [make_acting(Resolved(algo=algo), SPEC).figures for algo in ("ga3c", "a3c")]
    for own in ((), *rules):
        names = [figure.name for figure in (*FIGURES, *own)]
        assert [name for name, count in Counter(names).items() if count > 1] == []
        places = [figure.panel for figure in (*FIGURES, *own) if figure.panel != ("", "")]
        assert len(places) == len(set(places))
    assert all(figure.meaning for figure in (*FIGURES, *ACTOR_CRITIC))


def test_a_rules_sums_are_none_of_the_counters():
    """Else its figure would be of both."""
    assert not COUNTERS & {figure.name for figure in ACTOR_CRITIC}


def test_a_row_is_of_what_came_between_the_snapshots():
    before = snapshot(
        100.0, steps=1000, updates=10, samples=900, predictions=1100, prediction_batches=50, experiences=200,
        lag=300, gradient_norm=20.0, looks=40, prediction_queue=80, training_queue=40, looks_held=10,
    )  # fmt: skip
    after = snapshot(
        110.0, steps=1600, updates=14, samples=1300, predictions=1750, prediction_batches=60, experiences=300,
        lag=450, gradient_norm=26.0, looks=60, prediction_queue=120, training_queue=200, looks_held=13,
        episodes=7, stale_steps=3, lost_steps=4, unaccounted_steps=5, bad_updates=6, bad_messages=8,
    )  # fmt: skip
    expected = {
        "seconds": 110,
        "window": 10,
        "steps": 1600,
        "episodes": 7,
        "updates": 14,
        "score": 2.5,
        "score_last": 5,
        "pps": 60,
        "tps": 0.4,
        "trained_per_second": 40,
        "bootstrap_per_second": 5,  # (650 − 600) / 10
        **SETTING,
        "prediction_queue": 2,  # 40 / 20
        "training_queue": 8,
        "prediction_batch": 65,
        "training_batch": 100,
        "lag_mean": 1.5,
        "gradient_norm": 1.5,
        "held": 0.15,
        "stale_steps": 3,
        "lost_steps": 4,
        "unaccounted_steps": 5,
        "bad_updates": 6,
        "bad_messages": 8,
    }
    got = row(before, after)
    assert {name: got[name] for name in expected} == pytest.approx(expected)
    assert list(got) == [figure.name for figure in FIGURES]


def test_nothing_between_the_snapshots_is_no_division_by_zero():
    got = row(snapshot(5.0), snapshot(5.0))
    assert [got[name] for name in ("pps", "lag_mean", "training_batch", "held", "lag_max")] == [0] * 5
    assert got["limit"] == "agents"


def test_the_largest_lag_is_that_of_the_window():
    before, after = snapshot(0.0, lags={9: 2, 3: 1}), snapshot(1.0, lags={9: 2, 5: 4, 3: 2})
    assert Window(before, after, SETTING).lag_max == 5
    assert Window(snapshot(0.0), after, SETTING).lag_max == 9
    assert Window(after, after, SETTING).lag_max == 0


def stage(*, held=0.0, trainers=0.0, predictors=0.0, setting=SETTING):
    """The limiting stage of ten seconds in which so many shares of looks and of the threads' time were counted."""
    after = snapshot(
        10.0,
        looks=1000,
        looks_held=1000 * held,
        trainer_busy=10.0 * setting["trainers"] * trainers,
        predictor_busy=10.0 * setting["predictors"] * predictors,
    )
    return limiting_stage(Window(snapshot(0.0), after, setting))


def test_the_limiting_stage_changes_just_above_its_thresholds():
    assert (HELD_OFTEN, BUSY) == (0.25, 0.9)
    assert stage(held=0.25, trainers=0.9, predictors=0.9) == "agents"
    assert stage(held=0.251) == "trainers"
    assert stage(trainers=0.901) == "trainers"
    assert stage(predictors=0.901) == "predictors"
    assert stage(predictors=1.0, trainers=1.0) == "trainers"  # predictors wait for them, or will
    assert stage(predictors=1.0, held=0.251) == "trainers"


def waiting(idle, held, remote=3, local=4, seconds=10.0):
    """Ten seconds in which agents of other machines had nothing to do for so many, and the server so many of these."""
    after = snapshot(seconds, remote_idle=idle, remote_held=held)
    return Window(snapshot(0.0), after, {**SETTING, "agents": local, "remote_agents": remote})


@pytest.mark.parametrize(
    ("window", "share"),
    [
        (waiting(idle=15.0, held=0.0), 0.5),  # of three agents for ten seconds
        (waiting(idle=15.0, held=9.0), 0.2),
        (waiting(idle=9.0, held=15.0), 0.0),  # what was held ended in this window, and is told of in the next
        (waiting(idle=99.0, held=0.0), 1.0),
        (waiting(idle=15.0, held=0.0, remote=0), 0.0),  # they left
    ],
)
def test_agents_wait_for_the_network_where_the_server_has_not_all_that_they_wait_for(window, share):
    assert window.network_wait == pytest.approx(share)


def test_the_network_limits_where_all_agents_together_wait_for_it_often():
    assert WAITS_OFTEN == 0.25
    assert limiting_stage(waiting(idle=10.0, held=0.0, remote=4, local=0)) == "agents"
    assert limiting_stage(waiting(idle=10.1, held=0.0, remote=4, local=0)) == "network"
    assert limiting_stage(waiting(idle=20.0, held=9.9, remote=4, local=0)) == "network"
    assert limiting_stage(waiting(idle=20.0, held=10.0, remote=4, local=0)) == "agents"
    assert limiting_stage(waiting(idle=10.1, held=0.0, remote=4, local=1)) == "agents"  # who does not wait for it
    assert limiting_stage(waiting(idle=10.1, held=0.0, remote=4, local=0, seconds=20.0)) == "agents"


def test_stages_that_hold_the_agents_back_come_before_the_network():
    for busy, stage in (("trainer_busy", "trainers"), ("predictor_busy", "predictors")):
        after = snapshot(10.0, remote_idle=30.0, **{busy: 100.0})
        assert limiting_stage(Window(snapshot(0.0), after, SETTING)) == stage


def test_agents_that_do_it_all_wait_for_nobody():
    alone = {**SETTING, "predictors": 0, "trainers": 0}
    after = snapshot(10.0, looks=10, looks_held=10, trainer_busy=40.0, predictor_busy=40.0)
    window = Window(snapshot(0.0), after, alone)
    assert limiting_stage(window) == "agents"
    assert window.busy("trainer_busy", "trainers") == pytest.approx(1.0)  # of each of the four


def test_a_rules_own_figures_are_means_over_the_updates_of_the_window():
    figures = (*FIGURES, *make_acting(Resolved(), SPEC).figures, Figure("wonder", mean("wonder"), "what is new"))
    stats = Stats()
    stats.add(updates=1)
    stats.add_losses({"policy_loss": 50.0, "value_loss": 50.0, "entropy": 50.0})
    before = stats.snapshot()
    for entropy in (1.0, 2.0):
        stats.add(updates=1)
        stats.add_losses({"policy_loss": -0.5, "value_loss": 0.25, "entropy": entropy, "wonder": 4.0})
    got = row(before, stats.snapshot(), figures=figures)
    assert [got[name] for name in ("policy_loss", "value_loss", "entropy", "wonder")] == [-0.5, 0.25, 1.5, 4.0]
    assert list(got) == [figure.name for figure in figures]
    assert not {"policy_loss", "wonder"} & row(before, stats.snapshot()).keys()
