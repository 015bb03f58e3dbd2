"""The tuner of a run: its plan, the real server as it sees it, and whole runs."""

import json
import os
import pkgutil
import signal
import subprocess
import sys

import pytest

import tuner
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.runs.resolve import resolve
from ga3c.runs.tuning import TunableServer, make_plan
from ga3c.settings.config import Config
from ga3c.settings.groups import TUNERS
from tests.helpers.command_line import ROOT, finish, run, start
from tests.helpers.fake_server import LATE, trials_of
from tests.helpers.server_at_work import Run
from tests.helpers.waiting import wait_until
from tuner.space import Setting, Space
from tuner.strategies import STRATEGIES
from tuner.strategy import System
from tuner.trace import read_trace

SPEC = EnvSpec(frame=(4,), stack=1, dtype="float32", action=Discrete(2))


def resolved(**settings):
    given = {"game": "CartPole-v1", "agents": 3, "envs_per_agent": 2, "min_batch": 20, "tuner": "paper", **settings}
    return resolve(Config(**given), SPEC)


def test_the_plan_of_a_run():
    plan = make_plan(resolved(seed=5, tuner_window=20.0), gpu=True, agent_memory=1e6)
    assert (plan.strategy, plan.start, plan.seed, plan.window) == ("paper", Setting(3, 1, 1), 5, 20.0)
    cores = plan.system.cores
    assert plan.system == System(cores, True, 2, Config.t_max, 20)
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


@pytest.mark.processes
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


@pytest.mark.processes
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
    server_run.stats.number_agent()  # as when one of another machine joins: none of these died for it
    assert tunable.counters().agents_started == started
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


@pytest.mark.processes
def test_more_agents_than_the_system_takes_are_given_up_and_the_run_goes_on(server_run, monkeypatch):
    tunable = TunableServer(server_run.server, server_run.stats)
    server_run.wait_until(lambda: not tunable.unsettled())

    class Full:
        def start(self, number, task):
            raise BlockingIOError("no more processes")

    monkeypatch.setattr(server_run.server._agents._supervision, "_place", Full())
    tunable.apply(Setting(2, 1, 1))
    server_run.server.wait(0)
    with pytest.raises(RuntimeError, match="no more processes"):
        tunable.unsettled()
    tunable.apply(Setting(1, 1, 1))
    server_run.wait_until(lambda: not tunable.unsettled())
    before = server_run.stats.totals.updates
    server_run.wait_until(lambda: server_run.stats.totals.updates > before)


@pytest.mark.processes
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
    run = Run(tmp_path, agents=1, game="narrow:Narrow-v0", stagger=0)
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
    "LOG_SECONDS=0.2",
    "TENSORBOARD=0",
]


@pytest.mark.processes
def test_a_real_run_tunes_itself_and_is_resumed_where_its_tuner_was(tmp_path):
    path = tmp_path / "here"
    process = start(tmp_path, *QUICK, "TUNER=paper", "TUNER_WINDOW=0.5", "RUN=here")
    trials = wait_until(lambda: len(found := trials_of(path)) >= 3 and found, 120)
    process.send_signal(signal.SIGINT)
    code, output = finish(process)
    assert code == 0, output
    assert "tuner: 1/1/1 start: " in output
    assert "Traceback" not in output
    for trial in trials:
        assert trial.measurement.setting == trial.proposed
        assert 0.5 <= trial.window < 10 * (0.5 + LATE)  # a busy machine may be late
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
    code, output = finish(process)
    assert code == 0, output
    incumbent = read_trace(path).trials[done - 1].decision.incumbent
    assert f"tuner: goes on after trial {done} with {incumbent}" in output
    assert f"/1/3 is not taken: the tuner goes on from {incumbent}, where it was" in output
    assert not (path / "tuner-1.jsonl").exists()


@pytest.mark.processes
@pytest.mark.parametrize("word", ["TUNER=off", "SERIAL=1"])
def test_a_run_without_a_tuner_leaves_no_trace(tmp_path, word):
    code, output = run(tmp_path, *QUICK, word, "MAX_STEPS=500", "RUN=here")
    assert code == 0, output
    assert not (tmp_path / "here" / "tuner.jsonl").exists()
