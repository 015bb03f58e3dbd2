"""ALGO=a3c: agents that train by themselves, counted, replaced, stopped and resumed as those of GA3C are."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from ga3c.agents import crew as agents
from ga3c.agents.player import begin_players
from ga3c.algorithms.rule import make_learning
from ga3c.engines.lone_agent import LoneAgent, LoneTask
from ga3c.engines.rounds import Rounds
from ga3c.engines.workers import Workers
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.models.shared import SharedNumbers
from ga3c.runs.checkpoint import load_newest
from ga3c.runs.resolve import resolve
from ga3c.runs.training import run_training
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from ga3c.settings.recipes import MIN_BATCH
from ga3c.system.limits import available_cores
from tests.helpers import broken_games
from tests.helpers.command_line import all_gone, children_of, finish, rows_of, run, summary_of, trains
from tests.helpers.command_line import start as start_run
from tests.helpers.serial_run import spec_of
from tests.helpers.waiting import wait_until

CARTPOLE = {"game": "CartPole-v1", "algo": "a3c", "agents": 1, "envs_per_agent": 1, "min_batch": 1, "hidden": 16}
WORDS = ["ALGO=a3c", "GAME=CartPole-v1", "HIDDEN=16", "LOG_SECONDS=0.5", "TENSORBOARD=0", "RUN=here"]


def resolved(**settings):
    return resolve(Config(**{"game": "CartPole-v1", "algo": "a3c", **settings}), spec_of("CartPole-v1"))


def assert_all_counted(totals):
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    assert totals.unaccounted_steps == 0


# The settings


def test_what_is_decided_by_itself():
    config = resolved()
    assert (config.agents, config.envs_per_agent, config.min_batch) == (available_cores(), 1, 1)
    assert (config.tuner, config.torch_threads) == ("off", 1)
    assert resolved(algo="ga3c").min_batch == MIN_BATCH
    assert resolved(algo="ga3c").tuner == "anneal"
    given = resolved(agents=5, envs_per_agent=3, min_batch=40)
    assert (given.agents, given.envs_per_agent, given.min_batch) == (5, 3, 40)


def test_how_old_experiences_may_be_follows_from_those_who_train_meanwhile():
    many = resolved(agents=16, envs_per_agent=3)
    assert many.oldest == 4 * 16 * 3
    assert many.max_lag == Config.max_lag  # so that the other algorithm resumes with what was given
    assert many.replace(max_lag=1000).oldest == 1000
    assert many.replace(max_lag=0).oldest == 0
    assert many.replace(algo="ga3c").oldest == Config.max_lag


@pytest.mark.parametrize("word", ["SERIAL=1", "LISTEN=tcp://127.0.0.1:5555", "AGENTS=0", "ALGO=a4c", "DEVICE=cuda:0"])
def test_what_it_cannot_do_is_refused(word):
    with pytest.raises(ConfigError, match=word.partition("=")[0]) as caught:
        run_training(Config.from_words(["GAME=CartPole-v1", "ALGO=a3c", word]), threading.Event())
    assert "ALGO=a" in str(caught.value)


def test_a_resumed_run_with_another_algorithm_decides_anew_what_that_decides(tmp_path):
    before = resolved(algo="ga3c", agents=7, seed=3, hidden=32)
    (tmp_path / "config.json").write_text(json.dumps(before.to_dict()))
    same = Config.from_words([f"RESUME={tmp_path}"])
    assert (same.algo, same.agents, same.min_batch) == ("ga3c", 7, MIN_BATCH)
    other = Config.from_words([f"RESUME={tmp_path}", "ALGO=a3c", "ENVS_PER_AGENT=2"])
    assert (other.agents, other.min_batch, other.envs_per_agent) == (None, None, 2)
    assert (other.seed, other.hidden) == (3, 32)


# One agent, in this process


class Alone:
    """An agent without a server."""

    def __init__(self, path, **settings):
        self.config = resolved(**{**CARTPOLE, **settings})
        self.numbers = SharedNumbers.make(self.config, make_learning(self.config, spec_of("CartPole-v1")).network)
        self.stats = Stats()
        task = LoneTask(self.config, spec_of("CartPole-v1"), self.numbers, path / "lock", agent=4)
        self.agent = LoneAgent(task, self.stats)
        self.agent.begin()

    def play(self, rounds):
        for _ in range(rounds):
            self.agent.play()


@pytest.mark.parametrize("settings", [{}, {"envs_per_agent": 3, "min_batch": 12}], ids=["one", "several"])
def test_one_agent_makes_the_updates_of_one_thread_with_the_other_model(tmp_path, settings):
    alone = Alone(tmp_path, **settings)
    stats = Stats()
    config = alone.config.replace(algo="ga3c")
    memory = make_memory(config, stats)
    workers = Workers(config, spec_of("CartPole-v1"), memory, stats)
    rounds = Rounds(workers.predictor(), workers.trainer().train, memory, stats)
    stats.ledger.open(4, alone.config.envs_per_agent)
    for player, turn in begin_players(alone.config, 4):
        rounds.join(player, turn)
    alone.play(200)
    for _ in range(200):
        rounds.play()
    assert alone.agent.model.version.number == workers.model.version.number > 10
    assert torch.equal(alone.agent.model.version.weights, workers.model.version.weights)
    alone.agent.stop()
    rounds.give_up([4])
    assert alone.stats.totals.steps == stats.totals.steps
    assert_all_counted(alone.stats.totals)


def test_an_agent_that_fell_behind_throws_away_what_is_too_old_and_catches_up(tmp_path):
    alone = Alone(tmp_path, max_lag=10, t_max=5)
    alone.play(40)
    totals = alone.stats.totals
    assert totals.stale_steps == 0
    alone.numbers.updates.add_(1000)  # by others
    alone.play(20)
    assert 5 < totals.stale_steps <= 10  # what was under way, and what began with the prediction that ended it
    before = totals.updates
    alone.play(20)
    assert totals.updates > before
    assert totals.stale_steps <= 10
    assert alone.stats.lag_max_ever < 10
    alone.agent.stop()
    assert_all_counted(totals)


def test_the_learning_rate_follows_the_steps_of_all_agents(tmp_path):
    alone = Alone(tmp_path, learning_rate_end=0.0, max_steps=1000)
    alone.play(60)
    weights = alone.numbers.weights.clone()
    alone.numbers.steps.fill_(1000)  # as others played: the rate has reached its end
    before = alone.stats.totals.updates
    alone.play(60)
    assert alone.stats.totals.updates > before
    assert torch.equal(alone.numbers.weights, weights)


# The server and its agents


@pytest.mark.processes
def test_agents_train_together_and_all_that_they_do_is_counted(start):
    serving = start(**{**CARTPOLE, "agents": 2})
    serving.wait_until(lambda: serving.server._agents.crew.playing == 2, 120)
    serving.wait_until(lambda: serving.stats.totals.updates > 300, 120)
    assert serving.server.setting == {"agents": 2, "predictors": 0, "trainers": 0, "remote_agents": 0}
    assert serving.server._numbers.steps.item() == serving.stats.totals.steps
    serving.server.stop()
    totals = serving.stats.totals
    assert serving.server.setting["agents"] == 0
    assert_all_counted(totals)
    assert totals.updates == totals.full_updates == totals.experiences == serving.server.model.updates
    assert totals.predictions >= totals.steps > 1000
    assert totals.prediction_batches == totals.predictions
    assert totals.episodes == len(serving.stats.take_games()) > 10
    assert 0 < totals.lag / totals.experiences < 20
    assert serving.stats.lag_max_ever <= 100
    assert totals.lost_steps < 2 * serving.config.t_max + 1  # what was under way at the end
    assert totals.bad_updates == totals.bad_messages == 0


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGKILL, "was killed by signal 9"), (signal.SIGTERM, "ended with code 0")]
)
def test_a_killed_agent_is_replaced_and_its_updates_stay(start, number, end):
    serving = start(**{**CARTPOLE, "hidden": 256})  # so that an update takes most of its time
    serving.wait_until(lambda: serving.stats.totals.updates > 50, 120)
    (first,) = serving.processes()
    os.kill(serving.processes()[first].pid, number)
    updates = serving.server.model.updates
    serving.wait_until(lambda: serving.processes().keys() - {first}, 60)
    serving.wait_until(lambda: serving.server._agents.crew.playing and serving.server.model.updates > updates + 20, 120)
    assert f"agent {first} {end} and is replaced" in serving.log_path.read_text()
    serving.server.stop()
    assert_all_counted(serving.stats.totals)
    assert serving.stats.totals.updates == serving.server.model.updates


@pytest.mark.processes
@pytest.mark.alone
def test_a_silent_agent_is_replaced(start):
    serving = start(**{**CARTPOLE, "stall_seconds": 3.0})
    serving.wait_until(lambda: serving.stats.totals.updates > 20, 120)
    (first,) = serving.processes()
    os.kill(serving.processes()[first].pid, signal.SIGSTOP)
    serving.wait_until(lambda: serving.processes().keys() - {first}, 60)
    assert f"agent {first} was silent for" in serving.log_path.read_text()


@pytest.mark.processes
def test_a_game_that_breaks_is_told_and_replaced_until_it_does_not_help(start, tmp_path, monkeypatch):
    monkeypatch.setattr(agents, "FRUITLESS_TOLERATED", 0)
    monkeypatch.syspath_prepend(tmp_path)
    broken_games.install(tmp_path, "raise in step", then="raise in reset")
    serving = start(**{**CARTPOLE, "game": "broken_games:Faulty-v0"})
    with pytest.raises(agents.AgentsKeepDying, match=r"GAME=broken_games:Faulty-v0 raised KeyError in reset"):
        serving.wait_until(lambda: False, 120)
    text = serving.log_path.read_text()
    assert (
        "agent 0 failed: GAME=broken_games:Faulty-v0 raised ValueError in step: the game broke and is replaced" in text
    )
    assert "Traceback" in text
    serving.server.stop()
    assert serving.stats.totals.steps >= broken_games.STEPS
    assert_all_counted(serving.stats.totals)


@pytest.mark.processes
def test_losses_that_are_not_finite_end_the_run_with_the_last_good_weights(tmp_path):
    (tmp_path / "huge.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Huge(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        observation, _, *rest = super().step(action)\n"
        "        return observation, 1e30, *rest\n"
        "gymnasium.register('Huge-v0', Huge)\n"
    )
    code, output = run(tmp_path, *WORDS, "GAME=huge:Huge-v0", "AGENTS=1", "REWARD_CLIP=0", "DISCOUNT=0.5")
    assert code == 1, output
    summary = summary_of(tmp_path / "here")
    assert summary["exit_reason"].startswith(
        "failed: agent 0 failed: UpdatesNotFinite: 5 updates in a row were not finite"
    )
    assert summary["bad_updates"] == 5
    assert summary["unaccounted_steps"] == 0
    load_newest(tmp_path / "here")


@pytest.mark.processes
@pytest.mark.alone
def test_a_killed_server_leaves_nothing_and_its_run_is_resumed_by_either_algorithm(tmp_path, temporary):
    path = tmp_path / "here"
    process = start_run(tmp_path, *WORDS, "AGENTS=2", "CHECKPOINT_SECONDS=0.5")
    wait_until(lambda: trains(path)() and list(path.glob("checkpoints/*.safetensors")), 120)
    children = children_of(process.pid)
    assert len(children) >= 2
    process.kill()
    process.wait()
    wait_until(all_gone(children), 10)
    assert not [file for file in Path("/dev/shm").iterdir() if "torch" in file.name]
    assert list(temporary.iterdir())  # which nobody could remove any more
    _, _, state = load_newest(path)
    logged = last_steps(path)  # which may be more than what was saved
    process = start_run(tmp_path, "RESUME=here", "AGENTS=1")
    wait_until(lambda: process.poll() is not None or last_steps(path) > logged + 200, 120)
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 20)
    assert code == 0, output
    assert f"resumed at step {state['steps']}, update {state['updates']}" in output
    assert not list(temporary.iterdir())
    summary = summary_of(path)
    assert summary["exit_reason"] == "interrupted"
    assert summary["updates"] > state["updates"]
    assert summary["unaccounted_steps"] == 0
    _, arrays, now = load_newest(path)
    assert now["updates"] == summary["updates"]
    assert arrays["mean_square"].min() < 1.0  # where it started
    limit = f"MAX_STEPS={summary['steps'] + 300}"
    code, output = run(tmp_path, "RESUME=here", "ALGO=ga3c", "TUNER=off", "AGENTS=1", "MIN_BATCH=20", limit)
    assert code == 0, output
    assert f"resumed at step {summary['steps']}, update {summary['updates']}" in output


def last_steps(path):
    return max((row["steps"] for row in rows_of(path)), default=0)
