"""Agents are killed or stopped, or their game breaks: training goes on, or ends with the cause."""

import os
import re
import signal
import statistics
import time

import pytest

import ga3c
from ga3c.agents import deaths, silence
from ga3c.agents.crew import TOLD_EACH, AgentsKeepDying
from ga3c.runs.training import RunFailed
from tests.helpers import broken_games
from tests.helpers.clock import Clock
from tests.helpers.command_line import QUICK, run, summary_of

GAME = "broken_games:Faulty-v0"


# Killed and stopped


@pytest.mark.processes
@pytest.mark.parametrize("victims", [1, pytest.param(2, marks=pytest.mark.long), 4])
def test_killed_agents_are_replaced_and_the_speed_comes_back(start, monkeypatch, victims):
    monkeypatch.setattr(deaths, "DEATHS_TOLERATED", 3)  # that all are killed once is more, and no reason to stop
    serving = start(agents=4)
    serving.wait_until(lambda: serving.server.agents_playing == 4)
    speed = statistics.median(serving.speed(0.5) for _ in range(3))
    first = serving.processes()
    killed = time.monotonic()
    for process in list(first.values())[:victims]:
        os.kill(process.pid, signal.SIGKILL)
    serving.wait_until(lambda: len(set(serving.processes()) - set(first)) == victims)
    replaced = time.monotonic() - killed
    serving.wait_until(lambda: serving.server.agents_playing == 4)
    played = time.monotonic() - killed
    # Each of them plays its share of what is played; the machine may be busy with something else by now, so that the
    # speed itself says less, and each half second gets its chance.

    def shares():
        before = [member.played for member in members_of(serving)]
        serving.server.wait(0.5)
        gained = [member.played - then for member, then in zip(members_of(serving), before, strict=True)]
        return [4 * one / max(sum(gained), 1) for one in gained]

    serving.wait_until(lambda: min(shares()) > 0.6)
    serving.wait_until(lambda: serving.speed(0.5) > 0.5 * speed)
    print(f"{victims} killed: replaced after {replaced:.1f} s, all played after {played:.1f} s, ", end="")
    print(f"half of {speed:.0f} PPS by {time.monotonic() - killed:.1f} s")
    assert replaced < 20  # a tenth of a second on a quiet machine
    assert len(set(first) & set(serving.processes())) == 4 - victims
    assert serving.log_path.read_text().count("was killed by signal 9 and is replaced") == victims
    totals = serving.stats.totals
    assert totals.lost_steps > 0  # what they had begun
    serving.server.stop()
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    assert totals.unaccounted_steps == 0


@pytest.mark.processes
def test_agents_that_are_killed_again_and_again_stop_the_run(start, monkeypatch):
    monkeypatch.setattr(deaths, "DEATHS_TOLERATED", 1)
    monkeypatch.setattr(deaths, "STEPS_PER_DEATH", 1_000_000)  # else what it plays between would make up for them
    serving = start(agents=1)

    def kill():
        for process in serving.processes().values():
            os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(AgentsKeepDying, match=r"3 agents died .*, was killed by signal 9"):
        serving.wait_until(lambda: serving.server.agents_playing and kill(), seconds=60)


@pytest.fixture
def clock(monkeypatch):
    """That by which agents are silent."""
    clock = Clock()
    monkeypatch.setattr(silence, "time", clock)
    return clock


@pytest.mark.processes
def test_a_stopped_agent_is_replaced_and_the_others_play_on(start, clock):
    serving = start(stall_seconds=30.0)
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    victim = next(iter(serving.processes()))
    os.kill(serving.processes()[victim].pid, signal.SIGSTOP)

    def gone():
        clock.ahead += silence.LOOK_MOST
        return victim not in serving.processes()

    serving.wait_until(gone)
    serving.wait_until(lambda: len(serving.processes()) == 2)
    newest = max(serving.processes())
    serving.wait_until(lambda: serving.server._exchange.member(newest).played > 0)
    assert re.search(rf"agent {victim} was silent for 3\d s", serving.log_path.read_text())


@pytest.mark.processes
def test_an_agent_that_was_stopped_for_less_plays_on(start):
    serving = start(stall_seconds=30.0)
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    before = set(serving.processes())
    victim = next(iter(before))
    os.kill(serving.processes()[victim].pid, signal.SIGSTOP)
    others = serving.stats.totals.steps
    serving.wait_until(lambda: serving.stats.totals.steps > others + 200)
    serving.server.wait(1.0)
    played = serving.server._exchange.member(victim).played
    os.kill(serving.processes()[victim].pid, signal.SIGCONT)
    serving.wait_until(lambda: serving.server._exchange.member(victim).played > played + 50)
    assert set(serving.processes()) == before
    totals = serving.stats.totals
    assert totals.bad_messages == totals.bad_updates == 0
    serving.server.stop()
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    assert totals.unaccounted_steps == 0


@pytest.mark.long
def test_an_agent_that_is_stopped_for_half_a_minute_is_replaced(start):
    """With the default of STALL_SECONDS, and continued when it is too late."""
    serving = start()
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    victim = next(iter(serving.processes()))
    pid = serving.processes()[victim].pid
    os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic()
    serving.wait_until(lambda: victim not in serving.processes(), seconds=60)
    assert 29 < time.monotonic() - stopped < 40
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    assert serving.stats.totals.bad_messages == 0


def members_of(serving):
    return [serving.server._exchange.member(number) for number in serving.processes()]


@pytest.mark.processes
def test_agents_that_wait_for_the_server_are_not_silent(start, clock):
    """A full training queue without a trainer holds all agents back for longer than STALL_SECONDS."""
    serving = start(train_queue=4, stall_seconds=5.0)
    serving.wait_until(lambda: serving.stats.totals.updates > 5)
    serving.server.resize(trainers=0)
    serving.wait_until(lambda: serving.server.memory.full)
    serving.wait_until(lambda: all(member.waiting == 2 for member in members_of(serving)))  # both of their halves
    before = set(serving.processes())
    for _ in range(30):
        clock.ahead += silence.LOOK_MOST
        serving.server.wait(0)
    assert set(serving.processes()) == before


@pytest.mark.processes
def test_a_server_that_was_paused_itself_blames_no_agent(start, clock):
    serving = start(stall_seconds=30.0)
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    before = set(serving.processes())
    for process in serving.processes().values():
        os.kill(process.pid, signal.SIGSTOP)

    def nothing_new():
        heard = [member.heard for member in members_of(serving)]
        serving.server.wait(0.1)
        return heard == [member.heard for member in members_of(serving)]

    serving.wait_until(nothing_new)
    clock.ahead += 3600.0  # nobody looks meanwhile, as if the whole machine stood still
    serving.server.wait(0)
    assert set(serving.processes()) == before
    for process in serving.processes().values():
        os.kill(process.pid, signal.SIGCONT)
    steps = serving.stats.totals.steps
    serving.wait_until(lambda: serving.stats.totals.steps > steps + 200)
    assert set(serving.processes()) == before


# Games that break

SENTENCES = {
    "raise in step": "GAME=broken_games:Faulty-v0 raised ValueError in step: the game broke",
    "raise in reset": "GAME=broken_games:Faulty-v0 raised KeyError in reset: 'a level that is not there'",
    "nan": "GAME=broken_games:Faulty-v0 returned an observation that is not finite: [nan nan]",
    "infinity": "GAME=broken_games:Faulty-v0 returned an observation that is not finite: [inf inf]",
    "nan as reward": "GAME=broken_games:Faulty-v0 returned a reward that is not a finite number in step: nan",
    "infinity as reward": "GAME=broken_games:Faulty-v0 returned a reward that is not a finite number in step: -inf",
    "no reward": "GAME=broken_games:Faulty-v0 returned a reward that is not a finite number in step: None",
    "wrong shape": "GAME=broken_games:Faulty-v0 returned an observation of shape (3,) instead of (2,) in step",
    "wrong dtype": "GAME=broken_games:Faulty-v0 returned an observation of <U4 instead of float32 in step",
}


@pytest.mark.processes
def test_a_game_that_breaks_once_costs_its_agent_and_no_more(start, tmp_path, monkeypatch):
    """One agent after the other meets a fault, of each kind; then all play well, and the run is whole."""
    monkeypatch.setattr(deaths, "BACKOFF_MOST", 0.25)  # there are many
    monkeypatch.syspath_prepend(tmp_path)
    broken_games.install(tmp_path, *SENTENCES)
    serving = start(game=GAME)
    serving.wait_until(lambda: serving.stats.totals.agents_started == len(SENTENCES) + 2, seconds=120)
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    before = serving.stats.totals.updates
    serving.wait_until(lambda: serving.stats.totals.updates > before + 20)
    totals = serving.stats.totals
    assert totals.bad_updates == totals.bad_messages == 0
    assert totals.lost_steps > 0
    serving.close()
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    assert totals.unaccounted_steps == 0
    text = serving.log_path.read_text()
    for fault, sentence in SENTENCES.items():
        assert f"failed: {sentence} and is replaced" in text, fault
        assert f"GameFault: {sentence}" in text, fault  # with its traceback


@pytest.mark.processes
def test_a_game_that_breaks_now_and_then_is_played_all_the_same(start, tmp_path, monkeypatch):
    """Once in 500 steps, so several times a second: each time an agent is replaced, and the cause is told once."""
    monkeypatch.syspath_prepend(tmp_path)
    broken_games.install(tmp_path, then="raise rarely")
    serving = start(game=GAME)
    serving.wait_until(lambda: serving.server.agents_started > 14, seconds=120)  # 10 deaths are tolerated anyway
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    before = serving.stats.totals.updates
    serving.wait_until(lambda: serving.stats.totals.updates > before + 20)
    serving.close()
    totals = serving.stats.totals
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    text = serving.log_path.read_text()
    assert text.count("Traceback") == 2  # of the fault and of its cause
    assert re.search(
        r"agent \d+ failed, with a traceback as one before \(\d+ times by now\): .*GameFault: .* the game broke at",
        text,
    )
    assert text.count("and is replaced; ") <= TOLD_EACH
    assert re.search(r"\d+ more agents died and are replaced; the last, agent \d+, failed: .* the game broke at", text)


@pytest.mark.processes
@pytest.mark.parametrize("correction", ["none", "vtrace"])
def test_an_agent_whose_returns_are_not_finite_says_so(start, tmp_path, monkeypatch, correction):
    """Each reward is a number, but not their sum: what cannot be learnt from is not sent."""
    monkeypatch.syspath_prepend(tmp_path)
    broken_games.install(tmp_path, "huge reward")
    serving = start(game=GAME, reward_clip=0.0, stagger=0, correction=correction)
    serving.wait_until(lambda: serving.stats.totals.agents_started == 3, seconds=60)
    serving.wait_until(lambda: serving.server.agents_playing == 2)
    totals = serving.stats.totals
    assert totals.bad_updates == totals.bad_messages == 0
    serving.close()
    assert totals.lost_steps > 0
    assert totals.unaccounted_steps == 0
    assert "failed: StepsNotFinite: returns that are not finite and is replaced" in serving.log_path.read_text()


@pytest.mark.processes
def test_a_game_that_keeps_breaking_ends_the_run_with_the_cause(tmp_path):
    broken_games.install(tmp_path, then="nan")
    code, output = run(tmp_path, *QUICK, f"GAME={GAME}", "AGENTS=3", "RUN=here")
    assert code == 1, output
    reason = summary_of(tmp_path / "here")["exit_reason"]
    assert reason.startswith("failed: 11 agents died within 60 s; the last, agent ")
    assert reason.endswith(SENTENCES["nan"])
    assert output.rstrip().endswith(SENTENCES["nan"])
    assert SENTENCES["nan"] in (tmp_path / "here" / "log.txt").read_text()


@pytest.mark.processes
def test_a_game_that_never_begins_ends_the_run_sooner(start, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    broken_games.install(tmp_path, then="raise in reset")
    serving = start(game=GAME, agents=1)
    with pytest.raises(AgentsKeepDying, match=r"3 agents died .*raised KeyError in reset: 'a level that is"):
        serving.wait_until(lambda: False, seconds=60)


@pytest.mark.processes
@pytest.mark.alone
def test_games_that_hang_in_step_are_replaced_and_stop_the_run_where_all_do(start, tmp_path, monkeypatch):
    monkeypatch.setattr(deaths, "DEATHS_TOLERATED", 3)
    monkeypatch.syspath_prepend(tmp_path)
    broken_games.install(tmp_path, then="hang in step")
    serving = start(game=GAME, stall_seconds=1.0)
    with pytest.raises(AgentsKeepDying, match=r"5 agents died .* was silent for"):
        serving.wait_until(lambda: False, seconds=60)
    assert serving.stats.totals.updates > 0  # it had played and trained before
    assert serving.log_path.read_text().count("was silent for 1 s, so it was killed and is replaced") == 4


def test_the_serial_mode_names_the_fault_as_well(tmp_path, monkeypatch):
    (tmp_path / "fragile.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Fragile(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        return *super().step(action)[:1], float('nan'), False, False, {}\n"
        "gymnasium.register('Fragile-v0', Fragile)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "here"
    with pytest.raises(
        RunFailed, match=r"^GAME=fragile:Fragile-v0 returned a reward that is not a finite number in step"
    ):
        ga3c.train(ga3c.Config(game="fragile:Fragile-v0", serial=True, run=str(path), tensorboard=False))
    assert summary_of(path)["exit_reason"].startswith("failed: GAME=fragile:Fragile-v0 returned a reward")
