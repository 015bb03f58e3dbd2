"""``./run.sh agents`` against a server, as users start them: joining, dying, leaving, and a server that comes back."""

import errno
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from ga3c.agents import deaths
from ga3c.agents import remote_crew as remote
from ga3c.agents.places.local import LocalPlace
from ga3c.messages.keys import make_keys
from ga3c.settings.commands import AgentsOptions
from tests.helpers import catch_game
from tests.helpers.command_line import children_of
from tests.helpers.machines import Machines
from tests.helpers.waiting import wait_until

SOON = 10.0  # seconds; it takes one on a quiet machine
SLOW = """
import os
import time
import gymnasium
import numpy as np


class Slow(gymnasium.Env):
    # A hundred steps of a point each; it rests for as long as it is told to.
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, **_):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        while os.path.exists("rest"):
            time.sleep(0.01)
        return np.zeros(2, np.float32), 1.0, self.steps % 100 == 0, False, {}


gymnasium.register("Slow-v0", Slow)
"""


@pytest.fixture
def machines(tmp_path):
    machines = Machines(tmp_path)
    yield machines
    machines.close()


def agents_of(program):
    """Its agents, without the process that Python starts beside them to look after resources."""
    return [
        pid for pid in children_of(program.process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def maps(pid):
    return Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.processes
def test_agents_of_several_machines_join_die_leave_and_are_told_of_the_end(machines):
    server, address = machines.serve("AGENTS=0")
    first = machines.start("first", "agents", f"SERVER={address}", "AGENTS=2")
    second = machines.start("second", "agents", f"SERVER={address}", "AGENTS=1")
    machines.wait_for_remote(3)
    assert "NA/NP/NT 0+3/1/1" in server.said
    children = agents_of(first)
    assert len(children) == 2
    for pid in (first.process.pid, *children):
        assert "libtorch" not in maps(pid)

    os.kill(children[0], signal.SIGKILL)
    first.wait_for("an agent was killed by signal 9 and is replaced")
    server.wait_for(r"agent \d+ (lost its connection|was silent for \d+ s); \d+ steps of it are lost")
    wait_until(lambda: len(agents_of(first)) == 2)
    machines.wait_for_remote(3)

    sent = time.monotonic()
    assert first.end(signal.SIGINT) == 0, first.said
    assert time.monotonic() - sent < SOON
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    machines.wait_for_remote(1)

    second.process.send_signal(signal.SIGSTOP)  # the parent: whoever looks after the others may be away
    sent = time.monotonic()
    assert server.end(signal.SIGINT) == 0, server.said
    assert time.monotonic() - sent < SOON
    second.process.send_signal(signal.SIGCONT)
    assert second.process.wait(60) == 0, second.said
    assert f"the run of {address} is over" in second.said
    summary = machines.summary()
    assert summary["remote_agents"] == 1
    assert summary["unaccounted_steps"] == 0
    assert summary["bad_messages"] == 0
    assert "Traceback" not in server.said + first.said + second.said


@pytest.mark.processes
def test_a_server_that_comes_back_has_its_agents_back(machines):
    """Killed, and gone on with from its checkpoint, with other settings, so that environments are made anew."""
    make_keys(machines.path / "ours")
    make_keys(machines.path / "theirs")
    server, address = machines.serve("AGENTS=1", "KEYS=ours", "CHECKPOINT_SECONDS=1")
    agents = machines.start("agents", "agents", f"SERVER={address}", "AGENTS=2", "KEYS=ours")
    wrong = machines.start("wrong", "agents", f"SERVER={address}", "AGENTS=2", "KEYS=theirs")
    machines.wait_for_remote(2)
    # Neither side has the other's public key, so the server cannot even tell which key was wrong.
    server.wait_for(r"connection\(s\) refused: without the right keys")
    wait_until(lambda: list((machines.path / "run" / "checkpoints").glob("*.safetensors")))

    server.kill()
    agents.wait_for("the connection to .* is lost")
    rows = len(machines.rows())
    resumed, _ = machines.serve(
        "RESUME=run", "ENVS_PER_AGENT=3", "T_MAX=7", "KEYS=ours", listen=address, name="resumed"
    )
    agents.wait_for("joined .* again as agent")
    wait_until(lambda: len(machines.rows()) > rows)
    machines.wait_for_remote(2)
    wrong.wait_for("no answer from .*are the keys right")
    assert resumed.end() == 0, resumed.said
    assert agents.process.wait(20) == 0, agents.said
    assert machines.summary()["unaccounted_steps"] == 0
    children = agents_of(wrong)
    assert len(children) == 2  # they go on trying, but not without their parent
    wrong.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), 5)


@pytest.mark.processes
def test_what_cannot_be_played_there_is_told_and_ends_it(tmp_path, machines):
    (tmp_path / "there").mkdir()
    there = Machines(tmp_path / "there")
    shutil.copy(catch_game.__file__, tmp_path / "only_here.py")
    server, address = machines.serve("GAME=only_here:Catch-v0", "AGENTS=0")
    agents = there.start("agents", "agents", f"SERVER={address}", "AGENTS=1")
    assert agents.process.wait(30) == 1
    there.close()
    assert "this machine cannot play what" in agents.said
    assert "only_here" in agents.said
    assert "Traceback" not in agents.said
    assert server.end() == 0


@pytest.mark.processes
def test_a_slow_environment_is_away_and_rejoins_with_its_games(tmp_path, machines):
    """Its connection lives, so it is the server that tells it: your number is void."""
    (tmp_path / "slow.py").write_text(SLOW)
    server, address = machines.serve("GAME=slow:Slow-v0", "AGENTS=0", "STALL_SECONDS=1", "ENVS_PER_AGENT=1")
    agents = machines.start("agents", "agents", f"SERVER={address}", "AGENTS=1")
    machines.wait_for_remote(1)
    (tmp_path / "rest").touch()
    server.wait_for(r"agent 0 was silent for \d s; \d+ steps of it are lost")
    (tmp_path / "rest").unlink()
    agents.wait_for("joined .* again as agent 1: slow")
    machines.wait_for_remote(1)
    assert server.end() == 0
    summary = machines.summary()
    assert (summary["unaccounted_steps"], summary["bad_messages"]) == (0, 0)
    assert {game.split(",")[3] for game in (tmp_path / "run" / "episodes.csv").read_text().splitlines()[1:]} == {"100"}


@pytest.mark.processes
def test_processes_that_the_system_refuses_are_told_and_tried_again(monkeypatch, caplog):
    monkeypatch.setattr(remote, "START_AGAIN_SECONDS", 0.0)
    interrupted, refusals = threading.Event(), iter([OSError(errno.EMFILE, "Too many open files")] * 2)

    class Full:
        def start(self, number, task):
            if error := next(refusals, None):
                raise error
            interrupted.set()
            return LocalPlace().start(number, (time.sleep, (60,)))

    crew = remote.RemoteCrew(AgentsOptions(server="tcp://127.0.0.1:5555", agents=1), None, interrupted, Full())
    assert crew.run() == 0
    assert caplog.text.count("no further agent could be started: [Errno 24] Too many open files. The limit on") == 2


def play_and_fail(task, steps):
    task.steps[task.number] += steps
    sys.exit(1)


@pytest.mark.processes
@pytest.mark.parametrize(("steps", "code"), [(0, 1), (500, 0)])
def test_agents_that_play_between_their_deaths_are_replaced_for_ever(monkeypatch, caplog, steps, code):
    monkeypatch.setattr(deaths, "BACKOFF_SECONDS", 0.0)
    interrupted, started = threading.Event(), []

    class Breaking:
        def start(self, number, task):
            started.append(number)
            if len(started) == 16:  # 10 deaths are tolerated anyway
                interrupted.set()
            _, (remote_task, _) = task
            return LocalPlace().start(number, (play_and_fail, (remote_task, steps)))

    crew = remote.RemoteCrew(AgentsOptions(server="tcp://127.0.0.1:5555", agents=2), None, interrupted, Breaking())
    assert crew.run() == code
    assert ("agents died within 60 s; the last ended with code 1" in caplog.text) == bool(code)
    assert interrupted.is_set() == (code == 0)
