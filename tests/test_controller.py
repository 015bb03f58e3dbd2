"""The tuner's controller: windows, refusals, deaths, stops and resumed traces, with made-up servers and a real one."""

import itertools
import json
import logging
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from running import ROOT, finish, run, start
from test_server import Run
from waiting import wait_until

import tuner
from ga3c.config import TUNERS, Config
from ga3c.tuning import TunableServer, make_plan
from tuner import controller
from tuner.controller import Controller
from tuner.record import Record, restore
from tuner.space import Setting, Space
from tuner.strategies import STRATEGIES
from tuner.strategy import Decision, Measurement, Paper, Plan, System
from tuner.trace import VERSION, TraceError, Trial, header_line, read_trace, trial_line
from tuner.window import Counters, measurement

PLAN = Plan("paper", Setting(2, 1, 1), Space(8, 4, 4), System(2), window=0.06)
LATE = 0.4  # seconds that a loaded machine may take to wake a thread up


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(controller, "SETTLING_LEAST", 0.01)
    monkeypatch.setattr(controller, "PATIENCE", 0.3)
    monkeypatch.setattr(controller, "ENV_PATIENCE", 0.0)
    monkeypatch.setattr(controller, "LOOK_SECONDS", 0.002)


class FakeServer:
    """Trains at a rate that its setting decides, and does at once what it is told, unless a test says otherwise."""

    def __init__(self, setting=PLAN.start, rate=lambda setting: 1e5 * setting.agents):
        self.setting = setting
        self.applied = []
        self.agents_started = 0
        self._rate = rate
        self._updates, self._seconds = 0.0, time.monotonic()

    def apply(self, setting):
        self._advance()
        self.applied.append(setting)
        self.setting = setting

    def unsettled(self):
        return ""

    def counters(self):
        self._advance()
        return Counters(self._seconds, int(self._updates), int(10 * self._updates), agents_started=self.agents_started)

    def _advance(self):
        now = time.monotonic()
        self._updates += (now - self._seconds) * self._rate(self.setting)
        self._seconds = now


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


@pytest.fixture
def tune(tmp_path):
    """Start a controller; all that were started are stopped at the end."""
    running = []

    def begin(server, make=Paper, plan=PLAN, resumed=None):
        running.append(Controller(server, plan, Record(tmp_path), make, resumed))
        running[-1].start()
        return running[-1]

    yield begin
    for thread in running:
        thread.stop(5)
        assert not thread.is_alive()


def trials_of(path):
    try:
        return read_trace(path).trials
    except TraceError:  # it is not there yet, or has no line yet
        return ()


def wait_for_trials(path, count):
    return wait_until(lambda: (trials := trials_of(path)) and len(trials) >= count and trials)


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


# Going on with a trace


def trace_of(path, count, plan=PLAN, seed=7):
    """A trace of the paper's walk, as a run that was ended left it; returns its strategy."""
    strategy = Paper(plan)
    lines = [header_line(plan)]
    incumbent = plan.start
    for number in range(1, count + 1):
        proposed = strategy.propose()
        tps = (100.0 + (37 * number * seed) % 50,) * 6
        measured = Measurement(proposed, tps, 1.0, training_queue=(1.0,) * 6)
        decision = strategy.observe(measured)
        state = strategy.random_state()
        trial = Trial(number, 60.0 * number, 1.0, 60.0, incumbent, proposed, measured, decision, state)
        lines.append(trial_line(trial))
        incumbent = decision.incumbent
    (path / "tuner.jsonl").write_text("".join(lines))
    return strategy


def resume(path, plan=PLAN):
    return Record(path).resumable(plan)


def test_a_resumed_tuner_goes_on_as_if_it_had_not_stopped(tmp_path, tune):
    strategy = trace_of(tmp_path, 9)
    before = (tmp_path / "tuner.jsonl").read_text()
    # Start and bounds are those of the trace: what is free on a machine differs from start to start.
    trace = resume(tmp_path, replace(PLAN, start=Setting(1, 1, 1), space=Space(9, 4, 4)))
    tune(FakeServer(), resumed=trace)
    tenth = wait_for_trials(tmp_path, 10)[9]
    assert tenth.number == 10
    assert tenth.before == trace.trials[-1].decision.incumbent
    assert tenth.proposed == strategy.propose()
    assert (tmp_path / "tuner.jsonl").read_text().startswith(before)
    assert read_trace(tmp_path).plan == PLAN


def test_a_trace_without_trials_is_gone_on_with(tmp_path, tune):
    trace_of(tmp_path, 0)
    tune(FakeServer(), resumed=resume(tmp_path))
    assert wait_for_trials(tmp_path, 1)[0].decision.verdict == "start"


@pytest.mark.parametrize("end", ['{"trial": 5, "seco', "\n", "garbage\n"])
def test_a_broken_last_line_is_cut_off(tmp_path, tune, end):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    whole = file.read_text()
    file.write_text(whole + end)
    tune(FakeServer(), resumed=resume(tmp_path))
    assert wait_for_trials(tmp_path, 5)[4].number == 5
    assert file.read_text().startswith(whole)


def test_a_last_line_without_its_end_is_completed(tmp_path, tune):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    whole = file.read_text()
    file.write_text(whole.removesuffix("\n"))
    tune(FakeServer(), resumed=resume(tmp_path))
    assert [trial.number for trial in wait_for_trials(tmp_path, 5)[:5]] == [1, 2, 3, 4, 5]
    assert file.read_text().startswith(whole)


def break_version(text):
    return text.replace(f'"version": {VERSION}', '"version": 99')


def break_middle(text):
    return text.replace('"trial": 2,', '"trial": 2', 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (break_version, "is of version 99"),
        (break_middle, "line 3 is broken"),
        (lambda text: "", "is empty"),
        (lambda text: text.replace('"min_batch": 1', '"min_batch": 7'), "another plan"),
        (lambda text: text.replace('"window": 0.06', '"window": 20.0', 1), "another plan"),
    ],
)
def test_a_trace_that_does_not_fit_is_moved_aside(tmp_path, tune, caplog, change, reason):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    changed = change(file.read_text())
    file.write_text(changed)
    assert resume(tmp_path) is None
    assert "begins anew" in caplog.text
    assert reason in caplog.text
    assert (tmp_path / "tuner-1.jsonl").read_text() == changed
    tune(FakeServer())
    assert wait_for_trials(tmp_path, 1)[0].number == 1
    trace_of(tmp_path, 4)
    file.write_text(changed)
    assert resume(tmp_path) is None
    assert (tmp_path / "tuner-2.jsonl").read_text() == changed


def test_a_trace_whose_decisions_are_no_longer_made_is_moved_aside(tmp_path, tune, caplog):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + lines[1] + lines[3])  # as if the walk had taken another way
    fresh = replace(PLAN, start=Setting(4, 2, 2))
    tune(FakeServer(), plan=fresh, resumed=resume(tmp_path))
    wait_until((tmp_path / "tuner-1.jsonl").exists)
    first = wait_for_trials(tmp_path, 1)[0]
    assert (first.number, first.proposed) == (1, fresh.start)
    assert read_trace(tmp_path).plan == fresh
    assert "trial 3 was" in caplog.text


def test_every_strategy_is_restored_from_its_own_trace(tmp_path, tune):
    for name, make in STRATEGIES.items():
        directory = tmp_path / name
        directory.mkdir()
        plan = replace(PLAN, strategy=name)
        thread = Controller(FakeServer(), plan, Record(directory), make)
        thread.start()
        trials = wait_for_trials(directory, 5)
        thread.stop(5)
        strategy = make(plan)
        restore(strategy, replace(read_trace(directory), trials=trials))
        assert strategy.random_state() == trials[-1].random_state or name == "off", name


# The plan, and the real server


def resolved(**settings):
    return Config(**{"agents": 3, "envs_per_agent": 2, "tuner": "paper", **settings})


def test_the_plan_of_a_run():
    plan = make_plan(resolved(seed=5, tuner_window=20.0), gpu=True, agent_memory=1e6)
    assert (plan.strategy, plan.start, plan.seed, plan.window) == ("paper", Setting(3, 1, 1), 5, 20.0)
    cores = plan.system.cores
    assert plan.system == System(cores, True, 2, Config.t_max, Config.min_batch)
    assert plan.space.agents <= 10 * cores + 2


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, 50.0),
        ({"max_lag": 8}, 4.0),
        ({"max_lag": 0}, 0.0),
        ({"max_lag": 0, "tuner_lag": 3.0}, 3.0),
        ({"tuner_lag": 0.0}, 0.0),
    ],
)
def test_the_limit_of_the_lag(settings, limit):
    assert make_plan(resolved(**settings), gpu=False, agent_memory=1e6).lag_limit == limit


def test_the_bounds_hold_what_the_user_asked_for_and_what_the_machine_has_room_for():
    assert make_plan(resolved(agents=1, predictors=9), gpu=False, agent_memory=1e18).space == Space(1, 9, 4)
    assert make_plan(resolved(agents=500), gpu=False, agent_memory=1e18).space.agents == 500


def test_the_tuners_that_can_be_named_are_the_strategies():
    assert Config().tuner == "anneal"
    assert set(TUNERS) == set(STRATEGIES)


def test_the_tuner_imports_neither_torch_nor_the_server():
    modules = [f"tuner.{module.name}" for module in pkgutil.iter_modules(tuner.__path__)]
    code = (
        f"import sys, {', '.join(modules)}\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'ga3c')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.fixture
def server_run(tmp_path):
    run = Run(tmp_path, agents=1)
    yield run
    run.close()


def test_a_real_server_says_when_a_setting_has_taken_effect(server_run):
    tunable = TunableServer(server_run.server, server_run.stats)
    assert tunable.unsettled() == "0 of 1 agents play"
    server_run.wait_until(lambda: not tunable.unsettled())
    assert tunable.setting == Setting(1, 1, 1)
    tunable.apply(Setting(3, 2, 2))
    assert "1 of 3 agents play" in tunable.unsettled()  # also before the server looked
    server_run.wait_until(lambda: not tunable.unsettled())
    assert tunable.setting == Setting(3, 2, 2)
    started = tunable.counters().agents_started
    victim = next(iter(server_run.processes().values()))
    os.kill(victim.pid, signal.SIGKILL)
    server_run.wait_until(lambda: tunable.unsettled())
    server_run.wait_until(lambda: not tunable.unsettled())
    assert tunable.counters().agents_started == started + 1
    tunable.apply(Setting(1, 1, 1))
    server_run.wait_until(lambda: not tunable.unsettled())
    assert len(server_run.processes()) == 1
    before = tunable.counters().updates
    server_run.wait_until(lambda: tunable.counters().updates > before)


def test_more_agents_than_the_system_takes_are_given_up_and_the_run_goes_on(server_run, monkeypatch):
    tunable = TunableServer(server_run.server, server_run.stats)
    server_run.wait_until(lambda: not tunable.unsettled())
    agents = server_run.server._agents
    make = agents._spawn.Process

    def refuse(*arguments, **settings):
        process = make(*arguments, **settings)
        monkeypatch.setattr(process, "start", lambda: (_ for _ in ()).throw(BlockingIOError("no more processes")))
        return process

    monkeypatch.setattr(agents._spawn, "Process", refuse, raising=False)
    tunable.apply(Setting(2, 1, 1))
    server_run.server.wait(0)
    with pytest.raises(RuntimeError, match="no more processes"):
        tunable.unsettled()
    tunable.apply(Setting(1, 1, 1))
    server_run.wait_until(lambda: not tunable.unsettled())
    before = server_run.stats.totals.updates
    server_run.wait_until(lambda: server_run.stats.totals.updates > before)


def test_more_agents_that_die_at_once_are_given_up_and_the_run_goes_on(tmp_path, monkeypatch):
    """As where memory is short: those that play already are no reason to end the run."""
    (tmp_path / "narrow.py").write_text(
        "import os\n"
        "import gymnasium\n"
        "class Narrow(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (2,))\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, **_):\n"
        f"        if os.path.exists({str(tmp_path / 'full')!r}):\n"
        "            os._exit(3)\n"
        "        return self.observation_space.sample(), {}\n"
        "    def step(self, action):\n"
        "        return self.observation_space.sample(), 1.0, False, False, {}\n"
        "gymnasium.register('Narrow-v0', Narrow)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    run = Run(tmp_path, agents=1, game="narrow:Narrow-v0")
    try:
        tunable = TunableServer(run.server, run.stats)
        run.wait_until(lambda: not tunable.unsettled())
        (tmp_path / "full").touch()
        tunable.apply(Setting(3, 1, 1))
        with pytest.raises(RuntimeError, match=r"agents died within 60 s; .* ended with code 3"):
            run.wait_until(lambda: not tunable.unsettled())
        tunable.apply(Setting(1, 1, 1))
        run.wait_until(lambda: not tunable.unsettled())
        assert len(run.processes()) == 1
        before = run.stats.totals.updates
        run.wait_until(lambda: run.stats.totals.updates > before)
    finally:
        run.close()


QUICK = [
    "GAME=CartPole-v1",
    "AGENTS=1",
    "ENVS_PER_AGENT=1",
    "MIN_BATCH=10",
    "T_MAX=5",
    "HIDDEN=16",
    "LOG_SECONDS=0.5",
    "TENSORBOARD=0",
]


def test_a_real_run_tunes_itself_and_is_resumed_where_its_tuner_was(tmp_path):
    path = tmp_path / "here"
    process = start(tmp_path, *QUICK, "TUNER=paper", "TUNER_WINDOW=0.5", "RUN=here")
    trials = wait_until(lambda: len(found := trials_of(path)) >= 4 and found, 60)
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 3)
    assert code == 0, output
    assert "tuner: 1/1/1 start: " in output
    assert "Traceback" not in output
    for trial in trials:
        assert trial.measurement.setting == trial.proposed
        assert 0.5 <= trial.window < 0.5 + LATE
        assert trial.settling == 0 or trial.settling >= 1
    assert any(trial.measurement.mean_tps > 0 for trial in trials)
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    tried = {trial.proposed for trial in trials}
    assert tried <= {Setting(row["agents"], row["predictors"], row["trainers"]) for row in rows}

    with (path / "tuner.jsonl").open("a") as file:
        file.write('{"trial": ')  # as a killed run leaves it
    done = len(read_trace(path).trials)
    process = start(tmp_path, "RESUME=here", "TRAINERS=3")
    wait_until(lambda: len(trials_of(path)) > done, 60)
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 3)
    assert code == 0, output
    incumbent = read_trace(path).trials[done - 1].decision.incumbent
    assert f"tuner: goes on after trial {done} with {incumbent}" in output
    assert f"/1/3 is not taken: the tuner goes on from {incumbent}, where it was" in output
    assert not (path / "tuner-1.jsonl").exists()


@pytest.mark.parametrize("word", ["TUNER=off", "SERIAL=1"])
def test_a_run_without_a_tuner_leaves_no_trace(tmp_path, word):
    code, output = run(tmp_path, *QUICK, word, "MAX_STEPS=500", "RUN=here")
    assert code == 0, output
    assert not (tmp_path / "here" / "tuner.jsonl").exists()
