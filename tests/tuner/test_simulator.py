"""The simulator: against cases with known answers, and against what the paper says of its systems."""

import time
from dataclasses import replace

import numpy as np
import pytest

from tuner.machines import PAPER_SYSTEMS, usual_machine
from tuner.simulator import Machine, simulate
from tuner.space import Setting
from tuner.strategy import System

MS = 1e-3
PLENTY = Machine(
    cores=64,
    gpu=True,
    env_step=2 * MS,
    agent_turn=0.0,
    predict_host=1 * MS,
    predict_host_each=0.0,
    predict_base=1 * MS,
    predict_each=0.0,
    train_host=0.01 * MS,
    train_base=0.01 * MS,
    train_each=0.0,
    lock=1.0,
    crowding=0.0,
    switching=0.0,
)
SYSTEM = System(cores=64, gpu=True, t_max=5, min_batch=5)


def tps(machine, *settings, system=SYSTEM, rounds=20_000):
    return simulate(machine, system, [Setting(*numbers) for numbers in settings], rounds=rounds).tps


def test_one_agent_takes_its_turns_one_after_the_other():
    """2 ms to play, 2 ms for its prediction: 250 steps a second, an update each 5 of them."""
    assert tps(PLENTY, (1, 1, 1))[0] == pytest.approx(50, rel=0.03)


def test_an_update_takes_whole_experiences():
    """At 250 steps a second, 7 or 10 samples are two experiences of 5, and 11 are three."""
    batches = [replace(SYSTEM, min_batch=batch) for batch in (7, 10, 11)]
    rates = [tps(PLENTY, (1, 1, 1), system=system, rounds=2000)[0] for system in batches]
    assert rates == pytest.approx([25, 25, 250 / 15], rel=0.03)


def test_the_two_halves_of_an_agent_share_one_process():
    """2 ms a step and predictions for nothing: 500 steps a second, whichever half is on."""
    machine = replace(PLENTY, predict_host=1e-6, predict_base=1e-6)
    system = replace(SYSTEM, envs_per_agent=2)
    assert tps(machine, (1, 1, 1), (3, 1, 1), system=system, rounds=2000) == pytest.approx([100, 300], rel=0.03)


def test_agents_do_not_get_more_than_the_cores():
    """Two cores, 2 ms a step, predictions for nothing: 1,000 steps a second however many agents there are."""
    machine = replace(PLENTY, cores=2, predict_host=1e-6, predict_base=1e-6)
    assert tps(machine, (8, 1, 1), (32, 1, 1)) == pytest.approx([200, 200], rel=0.04)


def test_crowding_costs():
    machine = replace(PLENTY, cores=2, predict_host=1e-6, predict_base=1e-6, crowding=0.1)
    few, many = tps(machine, (8, 1, 1), (64, 1, 1))
    assert many / few == pytest.approx(1.2 / 1.5, rel=0.04)  # two and five doublings beyond the cores


def test_a_slow_trainer_limits_and_a_second_one_helps():
    """20 ms per update: 50 a second with one trainer, and twice that with two where the device takes both."""
    machine = replace(PLENTY, gpu=False, train_base=20 * MS)
    assert tps(machine, (16, 1, 1), (16, 1, 2)) == pytest.approx([50, 100], rel=0.04)


def test_one_device_is_shared():
    machine = replace(PLENTY, train_base=20 * MS)
    one, two = tps(machine, (16, 1, 1), (16, 1, 2))
    assert two < 1.15 * one


def test_pythons_lock_is_shared():
    """Host work of 20 ms under the lock: a second trainer brings nothing."""
    machine = replace(PLENTY, train_host=20 * MS)
    one, two = tps(machine, (16, 1, 1), (16, 1, 2))
    assert two < 1.1 * one


def test_more_agents_make_larger_predictions():
    batches = simulate(PLENTY, SYSTEM, [Setting(2, 1, 1), Setting(64, 1, 1)]).prediction_batch
    assert batches[1] > 8 * batches[0]


def test_the_training_queue_is_bounded():
    machine = replace(PLENTY, train_base=20 * MS, queue_batches=3)
    result = simulate(machine, SYSTEM, [Setting(32, 1, 1)])
    assert 1 < result.training_queue[0] < 3 + 32 / 5  # what is under way when it is full still comes


def test_several_machines_at_once_are_each_as_alone():
    other = replace(PLENTY, cores=2, train_base=5 * MS)
    settings = [Setting(1, 1, 1), Setting(8, 2, 2)]
    both = simulate([PLENTY, other], SYSTEM, settings, rounds=2000).tps
    assert both[:2] == pytest.approx(simulate(PLENTY, SYSTEM, settings, rounds=2000).tps)
    assert both[2:] == pytest.approx(simulate(other, SYSTEM, settings, rounds=2000).tps)


def test_the_papers_system_one():
    """The best is about 128 agents with two predictors and two trainers; ratios of 1:8 and 1:4 are rarely good."""
    system = System(16, True, 1, 5, 1)
    threads = (1, 2, 4, 8)
    settings = [Setting(agents, p, t) for agents in (16, 32, 64, 128) for p in threads for t in threads]
    rates = dict(zip(settings, simulate(PAPER_SYSTEMS["System I"], system, settings, rounds=12_000).tps, strict=True))
    best = max(rates.values())
    assert rates[Setting(128, 2, 2)] > 0.98 * best
    assert rates[Setting(128, 2, 2)] > 1.02 * rates[Setting(32, 2, 2)]
    top = sorted((rate for setting, rate in rates.items() if setting.agents == 128), reverse=True)[:3]
    assert 0.80 < top[-1] / top[0] < 0.99
    for setting, rate in rates.items():
        if setting.agents == 128 and setting.trainers >= 4 * setting.predictors:
            assert rate < 0.97 * best


def test_more_cores_are_never_much_worse():
    system = System(8, True)
    settings = [Setting(agents, 2, 2) for agents in (1, 4, 16, 64)]
    for name, machine in PAPER_SYSTEMS.items():
        half = simulate(replace(machine, cores=machine.cores / 2), system, settings).tps
        assert (simulate(machine, system, settings).tps > 0.95 * half).all(), name


def test_thousands_of_trials_in_a_minute():
    machine = usual_machine(np.random.default_rng(0), 8, True)
    settings = [Setting(agents, p, t) for agents in range(1, 26) for p in range(1, 5) for t in range(1, 5)]
    before = time.process_time()
    simulate(machine, System(8, True), settings, rounds=3000)
    assert 60 * len(settings) / (time.process_time() - before) > 3000
