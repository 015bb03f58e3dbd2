"""Interquartile means, bootstrap intervals and common curves, against values that are known."""

import time

import numpy as np
import pytest

from experiments.statistics import FEWEST, band, estimate, iqm, on_grid, spread


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 4.0], 2.5),
        # The middle 1.5 of three runs: a quarter of the lowest, the whole middle one, a quarter of the highest.
        ([0.0, 1.0, 10.0], (0.25 * 0 + 1 + 0.25 * 10) / 1.5),
        ([-100.0, 2.0, 4.0, 1000.0], 3.0),
        # The middle 2.5 of five: three quarters of the second, the third, three quarters of the fourth.
        ([0.0, 1.0, 2.0, 5.0, 99.0], (0.75 * 1 + 2 + 0.75 * 5) / 2.5),
        # The middle 3 of six: half of the second, the third and the fourth, half of the fifth.
        ([6.0, 1.0, 2.0, 3.0, 4.0, 5.0], (0.5 * 2 + 3 + 4 + 0.5 * 5) / 3),
    ],
)
def test_the_mean_of_the_middle_half_by_hand(runs, expected):
    assert iqm(np.array(runs)) == pytest.approx(expected)


def test_whole_quarters_are_trimmed_as_agarwal_et_al_do():
    rng = np.random.default_rng(1)
    for count in (4, 8, 12, 40):
        runs = rng.lognormal(size=count)
        quarter = count // 4
        assert iqm(runs) == pytest.approx(np.sort(runs)[quarter:-quarter].mean())


def test_fractions_are_what_repeating_every_run_gives():
    runs = np.random.default_rng(2).normal(size=7)
    assert iqm(runs) == pytest.approx(iqm(np.repeat(runs, 4)))


def test_any_axis():
    runs = np.random.default_rng(3).normal(size=(5, 3, 2))
    along = iqm(runs, axis=0)
    assert along.shape == (3, 2)
    assert along[1, 1] == pytest.approx(iqm(runs[:, 1, 1]))


def test_a_few_runs_claim_no_more_than_they_know():
    one = estimate([[5.0]])
    assert (one.value, one.low, one.high, one.is_interval) == (5.0, None, None, False)
    three = estimate([[1.0, 9.0, 2.0]])
    assert (three.low, three.high, three.is_interval) == (1.0, 9.0, False)
    five = estimate([[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert five.is_interval
    assert 1 < five.low < five.value == 3 < five.high < 5
    assert estimate([[1.0, 2.0, 3.0, 4.0, 5.0]]) == five  # the same runs, the same interval


def test_the_bootstrap_of_fewer_runs_would_be_their_range(monkeypatch):
    """Why FEWEST is what it is."""
    monkeypatch.setattr("experiments.statistics.FEWEST", 2)
    monkeypatch.setattr("experiments.statistics.FEWEST_EACH", 2)
    for count in range(2, FEWEST):
        few = estimate([[float(run) for run in range(count)]])
        assert (few.low, few.high) == pytest.approx((0.0, count - 1.0))
    more = estimate([[float(run) for run in range(FEWEST)]])
    assert more.low > 0.5
    assert more.high < FEWEST - 1.2


def test_games_are_drawn_for_themselves():
    """Games that differ by a hundred times their seeds' spread: only the seeds make the interval."""
    games = [[1.0, 1.1, 0.9], [100.0, 100.1, 99.9], [50.0, 50.1, 49.9], [60.0, 60.1, 59.9]]
    together = estimate(games)
    assert together.is_interval
    assert together.runs == 12
    assert together.high - together.low < 0.3
    unknown = estimate([[1.0, 1.1, 0.9], [100.0]])
    pairs = estimate([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert (pairs.low, pairs.high, pairs.is_interval) == (1.0, 6.0, False)
    assert unknown.low is None  # nobody knows how far the seeds of the second game are apart


@pytest.mark.parametrize("strata", [[20], [6, 6, 6, 6]])
def test_intervals_cover_the_truth_as_often_as_they_say(strata):
    """The true value is 0 in each game: normal and heavy-tailed scores, both symmetric."""
    rng = np.random.default_rng(4)
    covered = []
    for trial in range(600):
        scores = [rng.normal(size=runs) if trial % 2 else rng.laplace(size=runs) for runs in strata]
        one = estimate(scores, seed=trial)
        covered.append(one.low <= 0 <= one.high)
    assert 0.91 < np.mean(covered) < 0.97


def test_an_interval_is_quick():
    start = time.perf_counter()
    estimate([list(range(10))] * 20)
    assert time.perf_counter() - start < 3  # 0.03 s on an idle core


def test_a_spread_is_the_median_and_the_ends():
    assert spread([3.0, 1.0, 10.0]) == {"median": 3.0, "low": 1.0, "high": 10.0, "repeats": [3.0, 1.0, 10.0]}


def test_nothing_is_invented_before_a_run_begins_or_after_it_ends():
    values = on_grid([(10, 1.0), (20, 3.0)], np.array([5.0, 10.0, 15.0, 20.0, 25.0]))
    assert np.isnan(values[[0, 4]]).all()
    assert values[1:4].tolist() == [1.0, 2.0, 3.0]


def test_curves_of_different_lengths_have_their_common_part():
    curves = [[(0, 0.0), (100, 10.0)], [(10, 1.0), (60, 6.0)], [(5, 0.5), (80, 8.0)]]
    common = band(curves)
    assert (common.at[0], common.at[-1]) == (10, 60)
    assert common.middle == pytest.approx(common.at / 10)
    assert common.low == pytest.approx(common.middle)
    assert common.runs == 3
    assert not common.is_interval


def test_the_band_of_many_runs_is_within_their_range():
    rng = np.random.default_rng(5)
    curves = [[(at, at + shift) for at in (0.0, 50.0, 100.0)] for shift in rng.normal(size=12)]
    common = band(curves)
    values = np.stack([on_grid(curve, common.at) for curve in curves])
    assert common.is_interval
    assert (values.min(axis=0) < common.low).all()
    assert (common.low < common.middle).all()
    assert (common.middle < common.high).all()
    assert (common.high < values.max(axis=0)).all()


def test_curves_that_share_nothing_have_no_band():
    assert band([]) is None
    assert band([[], []]) is None
    assert band([[(0, 1.0), (1, 1.0)], [(2, 1.0), (3, 1.0)]]) is None
    alone = band([[(3.0, 7.0)]])
    assert (alone.at.tolist(), alone.middle.tolist(), alone.low) == ([3.0], [7.0], None)
