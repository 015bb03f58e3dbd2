"""The paper's walk, the sweep, no tuner at all, and the bounds that all of them keep."""

import dataclasses
import itertools

import pytest

from tuner.space import Setting, Space, space_of, thread_steps
from tuner.strategies import STRATEGIES, make_strategy
from tuner.strategy import Measurement, Plan, System

PLAN = Plan("paper", Setting(2, 1, 1), Space(6, 2, 2), System(2))


def measured(setting, tps):
    return Measurement(setting, (tps,) * 6, pps=5 * tps)


def test_the_walk_changes_one_number_by_one_and_stays_inside():
    strategy = make_strategy(PLAN)
    strategy.observe(measured(strategy.propose(), 10.0))
    incumbent = PLAN.start
    for window in range(200):
        setting = strategy.propose()
        assert sum(abs(new - old) for new, old in zip(setting, incumbent, strict=True)) == 1
        assert setting in PLAN.space
        incumbent = strategy.observe(measured(setting, 10.0 + window % 3)).incumbent


def test_the_walk_compares_with_the_incumbent_not_with_the_last_trial():
    strategy = make_strategy(PLAN)
    strategy.observe(measured(strategy.propose(), 10.0))
    assert strategy.observe(measured(strategy.propose(), 5.0)).verdict == "refused"
    decision = strategy.observe(measured(strategy.propose(), 8.0))  # above the last trial, below the incumbent
    assert (decision.verdict, decision.incumbent) == ("refused", PLAN.start)
    setting = strategy.propose()
    assert strategy.observe(measured(setting, 10.5)).incumbent == setting


def test_the_walk_keeps_its_incumbent_after_a_problem():
    strategy = make_strategy(PLAN)
    strategy.observe(measured(strategy.propose(), 10.0))
    strategy.propose()
    decision = strategy.observe(Measurement(PLAN.start, (0.0,), 0.0, problem="refused"))
    assert (decision.verdict, decision.incumbent, decision.reason) == ("failed", PLAN.start, "refused")


def test_off_changes_nothing():
    strategy = make_strategy(dataclasses.replace(PLAN, strategy="off"))
    assert {strategy.propose() for _ in range(5)} == {PLAN.start}
    assert strategy.observe(measured(PLAN.start, 1.0)).incumbent == PLAN.start


def test_the_sweep_visits_every_setting_of_its_grid_once_per_pass():
    strategy = make_strategy(dataclasses.replace(PLAN, strategy="sweep"))
    passes = []
    for _ in range(2):
        seen = []
        for _ in range(16):
            setting = strategy.propose()
            seen.append(setting)
            decision = strategy.observe(measured(setting, float(sum(setting))))
        passes.append(seen)
    assert (
        sorted(passes[0])
        == sorted(passes[1])
        == sorted(
            Setting(agents, predictors, trainers)
            for agents in (1, 2, 4, 6)
            for predictors in (1, 2)
            for trainers in (1, 2)
        )
    )
    assert passes[0] != passes[1]
    assert decision.incumbent == Setting(6, 2, 2)


def test_the_sweep_leaves_out_a_bound_that_is_close_to_a_doubling():
    strategy = make_strategy(dataclasses.replace(PLAN, strategy="sweep", space=Space(5, 3, 1)))
    seen = {strategy.propose() for _ in range(9)}
    assert seen == {Setting(*numbers) for numbers in itertools.product((1, 2, 4), (1, 2, 3), (1,))}


def test_the_sweep_takes_what_is_best_in_the_mean_and_says_what_became_of_it():
    strategy = make_strategy(dataclasses.replace(PLAN, strategy="sweep"))
    small, large = Setting(1, 1, 1), Setting(4, 1, 1)
    tried = [(small, 10.0), (large, 14.0), (large, 9.0), (large, 4.0)]
    said = [strategy.observe(measured(setting, tps)) for setting, tps in tried]
    assert [(decision.verdict, decision.incumbent) for decision in said] == [
        ("accepted", small),
        ("accepted", large),
        ("refused", large),  # nothing changes: 11.5 in the mean
        ("returned", small),  # 9 in the mean
    ]
    failed = strategy.observe(Measurement(PLAN.start, (99.0,), 0.0, problem="no more processes"))
    assert (failed.verdict, failed.incumbent, failed.reason) == ("failed", small, "no more processes")
    assert strategy.observe(measured(large, 8.0)).incumbent == small


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_are_pure(name):
    """The same plan and the same measurements bring the same proposals, decisions and random numbers."""

    def run():
        strategy = make_strategy(dataclasses.replace(PLAN, strategy=name))
        rows = []
        for window in range(12):
            setting = strategy.propose()
            rows.append((setting, strategy.observe(measured(setting, sum(setting) + window % 2))))
        return rows, strategy.random_state()

    assert run() == run()


def test_bounds_come_from_cores_and_memory():
    assert space_of(16).agents == 160
    assert space_of(2).agents == 40  # of one environment each
    assert space_of(2, envs_per_agent=4).agents == 20
    assert space_of(2, envs_per_agent=16).agents == 5
    assert space_of(2, memory=1e9, agent_memory=1e8).agents == 5
    assert space_of(2, memory=1e6, agent_memory=1e8).agents == 1
    assert space_of(16, envs_per_agent=64).agents == 18  # two more than cores
    assert space_of(1000).agents == 4096
    for cores, threads in ((1, 4), (10, 5), (64, 6)):
        assert space_of(cores).most[1:] == (threads, threads)


def test_a_space_has_what_is_from_one_up_to_its_bounds():
    space = Space(3, 2, 1)
    for agents, predictors, trainers in itertools.product(range(5), repeat=3):
        inside = agents in (1, 2, 3) and predictors in (1, 2) and trainers == 1
        assert (Setting(agents, predictors, trainers) in space) == inside


def test_steps_of_agents_are_close_enough_and_reach_the_bound():
    for most in (1, 2, 7, 20, 160):
        steps = Space(most, 1, 1).agent_steps(5)
        assert steps[0] == 1
        assert steps[-1] == most
        assert all(after - before <= max(1, before // 8) for before, after in itertools.pairwise(steps))
    assert thread_steps(4) == [1, 2, 3, 4]
    assert thread_steps(64) == [1, 2, 3, 4, 5, 6, 12, 24, 48, 64]
    assert 11 in Space(20, 1, 1).agent_steps(11)
