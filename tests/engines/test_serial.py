"""The serial mode: a seed decides every bit, and each step is counted and trained once."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ga3c.engines import serial
from ga3c.engines.trainer import Trainer
from ga3c.games.make import make_games
from ga3c.models.model import Model
from tests.helpers.serial_run import CARTPOLE, PONG, SerialRun, differences


def weights_after(updates, **settings):
    run = SerialRun(**settings).play(updates=updates)
    run.server.stop()
    return run.weights


@pytest.mark.parametrize(("settings", "updates"), [(CARTPOLE, 30), (PONG, 6)], ids=["CartPole", "Pong"])
def test_a_seed_decides_every_bit(settings, updates):
    first = weights_after(updates, seed=3, **settings)
    assert torch.equal(first, weights_after(updates, seed=3, **settings))
    assert not torch.equal(first, weights_after(updates, seed=4, **settings))


def test_the_seed_also_decides_the_play(monkeypatch):
    # The same first weights for all seeds: what differs now comes from environments and actions.
    def first_weights(self, config, network):
        original(self, config.replace(seed=0), network)

    original = Model.__init__
    monkeypatch.setattr(Model, "__init__", first_weights)
    runs = [SerialRun(seed=seed, **CARTPOLE) for seed in (3, 4)]
    assert torch.equal(runs[0].weights, runs[1].weights)
    for run in runs:
        run.play(updates=5).server.stop()
    assert not torch.equal(runs[0].weights, runs[1].weights)


def test_every_episode_of_a_run_begins_differently(monkeypatch):
    firsts = []

    def recording_games(config, count):
        games = make_games(config, count)
        reset = games.reset
        games.reset = lambda *given: firsts.append(reset(*given)) or firsts[-1]
        return games

    monkeypatch.setattr(serial, "make_games", recording_games)
    run = SerialRun(**CARTPOLE)
    assert len(firsts) == 2 * 3
    run.play(rounds=100).server.stop()
    starts = np.concatenate(firsts)
    assert len(np.unique(starts, axis=0)) == len(starts) > 2 * 2 * 3


@pytest.fixture
def real_steps(monkeypatch):
    """The number of real steps of all environments, counted where they are played."""
    counted = []

    def counting_games(config, count):
        games = make_games(config, count)
        step = games.step

        def counting_step(actions):
            played = step(actions)
            counted.append(int(played.real.sum()))
            return played

        games.step = counting_step
        return games

    monkeypatch.setattr(serial, "make_games", counting_games)
    return counted


@pytest.fixture
def trained(monkeypatch):
    """All experiences that trainers were given."""
    given = []
    original = Trainer.train

    def train(self, experiences):
        given.append(list(experiences))
        original(self, experiences)

    monkeypatch.setattr(Trainer, "train", train)
    return given


def test_each_step_is_counted_once_and_trained_or_lost(real_steps, trained):
    run = SerialRun(**CARTPOLE).play(rounds=200)
    totals = run.stats.totals
    assert totals.steps == sum(real_steps)
    # 2 agents × 3 environments were predicted in each round; where a step was a reset, for a bootstrap only.
    assert totals.predictions == 200 * 6
    assert totals.prediction_batches == 200
    assert 200 * 6 - 200 < totals.steps < 200 * 6
    assert totals.samples == sum(experience.steps for batch in trained for experience in batch)
    run.server.stop()
    assert totals.samples + run.kept_steps == totals.steps
    assert totals.under_way == run.kept_steps < 6 * 5 + 20  # half-built experiences, and less than a batch
    assert totals.lost_steps == totals.stale_steps == totals.bad_updates == 0


@pytest.mark.parametrize("rounds", [0, 1, 4, 5, 6, 7])
def test_no_step_is_forgotten_whenever_the_run_stops(rounds):
    run = SerialRun(**CARTPOLE).play(rounds=rounds)
    run.server.stop()
    totals = run.stats.totals
    assert totals.steps == 6 * rounds
    assert totals.samples + run.kept_steps == totals.steps
    assert totals.lost_steps == 0


def test_what_a_failed_round_leaves_is_lost_and_counted(monkeypatch):
    def fragile_games(config, count):
        games = make_games(config, count)
        step = games.step
        made.append(games)

        def fragile_step(actions):
            if games is made[3] and run.rounds == 5:  # of the second agent, so the first has played
                raise RuntimeError("broken")
            return step(actions)

        games.step = fragile_step
        return games

    made = []
    monkeypatch.setattr(serial, "make_games", fragile_games)
    run = SerialRun(**CARTPOLE)
    with pytest.raises(RuntimeError, match="broken"):
        run.play(rounds=20)
    run.server.stop()
    totals = run.stats.totals
    assert run.server.state() is None
    assert totals.steps == 6 * 5 + 3
    assert totals.lost_steps == totals.steps - totals.samples > 0
    assert totals.unaccounted_steps == 0  # also of what had been booked in that round


def test_all_steps_of_all_environments_are_trained_in_turn(trained):
    run = SerialRun(**CARTPOLE).play(rounds=300)
    run.server.stop()
    next_step = {}
    for experience in (experience for batch in trained for experience in batch):
        place = (experience.agent, experience.env)
        assert experience.first_step == next_step.get(place, 0)
        next_step[place] = experience.first_step + experience.steps
    assert sorted(next_step) == [(agent, env) for agent in (0, 1) for env in (0, 1, 2)]
    assert min(next_step.values()) > 200


def test_what_is_trained_is_what_was_played(trained, monkeypatch):
    """Observation, action, reward and bootstrap value on their whole way: game, message, predictor, player, trainer."""
    diaries = []  # of each game: what every step was, with the version of the model that chose it

    def diary_games(config, count):
        games = make_games(config, count)
        reset, step, diary = games.reset, games.step, []
        diaries.append(diary)

        def noted_reset(seed, stagger):
            games.seen = reset(seed, stagger)
            return games.seen

        def noted_step(actions):
            played = step(actions)
            diary.append((run.model.version, games.seen[0, 0], int(actions[0]), played))
            games.seen = played.observations
            return played

        games.reset, games.step = noted_reset, noted_step
        return games

    monkeypatch.setattr(serial, "make_games", diary_games)
    settings = {**CARTPOLE, "agents": 1, "envs_per_agent": 2, "learning_rate": 0.01, "init": "paper"}
    run = SerialRun(**settings, discount=0.5)
    run.play(rounds=150).server.stop()
    forward = run.model.network.forward
    for experience in (experience for batch in trained for experience in batch):
        diary = diaries[experience.env]
        real = [place for place, (*_, played) in enumerate(diary) if played.real[0]]
        places = real[experience.first_step : experience.first_step + experience.steps]
        last = diary[places[-1]][3]
        following = 0.0
        if not last.terminated[0]:
            # The value of the observation reached is predicted by the version of the next step.
            weights = diary[places[-1] + 1][0].weights
            _, values = forward(weights, torch.from_numpy(last.observations[0, 0])[None])
            following = values[0].item()
        assert experience.version == diary[places[0]][0].number
        for i in reversed(range(experience.steps)):
            _, observation, action, played = diary[places[i]]
            following = float(played.rewards[0]) + 0.5 * following
            np.testing.assert_array_equal(experience.frames[i], observation)
            assert experience.fields["actions"][i] == action
            assert experience.fields["returns"][i] == pytest.approx(following, abs=1e-5)
    assert len(trained) > 10


def test_batches_are_merged_to_the_minimum_and_no_further(trained):
    SerialRun(**CARTPOLE).play(rounds=100).server.stop()
    assert len(trained) > 10
    for batch in trained:
        steps = [experience.steps for experience in batch]
        assert sum(steps[:-1]) < 20 <= sum(steps)


def test_versions_are_those_that_acted(trained):
    run = SerialRun(**CARTPOLE).play(rounds=100)
    run.server.stop()
    for env in range(3):
        versions = [experience.version for batch in trained for experience in batch if experience.env == env]
        assert versions[0] == 0
        assert len(set(versions)) > 10
    for number, batch in enumerate(trained):  # of which each made one version
        assert all(experience.version <= number for experience in batch)
    # An update needs several rounds, so no experience is older than a few.
    assert 0 < run.stats.lag_max_ever < 10


def test_games_are_scored():
    run = SerialRun(**CARTPOLE).play(rounds=300)
    games = run.stats.take_games()
    assert len(games) == run.stats.totals.episodes > 10
    assert [game.episode for game in games] == list(range(1, len(games) + 1))
    assert all(game.score == game.length >= 8 for game in games)  # a point per step, and no pole falls sooner


def test_wait_ends_at_the_limit_of_steps():
    run = SerialRun(**CARTPOLE, max_steps=100)
    run.server.wait(60)
    assert 100 <= run.stats.totals.steps < 100 + 6


def clock(monkeypatch, tick):
    """Let the serial server have a clock that goes on by so much whenever it looks: the speed of a machine."""
    ticks = itertools.count(0.0, tick)
    monkeypatch.setattr(serial, "time", SimpleNamespace(monotonic=lambda: next(ticks)))


@pytest.mark.parametrize("maximum", [{"max_episodes": 7}, {"max_steps": 100}], ids=["games", "steps"])
def test_a_maximum_ends_it_in_the_same_round_however_quick_the_machine_is(monkeypatch, maximum):
    ends = []
    for tick, seconds in ((0.01, 0.05), (0.03, 0.05), (100.0, 0.05), (0.01, 10.0), (0.01, 0.0)):
        clock(monkeypatch, tick)
        run = SerialRun(**CARTPOLE, seed=3, **maximum)
        while not run.stats.reached(run.config):
            run.server.wait(seconds)
        run.server.stop()
        ends.append(run.everything())
    assert ends[0]["totals"]["updates"] > 3
    assert [differences(ends[0], end) for end in ends] == [[]] * 5


def test_one_environment_makes_one_player():
    run = SerialRun(**{**CARTPOLE, "agents": 1, "envs_per_agent": 1, "min_batch": 1}).play(rounds=50)
    run.server.stop()
    totals = run.stats.totals
    assert totals.samples + run.kept_steps == totals.steps
    assert totals.updates >= 10
