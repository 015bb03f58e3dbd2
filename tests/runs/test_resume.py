"""Exact resume: however often a serial run is stopped, it ends with the same bits; a parallel one goes on with all."""

import itertools
import re
import signal
import threading
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

import ga3c
from ga3c.engines import serial
from ga3c.engines.trainer import Trainer
from ga3c.games import repeatable as episodes
from ga3c.games.make import make_games
from ga3c.memory.stats import Stats, Totals
from ga3c.runs.checkpoint import checkpoints_of, load_newest
from ga3c.runs.training import run_training
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from tests.helpers.clock import Clock
from tests.helpers.command_line import finish, start
from tests.helpers.serial_run import CARTPOLE, PONG, SerialRun, comparable, differences
from tests.helpers.waiting import wait_until

CATCH = {
    "game": "tests.helpers.catch_game:Catch-v0",
    "agents": 1,
    "envs_per_agent": 3,
    "min_batch": 12,
    "t_max": 5,
    "hidden": 16,
}
ONE = {**CARTPOLE, "agents": 1, "envs_per_agent": 1, "min_batch": 7}
BREAKOUT = {**PONG, "game": "Breakout", "episodic_life": True, "sticky": 0.25, "hidden": 16}


def under_way(run):
    """What there is between two rounds: episodes that just ended or go on, half-built and waiting experiences."""
    state = run.server.state()
    episodes = [episode for player in state["players"] for episode in player["episodes"]]
    there = {
        "ended": any(episode["over"] for episode in episodes),
        "middle": any(len(episode["actions"]) and not episode["over"] for episode in episodes),
        "half-built": any(track["actions"] for player in state["players"] for track in player["tracks"]),
        "waiting": bool(state["experiences"]),
    }
    return [what for what, is_there in there.items() if is_there]


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [(CARTPOLE, 120), (ONE, 120), ({**CATCH, "correction": "vtrace"}, 60), (PONG, 30), (BREAKOUT, 150)],
    ids=["CartPole", "one environment", "Catch with V-trace", "Pong", "Breakout with lives and sticky actions"],
)
def test_a_run_that_was_stopped_ends_with_the_same_bits(settings, rounds, tmp_path):
    whole = SerialRun(seed=5, **settings)
    first = {}  # the first round after which there was each of them
    while whole.rounds < rounds:
        for what in under_way(whole.play(rounds=whole.rounds + 1)):
            first.setdefault(what, whole.rounds)
    whole.server.stop()
    assert first.keys() == {"middle", "half-built", "waiting"} | ({"ended"} if whole.stats.totals.episodes else set())
    assert whole.stats.totals.updates > 3

    stopped = SerialRun(seed=5, **settings)
    reset = first.get("ended", 0) + 1
    for stop in sorted({*first.values(), reset, rounds // 2}):
        stopped.play(rounds=stop).save(tmp_path)
        stopped = SerialRun(resume=tmp_path, seed=5, **settings)
        stopped.rounds = stop
    stopped.play(rounds=rounds).server.stop()
    assert differences(whole.everything(), stopped.everything()) == []


def test_a_saved_run_plays_on_as_if_nothing_had_been_saved(tmp_path):
    watched, alone = SerialRun(**CARTPOLE), SerialRun(**CARTPOLE)
    for _ in range(50):
        watched.play(rounds=watched.rounds + 1).server.state()
    assert differences(watched.everything(), alone.play(rounds=50).everything()) == []


class Wilful(gymnasium.Env):
    """Walks at random: with an even seed by that seed, else by random numbers that no seed repeats."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._random = np.random.default_rng(seed if seed % 2 == 0 else None)
        self._steps = 0
        return self._look(), {}

    def step(self, action):
        self._steps += 1
        return self._look(), 0.5, self._steps == 40, False, {}

    def _look(self):
        return self._random.uniform(-1, 1, 2).astype(np.float32)


gymnasium.register("ga3c-tests/Wilful-v0", Wilful)
WILFUL = {**CARTPOLE, "game": "ga3c-tests/Wilful-v0", "min_batch": 200, "init": "paper", "discount": 0.5}


def test_environments_that_cannot_be_brought_back_begin_a_new_episode(tmp_path, caplog, monkeypatch):
    first = SerialRun(**WILFUL).play(rounds=23)  # of 40 to the first end of an episode
    first.save(tmp_path)
    before = first.server.state()
    run = SerialRun(resume=tmp_path, **WILFUL)
    after = run.server.state()
    cut = [
        (player, env)
        for player, state in enumerate(after["players"])
        for env, episode in enumerate(state["episodes"])
        if episode["over"]
    ]
    assert 0 < len(cut) < 6
    assert f"{len(cut)} of 6 environments begin a new episode" in caplog.text
    waiting = len(before["experiences"])

    values = {}  # of the observations at which they were cut
    for player, env in cut:
        saved = before["players"][player]["episodes"][env]["observation"]
        _, value = run.model.network.forward(run.weights, torch.from_numpy(saved[:, 0]))
        values[player, env] = value.item()
    run.server.round()
    # What was half-built is not lost: it ended with the value of the observation that was saved.
    ended = {(e["agent"], e["env"]): e for e in run.server.state()["experiences"][waiting:]}
    for player, env in cut:
        track = before["players"][player]["tracks"][env]
        place = (player // 2, env + 2 * (player % 2))  # three environments are halves of two and one
        if track["actions"]:
            assert ended[place]["first_step"] == track["next_step"]
            assert ended[place]["fields"]["actions"].tolist() == track["actions"]
            assert ended[place]["fields"]["returns"][-1] == pytest.approx(0.5 + 0.5 * values[player, env], abs=1e-6)
    # The round only reset those that were cut.
    assert run.stats.totals.steps == first.stats.totals.steps + 6 - len(cut)
    for player, state in enumerate(run.server.state()["players"]):
        for env, episode in enumerate(state["episodes"]):
            assert episode["number"] == ((player, env) in cut)
            assert len(episode["actions"]) == (0 if (player, env) in cut else 24)

    trained = []
    update = Trainer._update
    monkeypatch.setattr(Trainer, "_update", lambda self, batch: trained.extend(batch) or update(self, batch))
    run.play(rounds=200).server.stop()
    next_step = {}
    for experience in trained:
        place = (experience.agent, experience.env)
        assert experience.first_step == next_step.get(place, 0)
        next_step[place] = experience.first_step + experience.steps
    assert len(next_step) == 6
    assert run.stats.totals.under_way == run.kept_steps
    assert run.stats.totals.lost_steps == 0
    # Games that were cut have no score; all others are whole.
    assert {game.length for game in run.stats.take_games()} == {40}


def test_an_episode_that_is_too_long_to_be_replayed_is_cut(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(episodes, "LONGEST_REPLAY", 5)
    SerialRun(**CARTPOLE).play(rounds=6).save(tmp_path)
    SerialRun(resume=tmp_path, **CARTPOLE)
    assert "6 of 6 environments begin a new episode" in caplog.text


def test_an_episode_of_just_the_longest_replay_is_brought_back(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(episodes, "LONGEST_REPLAY", 6)
    SerialRun(**CARTPOLE).play(rounds=6).save(tmp_path)
    SerialRun(resume=tmp_path, **CARTPOLE)
    assert not caplog.records


# Whole runs

SETTINGS = {
    "game": "CartPole-v1",
    "agents": 2,
    "envs_per_agent": 3,
    "min_batch": 20,
    "t_max": 5,
    "hidden": 16,
    "device": "cpu",
    "tensorboard": False,
}
SERIAL = {**SETTINGS, "serial": True}


def train(path, **settings):
    return ga3c.train(Config.from_mapping({**settings, "run": str(path)}))


def resume(path, **settings):
    return ga3c.train(Config.from_mapping({"resume": str(path), **settings}))


def checkpoint(path):
    """The newest checkpoint, without times."""
    _, arrays, state = load_newest(path)
    return comparable(state["updates"], arrays, state["stats"], state["play"])


def totals_of(path):
    stats = Stats()
    stats.load(load_newest(path)[2]["stats"])
    return stats.totals


@pytest.mark.processes
def test_maximum_ctrl_c_and_kill_leave_no_trace_in_a_serial_run(tmp_path):
    there = tmp_path / "there"
    train(there, **SERIAL, max_steps=500)
    process = start(tmp_path, "RESUME=there", "MAX_STEPS=0")
    wait_until(lambda: "first prediction" in (there / "log.txt").read_text().split("max_steps: ")[-1], 60)
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 10)
    assert code == 0, output
    interrupted = load_newest(there)[2]["steps"]
    assert interrupted > 500
    process = start(tmp_path, "RESUME=there", "MAX_STEPS=0", "CHECKPOINT_SECONDS=0.1")
    newest = checkpoints_of(there)[0]
    wait_until(lambda: checkpoints_of(there)[0] > newest, 60)
    process.kill()
    finish(process, 10)
    steps = load_newest(there)[2]["steps"] + 1000
    assert steps > interrupted + 1000
    summary = resume(there, max_steps=steps)
    train(tmp_path / "here", **SERIAL, max_steps=steps)
    assert differences(checkpoint(tmp_path / "here"), checkpoint(there)) == []
    assert summary["lost_steps"] == 0


@pytest.mark.parametrize("maximum", [{"max_episodes": 20}, {"max_steps": 700}], ids=["games", "steps"])
def test_two_runs_to_the_same_maximum_end_with_the_same_bits_whatever_the_speed(tmp_path, monkeypatch, maximum):
    for place, tick in (("quick", 1e-4), ("slow", 100.0)):
        ticks = itertools.count(0.0, tick)  # of the clock by which it plays for a while
        monkeypatch.setattr(serial, "time", SimpleNamespace(monotonic=lambda ticks=ticks: next(ticks)))
        train(tmp_path / place, **SERIAL, **maximum)
    assert differences(checkpoint(tmp_path / "quick"), checkpoint(tmp_path / "slow")) == []


def test_a_serial_run_hears_ctrl_c_while_it_makes_its_environments(tmp_path, monkeypatch):
    def slow_games(config, count):
        made.append(count)
        clock.ahead += 0.03  # seconds that it takes
        if len(made) == 2:
            interrupted.set()
        return make_games(config, count)

    def run_interrupted(**settings):
        made.clear()
        interrupted.clear()
        summary = run_training(Config.from_mapping({**settings, "run": str(path)}), interrupted)
        assert summary["exit_reason"] == "interrupted"
        assert 2 <= len(made) < 10

    path, made, interrupted, clock = tmp_path / "here", [], threading.Event(), Clock()
    monkeypatch.setattr(serial, "make_games", slow_games)
    monkeypatch.setattr(serial, "time", clock)
    run_interrupted(**{**SERIAL, "envs_per_agent": 30})
    # Nothing was played, so a resumed run begins as one that was never stopped.
    assert load_newest(path)[2]["play"] is None
    assert totals_of(path) == Totals()
    monkeypatch.undo()
    resume(path, max_steps=600)
    before = checkpoint(path)
    monkeypatch.setattr(serial, "make_games", slow_games)
    monkeypatch.setattr(serial, "time", clock)
    run_interrupted(resume=str(path), max_steps=0)
    assert differences(before, checkpoint(path)) == []


def test_with_other_players_what_was_under_way_is_lost_and_counted(tmp_path):
    path = tmp_path / "here"
    assert train(path, **SERIAL, max_steps=500)["lost_steps"] == 0
    kept = totals_of(path).under_way
    assert kept > 0
    summary = resume(path, max_steps=800, envs_per_agent=2)
    assert summary["lost_steps"] == kept
    log = (path / "log.txt").read_text()
    assert "all environments begin a new episode, since other settings are given: ENVS_PER_AGENT" in log
    assert f"{kept} steps were under way when the checkpoint was written, and are lost" in log
    totals = totals_of(path)
    assert totals.agents_started == 4  # so their seeds, too, are new


@pytest.mark.processes
def test_a_parallel_run_goes_on_with_the_very_bits_and_counters(tmp_path):
    path = tmp_path / "here"
    summary = train(path, **SETTINGS, max_steps=1500)
    before, totals = checkpoint(path), totals_of(path)
    assert totals.updates == before["updates"] == summary["updates"] > 0
    assert totals.under_way == 0  # all that was not trained is counted as lost
    assert totals.agents_started == 2
    # Nothing is left to do, and what agents may play until they hear that is too little to be trained.
    resume(path, min_batch=4000)
    after, again = checkpoint(path), totals_of(path)
    assert differences(before["arrays"], after["arrays"]) == []
    assert before["updates"] == after["updates"]
    assert again.agents_started > totals.agents_started  # so nobody has the random numbers of those before
    assert again.under_way == 0
    assert again.steps - totals.steps == again.lost_steps - totals.lost_steps
    for name in ("samples", "full_updates", "experiences", "lag", "stale_steps", "gradient_norm"):
        assert getattr(again, name) == getattr(totals, name), name
    assert after["totals"]["policy_loss"] == before["totals"]["policy_loss"]
    assert after["scores"][: len(before["scores"])] == before["scores"] or len(before["scores"]) == 100


@pytest.mark.processes
def test_a_parallel_run_counts_what_a_kill_took(tmp_path):
    words = [f"{key.upper()}={int(value) if isinstance(value, bool) else value}" for key, value in SETTINGS.items()]
    process = start(tmp_path, *words, "RUN=here", "CHECKPOINT_SECONDS=0.2")
    path = tmp_path / "here"
    wait_until(lambda: list(path.glob("checkpoints/*.safetensors")) and totals_of(path).under_way > 0, 60)
    process.kill()
    finish(process, 10)
    killed = totals_of(path)
    summary = resume(path, max_steps=killed.steps + 500)
    assert summary["lost_steps"] >= killed.lost_steps + killed.under_way
    assert totals_of(path).under_way == 0


def test_a_maximum_that_leaves_nothing_to_play_is_told(tmp_path):
    path = tmp_path / "here"
    assert train(path, **SERIAL, max_seconds=0.001)["exit_reason"] == "max_seconds"
    assert re.search(
        r"MAX_SECONDS=0.001 was reached before the first prediction, since \d\.\d s had passed: give a larger MAX_S",
        (path / "log.txt").read_text(),
    )
    resume(path, max_seconds=0, max_steps=300)
    assert (path / "log.txt").read_text().count("was reached before the first prediction") == 1
    steps = totals_of(path).steps
    assert resume(path)["exit_reason"] == "max_steps"
    told = (
        f"MAX_STEPS=300 was reached before the first prediction, since {steps} steps are behind it: give a larger MAX_S"
    )
    assert told in (path / "log.txt").read_text()


def test_a_run_that_has_only_just_started_is_not_called_something_else(tmp_path):
    with pytest.raises(ConfigError, match=r"is not a run directory, or its run has only just started: there is no con"):
        Config.from_mapping({"resume": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"nowhere is not a run directory: there is no config.json in it"):
        Config.from_mapping({"resume": str(tmp_path / "nowhere")})
