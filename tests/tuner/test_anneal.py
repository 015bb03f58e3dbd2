"""The annealing strategy: each of its rules by a machine that is made for it."""

import dataclasses
import math

import numpy as np
import pytest

from tuner.anneal import HORIZON, HOT, TRIAL, Anneal, Refusal, expected_gain, worth_of_a_window
from tuner.space import Setting, Space
from tuner.strategy import Measurement, Plan, System

SPACE = Space(20, 4, 4)
PLAN = Plan("anneal", Setting(1, 1, 1), SPACE, System(2, False, 1, 5, 40), seed=3, lag_limit=50)


def smooth(setting):
    """Best at 12/2/2, where it is 100."""
    agents, predictors, trainers = (math.log2(number) for number in setting)
    away = (agents - math.log2(12)) ** 2 / 4 + (predictors - 1) ** 2 / 6 + (trainers - 1) ** 2 / 6
    return 100 * math.exp(-away / 2)


def measured(setting, tps, noise=0.02, random=None, **more):
    random = random or np.random.default_rng(0)
    parts = tps * np.exp(noise * math.sqrt(6) * random.normal(size=6))
    return Measurement(setting, tuple(map(float, parts)), pps=40 * tps, **more)


def tune(strategy, tps, windows, noise=0.02, seed=0, **more):
    """Proposals and decisions of a run; ``tps`` of a setting and a window."""
    random = np.random.default_rng(seed)
    rows = []
    for window in range(windows):
        setting = strategy.propose()
        assert setting in SPACE
        rows.append((setting, strategy.observe(measured(setting, tps(setting, window), noise, random, **more))))
    return rows


def test_finds_the_best_in_a_few_windows_and_holds_it():
    strategy = Anneal(PLAN)
    rows = tune(strategy, lambda setting, _: smooth(setting), 60)
    assert all(smooth(decision.incumbent) > 95 for _, decision in rows[14:])
    assert smooth(rows[-1][1].incumbent) > 97
    assert np.mean([smooth(setting) for setting, _ in rows[30:]]) > 97


def test_agents_grow_by_factors_not_by_ones():
    rows = tune(Anneal(PLAN), lambda setting, _: smooth(setting), 3)
    assert rows[1][0].agents >= 4


def test_the_first_window_measures_the_start():
    strategy = Anneal(PLAN)
    assert strategy.propose() == PLAN.start
    assert strategy.observe(measured(PLAN.start, 10.0)).verdict == "start"


def test_the_same_measurements_bring_the_same_decisions():
    def run():
        strategy = Anneal(PLAN)
        return [*tune(strategy, lambda setting, _: smooth(setting), 30), strategy.random_state()]

    assert run() == run()


def test_the_temperature_falls():
    rows = tune(Anneal(PLAN), lambda setting, _: smooth(setting), 40)
    temperatures = [decision.temperature for _, decision in rows]
    assert temperatures == sorted(temperatures, reverse=True)
    assert temperatures[-1] < temperatures[0] / 4


def test_the_incumbent_is_measured_again_near_each_challenger():
    rows = tune(Anneal(PLAN), lambda setting, _: smooth(setting), 60, noise=0.05)
    incumbent, last = PLAN.start, -1
    for window, (setting, decision) in enumerate(rows):
        assert window - last <= 4, f"window {window}: {incumbent} was not measured since window {last}"
        if setting == incumbent or decision.incumbent == setting:
            last = window
        incumbent = decision.incumbent


def test_a_lucky_window_is_not_remembered_as_the_best():
    """A setting that is 20 % worse gets one window 60 % too high: it must not stay the incumbent."""
    strategy, lucky = Anneal(PLAN), []

    def tps(setting, window):
        true = smooth(setting)
        if not lucky and window > 5 and 0.7 < true / 100 < 0.9:
            lucky.append(setting)
            return 1.6 * true
        return true

    rows = tune(strategy, tps, 60, noise=0.05, seed=4)
    assert lucky
    assert smooth(rows[-1][1].incumbent) > 91


def test_a_drift_is_not_mistaken_for_a_gain():
    """Everything gets 1 % faster with each window; the best stays the best."""
    rows = tune(Anneal(PLAN), lambda setting, window: smooth(setting) * 1.01**window, 60, noise=0.02)
    assert smooth(rows[-1][1].incumbent) > 95


def test_holds_and_probes_rarely_once_nothing_promises_more():
    rows = tune(Anneal(PLAN), lambda setting, _: smooth(setting), 100)
    tried = sum(setting != rows[window - 1][1].incumbent for window, (setting, _) in enumerate(rows) if window >= 60)
    assert 1 <= tried <= 12


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_opens_again_when_the_machine_changes(factor):
    """Another program takes (or gives back) cores: TPS changes, and the best is elsewhere."""

    def tps(setting, window):
        if window < 40:
            return smooth(setting)
        return factor * smooth(setting._replace(agents=min(4 * setting.agents, 80)))  # now best at 3 agents

    rows = tune(Anneal(PLAN), tps, 80)
    verdicts = [decision.verdict for _, decision in rows]
    assert "reopened" not in verdicts[:40]
    assert "reopened" in verdicts[40:46]
    assert "the machine has changed" in rows[verdicts.index("reopened")][1].reason
    assert rows[-1][1].incumbent.agents <= 4


def test_what_was_refused_or_failed_is_tried_again_on_a_changed_machine():
    """Two agents had too much lag, and a second predictor could not be had, until another program came or went."""
    few, many, failing = Setting(1, 1, 1), Setting(2, 1, 1), Setting(1, 2, 1)
    strategy = Anneal(dataclasses.replace(PLAN, space=Space(2, 2, 1)))

    def window(changed):
        setting = strategy.propose()
        if setting.predictors > 1 and not changed:
            return setting, strategy.observe(Measurement(few, (0.0,), 0.0, problem="no more threads"))
        lag = 60.0 if setting.agents > 1 and not changed else 1.0
        return setting, strategy.observe(measured(setting, 50.0 if changed else 100.0, lag_mean=lag))

    before = [window(changed=False) for _ in range(30)]
    assert {many, failing} <= {setting for setting, _ in before}
    assert {setting for setting, _ in before[10:]} == {few}
    reopened = next(decision for _ in range(10) if (decision := window(changed=True)[1]).verdict == "reopened")
    assert reopened.temperature == HOT
    assert {many, failing} <= {window(changed=True)[0] for _ in range(10)}


def test_a_setting_that_wins_by_lag_is_refused_with_that_reason():
    strategy = Anneal(PLAN)
    random = np.random.default_rng(0)
    reasons, incumbents = [], []
    for _ in range(40):
        setting = strategy.propose()
        lag = 6.0 * setting.agents  # over the limit of 50 from 9 agents on
        decision = strategy.observe(measured(setting, smooth(setting), 0.02, random, lag_mean=lag))
        incumbents.append(decision.incumbent)
        if lag > 50:
            assert decision.verdict == "refused"
            reasons.append(decision.reason)
    assert reasons
    assert all("lag" in reason and "limit of 50" in reason for reason in reasons)
    assert len(reasons) <= 5  # what was refused is not tried again, nor what has more agents and trainers
    assert all(incumbent.agents <= 8 for incumbent in incumbents)


def test_without_a_limit_lag_is_no_reason():
    strategy = Anneal(dataclasses.replace(PLAN, lag_limit=0))
    rows = tune(strategy, lambda setting, _: smooth(setting), 30, lag_mean=500.0)
    assert smooth(rows[-1][1].incumbent) > 95


def test_a_start_over_the_limit_is_left():
    strategy = Anneal(dataclasses.replace(PLAN, start=Setting(16, 2, 2)))
    for _ in range(10):
        setting = strategy.propose()
        decision = strategy.observe(measured(setting, 100.0, lag_mean=6.0 * setting.agents))
    assert decision.incumbent.agents <= 8


def test_a_growing_training_queue_is_refused():
    strategy = Anneal(PLAN)
    strategy.propose()
    strategy.observe(measured(PLAN.start, 10.0))
    setting = strategy.propose()
    decision = strategy.observe(measured(setting, 90.0, training_queue=(5.0, 40.0, 80.0, 120.0, 160.0, 200.0)))
    assert decision.verdict == "refused"
    assert decision.reason == "the training queue grew from 42 to 160 experiences"


def test_a_queue_that_fills_to_its_bound_is_no_growth():
    strategy = Anneal(PLAN)
    strategy.propose()
    strategy.observe(measured(PLAN.start, 10.0))
    decision = strategy.observe(measured(strategy.propose(), 90.0, training_queue=(0.0, 8.0, 16.0, 17.0, 16.0, 17.0)))
    assert decision.verdict == "accepted"


def test_more_trainers_are_worse_for_lag_and_better_for_a_queue():
    lag, queue = (Refusal(Setting(4, 1, 2), more_trainers=worse) for worse in (True, False))
    assert lag.covers(Setting(4, 3, 2))
    assert lag.covers(Setting(5, 1, 3))
    assert not lag.covers(Setting(3, 1, 3))
    assert not lag.covers(Setting(5, 1, 1))
    assert queue.covers(Setting(5, 1, 1))
    assert not queue.covers(Setting(5, 1, 3))


def test_a_refused_challenger_does_not_drive_the_incumbent_out():
    """4/2/1 is refused for its lag; 4/1/1 was within the limit and stays, however slow the next challenger is."""
    start = Setting(4, 1, 1)
    strategy = Anneal(dataclasses.replace(PLAN, start=start))
    strategy.propose()
    strategy.observe(measured(start, 100.0))
    strategy._proposal = Setting(4, 2, 1)
    assert strategy.observe(measured(Setting(4, 2, 1), 120.0, lag_mean=51.0)).verdict == "refused"
    for _ in range(6):
        setting = strategy.propose()
        decision = strategy.observe(measured(setting, 100.0 if setting == start else 30.0))
        assert decision.incumbent == start


def test_where_nothing_is_within_the_limit_the_smallest_is_held():
    strategy = Anneal(dataclasses.replace(PLAN, start=Setting(4, 1, 1), lag_limit=1))
    for _ in range(8):
        setting = strategy.propose()
        decision = strategy.observe(measured(setting, 10.0, lag_mean=2.0 * setting.agents))
    assert decision.incumbent == Setting(1, 1, 1)
    assert strategy.propose() == Setting(1, 1, 1)


def test_a_space_without_a_choice_is_held():
    only = Setting(1, 1, 1)
    strategy = Anneal(dataclasses.replace(PLAN, start=only, space=Space(1, 1, 1)))
    for _ in range(20):
        assert strategy.propose() == only
        assert strategy.observe(measured(only, 10.0)).incumbent == only


def test_an_incumbent_that_makes_no_updates_is_left():
    strategy = Anneal(PLAN)
    random = np.random.default_rng(0)
    for window in range(5):
        setting = strategy.propose()
        assert (setting == PLAN.start) == (window < 2)
        tps = 0.0 if setting == PLAN.start else 20.0
        decision = strategy.observe(measured(setting, tps, 0.02, random))
    assert decision.incumbent != PLAN.start


def test_goes_back_to_what_all_windows_say_is_better():
    """The challenger's first window was lucky; when it is measured again, it is left."""
    start = Setting(8, 2, 2)
    strategy = Anneal(dataclasses.replace(PLAN, start=start))
    strategy.propose()
    strategy.observe(measured(start, 100.0, 0.0))
    lucky = strategy.propose()
    assert strategy.observe(measured(lucky, 115.0, 0.0)).incumbent == lucky
    verdicts = []
    for _ in range(8):
        setting = strategy.propose()
        decision = strategy.observe(measured(setting, 80.0 if setting == lucky else 100.0, 0.0))
        verdicts.append(decision.verdict)
        if decision.incumbent != lucky:
            break
    assert decision.incumbent != lucky
    assert verdicts[-1] in ("returned", "accepted")


@pytest.mark.parametrize(("tps", "gain", "returns"), [(98.0, 0.002, False), (97.0, 0.006, True)])
def test_goes_back_for_a_gain_that_is_worth_it(tps, gain, returns):
    """The challenger is measured once more, and all windows together now say that the start has this gain over it."""
    start, lucky = Setting(8, 2, 2), Setting(8, 2, 1)
    strategy = Anneal(dataclasses.replace(PLAN, start=start))
    strategy.propose()
    strategy.observe(measured(start, 100.0, 0.0))
    strategy._proposal = lucky
    assert strategy.observe(measured(lucky, 101.0, 0.0)).incumbent == lucky
    strategy._temperature = HOT  # or it would have to be sure as well
    decision = strategy.observe(measured(lucky, tps, 0.0))
    indices = [strategy._index(setting) for setting in (start, lucky)]
    gains, _ = strategy._knowledge.gain_over(indices[1])
    assert gains[indices[0]] == pytest.approx(gain, abs=0.001)
    assert (decision.verdict, decision.incumbent) == (("returned", start) if returns else ("kept", lucky))


def taken(temperature, tps, noise):
    """How many of 40 strategies accept a challenger with this TPS, where the incumbent had 100, at a temperature."""
    count = 0
    for seed in range(40):
        strategy = Anneal(dataclasses.replace(PLAN, seed=seed, start=Setting(8, 2, 2)))
        strategy.propose()
        strategy.observe(measured(Setting(8, 2, 2), 100.0, 0.0))
        strategy._temperature = temperature
        decision = strategy.observe(measured(strategy.propose(), tps, noise))
        count += decision.verdict == "accepted"
    return count


def test_a_slightly_worse_challenger_is_taken_while_it_is_hot():
    assert taken(0.025, 97.0, 0.0) > 2  # it cools before it decides
    assert taken(0.0005, 97.0, 0.0) < taken(0.025, 97.0, 0.0)


def test_a_gain_has_to_be_sure_once_it_is_cold():
    assert taken(0.0005, 101.0, 0.1) < taken(0.025, 101.0, 0.1) / 2


@pytest.mark.parametrize("noise", [0.02, 0.10])
def test_the_noise_is_learnt_from_the_parts_of_windows(noise):
    strategy = Anneal(PLAN)
    tune(strategy, lambda setting, _: smooth(setting), 30, noise=noise)
    assert strategy._noise() == pytest.approx(noise, rel=0.5)


def test_windows_that_vary_by_more_than_their_parts_tell_make_the_noise_larger():
    only = Setting(1, 1, 1)

    def noise(between):
        """What is believed of windows whose parts vary by 1 %, and which differ from each other by this."""
        strategy, random = Anneal(dataclasses.replace(PLAN, space=Space(1, 1, 1))), np.random.default_rng(0)
        for _ in range(20):
            strategy.propose()
            strategy.observe(measured(only, 100.0 * math.exp(between * random.normal()), 0.01, random))
        return strategy._noise()

    assert noise(0.03) > 1.3 * noise(0.0)


def settled():
    """A strategy that has found the best and is about to measure its incumbent, that setting, and the noise so far."""
    strategy = Anneal(PLAN)
    random = np.random.default_rng(0)
    for _ in range(40):
        setting = strategy.propose()
        strategy.observe(measured(setting, smooth(setting), 0.02, random))
    while (setting := strategy.propose()) != strategy._incumbent or strategy._suspect:
        strategy.observe(measured(setting, smooth(setting), 0.02, random))
    return strategy, setting, random


@pytest.mark.parametrize("second", [0.5, 1.0, 2.0])
def test_one_window_far_off_is_measured_again_and_only_two_mean_a_change(second):
    strategy, setting, random = settled()
    odd = strategy.observe(measured(setting, 0.5 * smooth(setting), 0.02, random))
    assert odd.verdict == "kept"
    assert "measured again at once" in odd.reason
    assert strategy.propose() == setting
    again = strategy.observe(measured(setting, second * smooth(setting), 0.02, random))
    assert (again.verdict == "reopened") == (second == 0.5)


def test_a_disturbed_window_is_forgotten():
    strategy, setting, random = settled()
    expected = strategy._surprise(measured(setting, smooth(setting), 0.0))[1]
    strategy.observe(measured(setting, 0.5 * smooth(setting), 0.02, random))
    strategy.observe(measured(strategy.propose(), smooth(setting), 0.02, random))
    assert strategy._surprise(measured(setting, smooth(setting), 0.0))[1] == pytest.approx(expected, abs=0.03)


def test_a_change_that_single_windows_hide_is_noticed():
    """15 % less at a noise of 5 %: no window is far off by itself."""
    noticed = 0
    for seed in range(10):
        rows = tune(
            Anneal(PLAN), lambda setting, window: smooth(setting) * (0.85 if window >= 40 else 1), 60, 0.05, seed
        )
        verdicts = [decision.verdict for _, decision in rows]
        assert verdicts[:40].count("reopened") <= 1
        noticed += "reopened" in verdicts[40:52]
    assert noticed >= 7


def test_steps_that_were_too_old_are_a_reason_to_refuse():
    strategy = Anneal(PLAN)
    strategy.propose()
    strategy.observe(measured(PLAN.start, 10.0))
    decision = strategy.observe(measured(strategy.propose(), 90.0, stale=0.2))
    assert (decision.verdict, decision.reason) == ("refused", "20% of the steps were too old to train on")


def test_a_setting_that_the_server_refuses_is_not_tried_again():
    strategy = Anneal(PLAN)
    strategy.propose()
    strategy.observe(measured(PLAN.start, 10.0))
    refused = set()
    for _ in range(12):
        setting = strategy.propose()
        assert setting not in refused
        if setting == PLAN.start:
            strategy.observe(measured(setting, 10.0))
            continue
        refused.add(setting)
        decision = strategy.observe(Measurement(PLAN.start, (0.0,), 0.0, problem="no more processes"))
        assert (decision.verdict, decision.incumbent) == ("failed", PLAN.start)
        assert decision.reason == "no more processes"


def test_a_window_without_any_training():
    strategy = Anneal(PLAN)
    strategy.propose()
    assert strategy.observe(Measurement(PLAN.start, (0.0,) * 6, 5.0)).verdict == "kept"
    assert strategy.propose() == PLAN.start
    strategy.observe(measured(PLAN.start, 10.0))
    setting = strategy.propose()
    decision = strategy.observe(Measurement(setting, (0.0,) * 6, 5.0))
    assert (decision.verdict, decision.incumbent) == ("refused", PLAN.start)
    assert setting not in [strategy.propose() for _ in range(3)]


def test_a_problem_in_the_very_first_window():
    strategy = Anneal(PLAN)
    strategy.propose()
    assert strategy.observe(Measurement(PLAN.start, (0.0,), 0.0, problem="agents died")).verdict == "failed"
    assert strategy.propose() == PLAN.start


def test_expected_gain_by_hand():
    gain = expected_gain(np.array([0.0, 1.0, -1.0, 0.5]), np.array([1.0, 0.0, 0.0, 0.0]))
    assert gain == pytest.approx([1 / math.sqrt(2 * math.pi), 1.0, 0.0, 0.5], abs=1e-6)


def test_worth_of_a_window_by_hand():
    """With a deviation of 4 % and noise of 3 % a window shows 0.04² / 0.05 = 3.2 %, of which 0.4 is expected gain."""
    worth = worth_of_a_window(np.array([0.0, -0.5, 0.0]), np.array([0.04, 0.04, 0.0]), 0.03)
    trial = TRIAL / HORIZON
    assert worth == pytest.approx([0.032 / math.sqrt(2 * math.pi) - trial, -trial - 0.5 / HORIZON, -trial], abs=1e-6)


def test_what_is_known_to_be_slow_is_not_tried_again():
    """Once it is cold, a window goes to what may be better, not to what has half the updates."""
    slow = 70
    rows = tune(Anneal(PLAN), lambda setting, _: smooth(setting), 100)
    tried = [setting for window, (setting, _) in enumerate(rows) if window >= 20 and smooth(setting) < slow]
    assert len(tried) <= 1
