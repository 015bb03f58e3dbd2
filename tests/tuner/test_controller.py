"""The tuner's controller: windows, refusals, deaths and stops, with a made-up server."""

import itertools
import logging
import threading
import time
from dataclasses import replace

import pytest

from tests.helpers.fake_server import LATE, PLAN, FakeServer, trials_of, wait_for_trials
from tests.helpers.waiting import wait_until
from tuner import controller
from tuner.space import Setting
from tuner.strategy import Decision, Measurement
from tuner.trace import read_trace
from tuner.window import Counters, measurement

pytestmark = pytest.mark.alone  # windows of hundredths of a second


class Listed:
    """Proposes these settings in turn, and takes each; the last one for ever."""

    def __init__(self, *settings):
        self._settings = itertools.chain(settings, itertools.repeat(settings[-1]))
        self._incumbent = PLAN.start
        self.told = []

    def propose(self):
        return next(self._settings)

    def observe(self, measured):
        self.told.append(measured)
        if measured.problem:
            return Decision("failed", self._incumbent, measured.problem)
        self._incumbent = measured.setting
        return Decision("accepted", measured.setting, "it was proposed")

    def random_state(self):
        return None


# Windows


def test_each_trial_is_a_row_of_an_equal_window_in_equal_parts(tmp_path, tune):
    server = FakeServer()
    tune(server)
    trials = wait_for_trials(tmp_path, 6)
    assert read_trace(tmp_path).plan == PLAN
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    for before, trial in itertools.pairwise(trials):
        assert trial.before == before.decision.incumbent
        assert trial.seconds - trial.window >= before.seconds
    for trial in trials:
        assert trial.measurement.setting == trial.proposed
        assert len(trial.measurement.tps) == len(trial.measurement.training_queue) == 6
        assert PLAN.window <= trial.window < PLAN.window + LATE
        # The rate of this setting alone: nothing of the one before is in the window.
        assert trial.measurement.mean_tps == pytest.approx(1e5 * trial.proposed.agents, rel=0.01)
        assert trial.measurement.pps == pytest.approx(10 * trial.measurement.mean_tps, rel=0.01)
    assert {trial.decision.verdict for trial in trials} >= {"start", "refused"}


def test_what_runs_already_is_neither_applied_again_nor_settled(tmp_path, tune):
    server = FakeServer()
    other = Setting(3, 1, 1)
    tune(server, lambda _: Listed(PLAN.start, PLAN.start, other, other))
    trials = wait_for_trials(tmp_path, 4)
    assert server.applied == [PLAN.start, other]
    assert [trial.settling > 0 for trial in trials[:4]] == [True, False, True, False]


def test_the_settling_time_is_a_tenth_of_the_window(tmp_path, tune):
    tune(FakeServer(), lambda _: Listed(PLAN.start, Setting(3, 1, 1)), replace(PLAN, window=0.5))
    for trial in wait_for_trials(tmp_path, 2)[:2]:
        assert 0.05 <= trial.settling < 0.05 + LATE


def test_what_a_strategy_computes_is_in_no_window(tmp_path, tune):
    server, busy = FakeServer(), []

    class Slow(Listed):
        def propose(self):
            return self._compute(super().propose)

        def observe(self, measured):
            return self._compute(lambda: Listed.observe(self, measured))

        def _compute(self, what):
            begun = server.counters().seconds
            wait_until(lambda: server.counters().seconds > begun + 0.03)
            busy.append((begun, server.counters().seconds))
            return what()

    tune(server, lambda _: Slow(PLAN.start))
    for trial in wait_for_trials(tmp_path, 3):
        for begun, ended in list(busy):
            assert ended <= trial.seconds - trial.window or begun >= trial.seconds


def test_the_first_window_waits_until_all_agents_of_the_start_play(tmp_path, tune):
    server = FakeServer()
    arriving = iter(["1 of 2 agents play"] * 5)
    settled = []

    def unsettled():
        missing = next(arriving, "")
        if not missing and not settled:
            settled.append(server.counters().seconds)
        return missing

    server.unsettled = unsettled
    tune(server)
    first = wait_for_trials(tmp_path, 1)[0]
    assert first.proposed == PLAN.start
    assert not first.measurement.problem
    assert first.seconds - first.window > settled[0]


def test_a_window_without_any_training_is_measured_as_that(tmp_path, tune):
    tune(FakeServer(rate=lambda setting: 0.0))
    measured = wait_for_trials(tmp_path, 2)[0].measurement
    assert measured.tps == (0.0,) * 6
    assert (measured.pps, measured.lag_mean, measured.lag_max, measured.stale, measured.problem) == (0, 0, 0, 0, "")


def test_the_figures_of_a_window():
    marks = [
        Counters(10.0, 100, 1000, 50, 3, 10, 5, 20, {1: 7, 90: 1}),
        Counters(12.0, 110, 1100, 50, 3, 14, 9, 28, {1: 8, 2: 1, 90: 1}),
        Counters(14.0, 130, 1200, 60, 3, 18, 9, 28, {1: 9, 2: 2, 4: 1, 90: 1}),
    ]
    measured = measurement(Setting(3, 1, 1), marks)
    assert measured == Measurement(
        setting=Setting(3, 1, 1),
        tps=(5.0, 10.0),
        pps=50.0,
        prediction_queue=0.5,
        training_queue=(2.0, 0.0),
        lag_mean=2.0,  # two of 1, two of 2, one of 4
        lag_max=4.0,  # not 90, which was before
        stale=0.05,
    )


# What goes wrong


def test_a_setting_that_the_server_refuses(tmp_path, tune, caplog):
    server = FakeServer()
    wanted = Setting(5, 1, 1)
    apply = server.apply

    def refuse(setting):
        if setting == wanted:
            raise OSError("no more processes")
        apply(setting)

    server.apply = refuse
    with caplog.at_level(logging.INFO, logger="tuner"):
        tune(server, lambda _: Listed(PLAN.start, wanted, PLAN.start))
        trials = wait_for_trials(tmp_path, 3)
    assert trials[1].measurement.problem == "the server refused 5/1/1: no more processes"
    assert trials[1].measurement.setting == PLAN.start  # as it really was
    assert (trials[1].proposed, trials[1].window) == (wanted, 0.0)
    assert trials[1].decision.verdict == "failed"
    assert server.applied[:2] == [PLAN.start, PLAN.start]  # put back
    assert not trials[2].measurement.problem
    assert "tuner: 5/1/1 failed: the server refused 5/1/1: no more processes" in caplog.text


def test_agents_that_never_come(tmp_path, tune):
    server = FakeServer()
    server.unsettled = lambda: "2 of 7 agents play" if server.setting.agents == 7 else ""
    tune(server, lambda _: Listed(PLAN.start, Setting(7, 1, 1), PLAN.start))
    trials = wait_for_trials(tmp_path, 3)
    assert trials[1].measurement.problem == "7/1/1 did not take effect: for 0.3 s only 2 of 7 agents play"


def test_agents_that_die_as_fast_as_others_start(tmp_path, tune):
    """Something changes all the time, so it never stands still for long, and yet it has to be given up."""
    server = FakeServer()
    playing = itertools.cycle(range(2, 7))
    server.unsettled = lambda: f"{next(playing)} of 7 agents play" if server.setting.agents == 7 else ""
    tune(server, lambda _: Listed(PLAN.start, Setting(7, 1, 1), PLAN.start))
    trials = wait_for_trials(tmp_path, 3)
    assert trials[1].measurement.problem.startswith("7/1/1 did not take effect in 0.9 s: ")
    assert not trials[2].measurement.problem
    assert server.setting == PLAN.start
    assert not trials[2].measurement.problem


def test_a_server_that_says_it_did_but_did_not(tmp_path, tune):
    """It keeps its threads as they are and calls that settled: what really runs is looked at."""

    class Stubborn(FakeServer):
        def apply(self, setting):
            super().apply(setting._replace(predictors=1, trainers=1))

    tune(Stubborn(), lambda plan: Listed(Setting(2, 1, 1), Setting(2, 3, 3)))
    wait_until(lambda: len(trials_of(tmp_path)) >= 2)
    trial = trials_of(tmp_path)[1]
    assert "2/1/1 runs" in trial.measurement.problem
    assert trial.decision.verdict == "failed"


def test_as_long_as_more_agents_come_it_waits(tmp_path, tune):
    server = FakeServer()
    begun = time.monotonic()

    def unsettled():  # one more every 0.1 s: longer than the patience in all, never without progress for so long
        playing = int((time.monotonic() - begun) / 0.1)
        return f"{playing} of 5 agents play" if playing < 5 else ""

    server.unsettled = unsettled
    tune(server)
    assert not wait_for_trials(tmp_path, 1)[0].measurement.problem


def test_a_server_that_gives_up_is_not_waited_for(tmp_path, tune, monkeypatch):
    monkeypatch.setattr(controller, "PATIENCE", 60)
    server = FakeServer()

    def give_up():
        if server.setting.agents == 7:
            raise RuntimeError("no further agent could be started")
        return ""

    server.unsettled = give_up
    tune(server, lambda _: Listed(PLAN.start, Setting(7, 1, 1), PLAN.start))
    problem = wait_for_trials(tmp_path, 2)[1].measurement.problem
    assert problem == "the server gave 7/1/1 up: no further agent could be started"


def test_a_server_that_refuses_everything_is_left_in_peace(tmp_path, tune):
    server = FakeServer()
    server.apply = lambda setting: (_ for _ in ()).throw(OSError("no"))
    tune(server, plan=replace(PLAN, window=0.3))
    trials = wait_for_trials(tmp_path, 4)
    pauses = [after.seconds - before.seconds for before, after in itertools.pairwise(trials)]
    assert pauses[2] > 2 * pauses[0] * 0.9  # each longer than the one before


def test_a_window_in_which_an_agent_died_is_measured_again(tmp_path, tune):
    server = FakeServer()
    dying = iter([0, 0, 1])  # after the effect, at the start of the window, after its first part
    counters = server.counters

    def lose_one():
        server.agents_started += next(dying, 0)
        return counters()

    tune(server, lambda _: Listed(PLAN.start))
    server.counters = lose_one
    trial = wait_for_trials(tmp_path, 1)[0]
    assert not trial.measurement.problem
    assert PLAN.window <= trial.window < PLAN.window + LATE
    assert next(dying, None) is None


def test_a_setting_whose_agents_keep_dying(tmp_path, tune):
    server = FakeServer()
    counters = server.counters

    def lose_one():
        server.agents_started += server.setting.agents == 7
        return counters()

    server.counters = lose_one
    tune(server, lambda _: Listed(PLAN.start, Setting(7, 1, 1), PLAN.start))
    trials = wait_for_trials(tmp_path, 3)
    assert trials[1].measurement.problem == "agents died in each of 3 windows under 7/1/1"
    assert not trials[2].measurement.problem


def test_a_stop_in_the_middle_of_a_window_returns_at_once_and_writes_nothing(tmp_path, tune):
    server = FakeServer()
    thread = tune(server, plan=replace(PLAN, window=600.0))
    wait_until(lambda: server.applied)
    before = time.monotonic()
    thread.stop(5)
    assert time.monotonic() - before < 0.5
    assert not thread.is_alive()
    assert read_trace(tmp_path).trials == ()
    assert len(server.applied) == 1  # a server that stops is not changed any more


def test_a_stop_does_not_wait_for_a_strategy_that_computes(tmp_path, tune):
    server, enough = FakeServer(), threading.Event()

    class Computing(Listed):
        def propose(self):
            enough.wait(20)
            return super().propose()

    thread = tune(server, lambda _: Computing(Setting(3, 1, 1)))
    before = time.monotonic()
    thread.stop(0.05)
    assert time.monotonic() - before < 2
    enough.set()
    thread.join(5)
    assert server.applied == []


def test_a_strategy_that_fails_after_a_stop_changes_the_server_no_more(tune, caplog):
    server, enough = FakeServer(), threading.Event()

    class Broken(Listed):
        def propose(self):
            enough.wait(20)
            raise ZeroDivisionError("on purpose")

    thread = tune(server, lambda _: Broken(PLAN.start))
    thread.stop(0)
    enough.set()
    thread.join(10)
    assert "ZeroDivisionError: on purpose" in caplog.text
    assert server.applied == []


def test_an_exception_of_the_strategy_ends_the_tuner_alone(tmp_path, tune, caplog):
    server = FakeServer()

    class Broken(Listed):
        def observe(self, measured):
            if len(self.told) == 2:
                raise ZeroDivisionError("on purpose")
            return super().observe(measured)

    thread = tune(server, lambda _: Broken(PLAN.start, Setting(3, 1, 1), Setting(4, 1, 1)))
    thread.join(10)
    assert not thread.is_alive()
    assert "training goes on with 3/1/1" in caplog.text
    assert "ZeroDivisionError: on purpose" in caplog.text
    assert server.setting == Setting(3, 1, 1)
    assert len(trials_of(tmp_path)) == 2


def test_a_strategy_that_cannot_be_made_ends_the_tuner_alone(tune, caplog):
    server = FakeServer()
    tune(server, lambda _: {}["anneal"]).join(10)
    assert "KeyError" in caplog.text
    assert server.setting == PLAN.start


def test_a_file_that_cannot_be_written_is_told_once_and_tuning_goes_on(tmp_path, tune, caplog):
    (tmp_path / "tuner.jsonl").mkdir()
    server = FakeServer()
    strategy = Listed(PLAN.start)
    tune(server, lambda _: strategy)
    wait_until(lambda: len(strategy.told) >= 3)
    assert caplog.text.count("cannot be written") == 1
