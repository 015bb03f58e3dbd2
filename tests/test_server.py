"""The server with real agent processes: it changes its size while it runs, and survives what happens to agents."""

import os
import signal
import time
from pathlib import Path

import pytest
from waiting import wait_until

from ga3c.config import Config
from ga3c.display import PlainDisplay
from ga3c.learner import Learner
from ga3c.logs import RunLog
from ga3c.server import Server
from ga3c.stats import Stats
from ga3c.training import probe, resolve

CARTPOLE = {"game": "CartPole-v1", "hidden": 16, "envs_per_agent": 2, "min_batch": 10, "agents": 2}


class Run:
    """A server at work, its log in a file, and the thread of the test as the one that waits."""

    def __init__(self, path: Path, **settings):
        config = Config(**{**CARTPOLE, **settings})
        spec = probe(config)
        self.config = resolve(config, spec)
        self.log_path = path / "log.txt"
        with open(os.devnull, "w") as nowhere:
            handler = PlainDisplay(nowhere).log_handler(None)
        self.log = RunLog(self.log_path, handler)
        self.stats = Stats()
        self.server = Server(self.config, spec, self.stats, self.log.queue)
        self.server.start_agents()
        self.learner = Learner(self.config, spec, self.stats)
        self.server.start(self.learner)

    def wait_until(self, condition, seconds=30.0):
        def tended():
            self.server.wait(0)
            return condition()

        return wait_until(tended, seconds)

    def processes(self):
        return {number: agent.process for number, agent in self.server._agents._agents.items()}

    def close(self):
        self.server.stop()
        self.log.close()


@pytest.fixture
def start(tmp_path):
    runs = []

    def begin(**settings):
        runs.append(Run(tmp_path, **settings))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def test_plays_and_trains_balanced_and_ends_all_processes(start):
    run = start()
    run.wait_until(lambda: run.stats.totals.updates > 50)
    totals = run.stats.totals
    pids = [process.pid for process in run.processes().values()]
    assert totals.predictions >= totals.steps > 0
    run.server.stop()
    # Nothing is lost unseen: every step was trained on or counted.
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists()


def test_resizes_while_it_runs(start):
    run = start(agents=1)
    run.wait_until(lambda: run.stats.totals.updates > 5)
    run.server.resize(agents=3, predictors=4, trainers=4)
    run.wait_until(lambda: len(run.processes()) == 3)
    run.wait_until(lambda: all(run.server._exchange.member(number).played > 0 for number in run.processes()))
    assert run.server.setting == {"agents": 3, "predictors": 4, "trainers": 4, "remote_agents": 0}
    started = time.monotonic()
    run.server.resize(agents=1, predictors=1, trainers=1)
    run.wait_until(lambda: len(run.processes()) == 1)
    assert time.monotonic() - started < 1.0  # without waiting for the end of an episode
    before = run.stats.totals.updates
    run.wait_until(lambda: run.stats.totals.updates > before + 5)


def test_a_killed_agent_is_replaced(start):
    run = start()
    run.wait_until(lambda: run.stats.totals.updates > 5)
    victim = next(iter(run.processes()))
    os.kill(run.processes()[victim].pid, signal.SIGKILL)
    run.wait_until(lambda: victim not in run.processes() and len(run.processes()) == 2, seconds=5)
    newest = max(run.processes())
    run.wait_until(lambda: run.server._exchange.member(newest).played > 0)
    assert "killed by signal 9" in run.log_path.read_text()


def test_a_stopped_agent_is_replaced_and_the_others_play_on(start):
    run = start(stall_seconds=1.0)
    run.wait_until(lambda: run.server.agents_playing == 2)
    victim = next(iter(run.processes()))
    os.kill(run.processes()[victim].pid, signal.SIGSTOP)
    run.wait_until(lambda: victim not in run.processes() and len(run.processes()) == 2, seconds=8)
    newest = max(run.processes())
    run.wait_until(lambda: run.server._exchange.member(newest).played > 0)
    assert f"agent {victim} was silent for 1 s" in run.log_path.read_text()


def test_agents_that_wait_for_the_server_are_not_silent(start):
    """A full training queue without a trainer holds all agents back for longer than STALL_SECONDS."""
    run = start(train_queue=4, stall_seconds=1.0)
    run.wait_until(lambda: run.stats.totals.updates > 5)
    run.server.resize(trainers=0)
    run.wait_until(lambda: run.server.experiences.full)
    before = set(run.processes())
    run.server.wait(2.5)
    assert set(run.processes()) == before


def test_a_server_that_was_paused_itself_blames_no_agent(start):
    run = start(stall_seconds=1.0)
    run.wait_until(lambda: run.server.agents_playing == 2)
    before = set(run.processes())
    for process in run.processes().values():
        os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2.5)  # nobody looks meanwhile, as if the whole machine stood still
    for process in run.processes().values():
        os.kill(process.pid, signal.SIGCONT)
    run.server.wait(1.0)
    assert set(run.processes()) == before


def register_env(path, monkeypatch, body):
    """An environment of two numbers whose ``step`` is this, importable by agents."""
    (path / "odd_env.py").write_text(
        "import gymnasium, time\n"
        "import numpy as np\n"
        "class Odd(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (2,))\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    steps = 0\n"
        "    def reset(self, **_):\n"
        "        return np.zeros(2, np.float32), {}\n"
        "    def step(self, action):\n"
        "        self.steps += 1\n"
        f"        {body}\n"
        "        return np.zeros(2, np.float32), 0.0, self.steps % 20 == 0, False, {}\n"
        "gymnasium.register('Odd-v0', Odd)\n"
    )
    monkeypatch.syspath_prepend(str(path))


def test_environments_that_all_hang_in_step_stop_the_run_with_the_cause(start, tmp_path, monkeypatch):
    register_env(tmp_path, monkeypatch, "if self.steps == 50: time.sleep(3600)")
    run = start(game="odd_env:Odd-v0", stall_seconds=1.0, agents=4)
    with pytest.raises(RuntimeError, match=r"agents died .* was silent for"):
        run.wait_until(lambda: False, seconds=60)
    assert run.stats.totals.updates > 0  # it had played and trained before


def test_an_agent_leaves_at_sigterm(start):
    run = start(agents=1)
    run.wait_until(lambda: run.stats.totals.steps > 0)
    (process,) = run.processes().values()
    os.kill(process.pid, signal.SIGTERM)
    process.join(5)
    assert process.exitcode == 0


def test_an_agent_never_imports_torch_and_is_small(start):
    run = start(game="Pong", envs_per_agent=1, agents=1)
    run.wait_until(lambda: run.stats.totals.steps > 50)
    (process,) = run.processes().values()
    assert "torch" not in Path(f"/proc/{process.pid}/maps").read_text()
    resident = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmRSS" in line)
    assert int(resident.split()[1]) < 120_000  # kB


def test_the_training_queue_holds_agents_back(start):
    run = start(train_queue=4, trainers=1, agents=2, envs_per_agent=8)
    run.wait_until(lambda: run.stats.totals.updates > 5)
    run.server.resize(trainers=0)  # nobody trains any more
    run.wait_until(lambda: run.server.experiences.full)

    def still():
        before = run.stats.totals.steps
        run.server.wait(0.5)
        return run.stats.totals.steps == before

    run.wait_until(still)
    # What was on its way when the queue filled up: at most one experience of each environment.
    assert len(run.server.experiences) <= 4 + 16
    run.server.resize(trainers=1)
    before = run.stats.totals.steps
    run.wait_until(lambda: run.stats.totals.steps > before + 100)


@pytest.mark.parametrize("role", ["predictor", "trainer"])
def test_a_thread_that_fails_stops_the_run_with_its_traceback(start, role, monkeypatch):
    run = start()
    run.wait_until(lambda: run.stats.totals.updates > 0)

    def fail(*_):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(run.learner.model, {"predictor": "predict", "trainer": "gradient"}[role], fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        run.wait_until(lambda: False, seconds=10)
    assert "ZeroDivisionError: on purpose" in run.log_path.read_text()


def test_what_an_agent_says_arrives_in_the_log(start, tmp_path, monkeypatch):
    register_env(tmp_path, monkeypatch, "raise ValueError('the environment broke')")
    run = start(game="odd_env:Odd-v0")
    with pytest.raises(RuntimeError, match="agents died"):
        run.wait_until(lambda: False, seconds=60)
    run.server.stop()
    run.log.close()
    assert "ValueError: the environment broke" in run.log_path.read_text()
