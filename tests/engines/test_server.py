"""The server with real agent processes: it plays and trains, changes its size while it runs, and ends."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from ga3c.agents import player
from ga3c.games.make import make_games
from ga3c.settings.config import Resolved


def test_an_agent_asks_for_no_prediction_before_all_of_its_games_are_made(monkeypatch):
    """Or the first ones would be old when they are acted on: games take seconds to make, and others train meanwhile."""
    made = []
    monkeypatch.setattr(player, "make_games", lambda config, count: made.append(count) or make_games(config, count))
    for _player, turn in player.begin_players(Resolved(game="CartPole-v1", envs_per_agent=5), agent=0):
        assert len(turn.request.observations)
        assert made == [3, 2]


@pytest.mark.processes
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


@pytest.mark.processes
@pytest.mark.alone
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


@pytest.mark.processes
def test_an_update_that_takes_long_is_waited_for_at_the_end(start, monkeypatch):
    run = start()
    run.wait_until(lambda: run.stats.totals.updates > 5)
    (trainer,) = run.server._trainers
    gradient, join, begun, waited_for = run.model.gradient, trainer.join, threading.Event(), threading.Event()

    def slow(loss):
        begun.set()
        waited_for.wait()
        return gradient(loss)

    def wait_for_it(timeout):
        assert timeout > 2.5
        waited_for.set()
        join(timeout)

    monkeypatch.setattr(trainer, "join", wait_for_it)
    monkeypatch.setattr(run.model, "gradient", slow)
    run.wait_until(begun.is_set)
    run.server.stop()
    totals = run.stats.totals
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    assert totals.unaccounted_steps == 0


@pytest.mark.processes
def test_an_agent_leaves_at_sigterm(start):
    run = start(agents=1)
    run.wait_until(lambda: run.stats.totals.steps > 0)
    (process,) = run.processes().values()
    os.kill(process.pid, signal.SIGTERM)
    process.join(5)
    assert process.exitcode == 0


@pytest.mark.processes
def test_an_agent_never_imports_torch_and_is_small(start):
    run = start(game="Pong", envs_per_agent=1, agents=1)
    run.wait_until(lambda: run.stats.totals.steps > 50)
    (process,) = run.processes().values()
    assert "torch" not in Path(f"/proc/{process.pid}/maps").read_text()
    resident = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmRSS" in line)
    assert int(resident.split()[1]) < 120_000  # kB


@pytest.mark.processes
def test_the_training_queue_holds_agents_back(start):
    run = start(train_queue=4, trainers=1, agents=2, envs_per_agent=8)
    run.wait_until(lambda: run.stats.totals.updates > 5)
    run.server.resize(trainers=0)  # nobody trains any more
    run.wait_until(lambda: run.server.memory.full)

    def still():
        before = run.stats.totals.steps
        run.server.wait(0.5)
        return run.stats.totals.steps == before

    run.wait_until(still)
    # What was on its way when the queue filled up: at most one experience of each environment.
    assert len(run.server.memory) <= 4 + 16
    run.server.resize(trainers=1)
    before = run.stats.totals.steps
    run.wait_until(lambda: run.stats.totals.steps > before + 100)
