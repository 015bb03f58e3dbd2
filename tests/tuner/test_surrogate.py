"""The belief over a landscape: its mathematics by hand, its prior, and what a change of the machine does to it."""

import math

import numpy as np
import pytest

from tuner import surrogate as module
from tuner.landscape import landscape_of
from tuner.space import Setting, Space
from tuner.strategies import make_strategy
from tuner.strategy import Decision, Measurement, Plan, System
from tuner.surrogate import SPEED, STEP, Change, Prior, Surrogate, _step, drift_covariance, make_prior
from tuner.trace import Trace, Trial

COVARIANCE = np.array([[1.0, 0.6], [0.6, 1.0]])
TWO = Prior((Setting(1, 1, 1), Setting(2, 1, 1)), np.array([0.0, 0.5]), COVARIANCE, 0 * COVARIANCE)
SPACE, SYSTEM = Space(8, 2, 2), System(2, False, 1, 5, 5)


def test_two_settings_by_hand(monkeypatch):
    """Without drift: both settings once, with noise; the gain is the conditional mean of the difference."""
    monkeypatch.setattr(module, "DRIFT", 0.0)
    belief = Surrogate(TWO)
    belief.set_noise(0.1)
    belief.add(0, 1, 2.0)
    belief.add(1, 2, 3.0)
    speed = module.SPEED**2
    between = np.array([[1 + speed + 0.01, 0.6 + speed], [0.6 + speed, 1 + speed + 0.01]])
    difference = np.array([0.6 - 1.0, 1.0 - 0.6])  # covariance of f(1) − f(0) with each window
    weights = np.linalg.solve(between, np.array([2.0 - 0.0, 3.0 - 0.5]))
    mean, deviation = belief.gain_over(0)
    assert mean == pytest.approx([0.0, 0.5 + difference @ weights])
    variance = 1 + 1 - 1.2 - difference @ np.linalg.solve(between, difference)
    assert deviation == pytest.approx([0.0, math.sqrt(variance)])


def test_a_window_tells_about_neighbours_and_noise_about_less():
    sure, unsure = Surrogate(TWO), Surrogate(TWO)
    sure.set_noise(0.01)
    unsure.set_noise(0.5)
    for belief in (sure, unsure):
        for time in range(3):
            belief.add(0, 2 * time, 1.0)
            belief.add(1, 2 * time + 1, 1.0)  # the prior said 0.5 more
    assert abs(sure.gain_over(0)[0][1]) < abs(unsure.gain_over(0)[0][1]) < 0.5
    assert sure.gain_over(0)[1][1] < unsure.gain_over(0)[1][1]


def test_expects_what_it_saw_and_is_unsure_of_what_it_did_not():
    belief = Surrogate(TWO)
    belief.set_noise(0.01)
    belief.add(0, 1, 4.0)
    mean, deviation = belief.expect(0, 2)
    assert mean == pytest.approx(4.0, abs=0.02)
    assert deviation < 0.1
    assert belief.expect(1, 2)[1] > 0.5


def test_after_a_change_old_windows_tell_less():
    belief = Surrogate(TWO)
    belief.set_noise(0.01)
    belief.add(0, 1, 1.0)
    belief.add(1, 2, 1.0)
    before = belief.gain_over(0)
    belief.begin_epoch(Change(windows=0, gain=0.0, evidence=0.0))
    after = belief.gain_over(0)
    assert after[1][1] > before[1][1]
    assert abs(after[0][1] - 0.5) < abs(before[0][1] - 0.5)  # nearer to the prior
    assert belief.expect(0, 3)[1] > 1  # the speed is unknown again
    assert belief.measured() == set()


def belief_after(values, noise=0.03):
    """After windows with these values, one after the other, all under the first setting."""
    belief = Surrogate(TWO)
    belief.set_noise(noise)
    for time, value in enumerate(values):
        belief.add(0, time, value)
    return belief


def test_the_evidence_of_a_change_by_hand():
    """The odds are those of two normal densities, with and without what a step adds to the covariance."""
    belief = belief_after([1.0] * 6 + [0.7] * 2)
    fit = max(belief._fitted(), key=lambda fit: fit.share)
    times = np.arange(8.0)
    together = drift_covariance(times[:, None], times[None, :]) + SPEED**2
    without = TWO.simulated[0, 0] + fit.scale**2 * TWO.apart[0, 0] + together + 0.03**2 * np.eye(8)
    step = np.zeros((8, 8))
    step[-2:, -2:] = STEP**2
    values = np.array([1.0] * 6 + [0.7] * 2) - TWO.mean[0]

    def log_density(covariance):
        return -0.5 * (values @ np.linalg.solve(covariance, values) + np.linalg.slogdet(covariance)[1])

    assert _step(fit, slice(-2, None))[0] == pytest.approx(log_density(without + step) - log_density(without))


def test_a_change_is_found_where_it_happened():
    change = belief_after([1.0] * 10 + [0.8] * 4).change()
    assert change.windows == 4
    assert change.gain == pytest.approx(-0.2, abs=0.03)
    assert change.evidence > 5


@pytest.mark.parametrize("values", [[1.0] * 12, [1.0] * 10 + [0.4, 1.0], [1.0 + 0.005 * n for n in range(30)]])
def test_neither_one_disturbed_window_nor_a_drift_is_a_change(values):
    assert belief_after(values).change().evidence < 2


def test_windows_since_a_change_belong_to_the_new_epoch():
    belief = belief_after([1.0] * 10 + [0.8] * 4)
    belief.begin_epoch(belief.change())
    assert [window.epoch for window in belief.windows] == [0] * 10 + [1] * 4
    assert belief.expect(0, 14)[0] == pytest.approx(0.8, abs=0.03)


def test_half_of_the_speed_is_taken_for_half_of_the_cores():
    """The best was at 8 agents; after a change to half, 4 are expected to be."""
    prior = make_prior(Space(16, 1, 1), SYSTEM, (1,))
    belief = Surrogate(prior)
    belief.set_noise(0.01)
    for time, agents in enumerate((2, 4, 8, 16, 8, 4)):
        belief.add(belief.index[Setting(agents, 1, 1)], time, -((math.log2(agents / 8)) ** 2) / 3)
    belief.begin_epoch(Change(windows=0, gain=math.log(0.5), evidence=9.0))
    belief.add(belief.index[Setting(8, 1, 1)], 7, -1.0)
    mean, _ = belief.gain_over(belief.index[Setting(8, 1, 1)])
    assert 3 <= prior.settings[int(mean.argmax())].agents <= 6


def test_windows_tell_how_far_a_landscape_is_from_the_simulated_ones():
    """What no simulated machine does leaves more doubt about settings that were not measured."""
    prior = make_prior(Space(16, 2, 2), SYSTEM, (1,))
    doubts = []
    for steep in (0.0, 1.5):
        belief = Surrogate(prior)
        belief.set_noise(0.01)
        for time, setting in enumerate(prior.settings[::5]):
            index = belief.index[setting]
            belief.add(index, time, float(prior.mean[index]) + steep * (time % 2))
        doubts.append(float(belief.gain_over(0)[1].mean()))
    assert doubts[1] > 1.2 * doubts[0]


def test_the_prior_knows_that_more_than_one_agent_is_good():
    prior = make_prior(SPACE, SYSTEM, (1,))
    best = prior.settings[int(prior.mean.argmax())]
    assert best.agents > 2
    assert np.linalg.eigvalsh(prior.simulated + prior.apart).min() > -1e-9
    assert make_prior(SPACE, SYSTEM, (1,)) is prior  # made once


def trace_of(verdicts, tps):
    strategy = make_strategy(Plan("sweep", Setting(1, 1, 1), SPACE, SYSTEM))
    trials = []
    for number, verdict in enumerate(verdicts):
        setting = strategy.propose()
        measurement = Measurement(setting, (tps(setting),) * 6, 0.0)
        decision = strategy.observe(measurement)
        decision = Decision(verdict, decision.incumbent, "")
        trials.append(Trial(number, 60.0 * number, 0.0, 60.0, Setting(1, 1, 1), setting, measurement, decision))
    return Trace(Plan("sweep", Setting(1, 1, 1), SPACE, SYSTEM), tuple(trials))


def test_a_landscape_has_what_was_measured_and_simulates_the_rest():
    landscape = landscape_of(trace_of(["refused"] * 10, lambda setting: 10.0 * math.sqrt(setting.agents)))
    assert len(landscape.measured) == 10
    for setting in landscape.settings:
        if landscape.is_measured(setting):
            assert landscape.tps(setting) == pytest.approx(10 * math.sqrt(setting.agents))
        else:
            assert 0.4 < landscape.tps(setting) / (10 * math.sqrt(setting.agents)) < 2.5


def test_a_landscape_after_a_window_without_training():
    rates = iter([10.0, 0.0, 4.0])
    plan = Plan("off", Setting(1, 1, 1), SPACE, SYSTEM)
    trials = tuple(
        Trial(
            number,
            60.0 * number,
            0.0,
            60.0,
            plan.start,
            plan.start,
            Measurement(plan.start, (next(rates),) * 6, 0.0),
            Decision(verdict, plan.start, ""),
        )
        for number, verdict in enumerate(["start", "kept", "reopened"])
    )
    assert landscape_of(Trace(plan, trials)).tps(plan.start) == 4.0


def test_a_landscape_is_that_of_the_machine_as_it_is_now():
    rates = iter([10.0] * 24 + [5.0])
    trace = trace_of(["refused"] * 24 + ["reopened"], lambda setting: next(rates))
    again = trace.trials[-1].measurement.setting
    landscape = landscape_of(trace)
    assert landscape.tps(again) == 5.0
    assert {landscape.tps(setting) for setting in landscape.measured if setting != again} == {10.0}


def test_a_landscape_of_more_threads_than_the_simulator_tells_apart():
    space = Space(4, 10, 1)
    plan = Plan("sweep", Setting(1, 1, 1), space, SYSTEM)
    tried = [Setting(1, 8, 1), Setting(3, 9, 1)]
    assert not {*tried} & {*space.settings()}
    trials = tuple(
        Trial(*(number, 60.0, 0.0, 60.0, plan.start, one), Measurement(one, (7.0,) * 6, 0.0), Decision("kept", one, ""))
        for number, one in enumerate(tried)
    )
    landscape = landscape_of(Trace(plan, trials))
    assert [landscape.tps(one) for one in tried] == [7.0, 7.0]
    assert landscape.tps(Setting(1, 7, 1)) == pytest.approx(7.0, rel=0.5)
