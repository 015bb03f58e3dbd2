"""ALE's games: names, frames, lives and scores."""

import gymnasium
import numpy as np
import pytest

from ga3c.games import ale
from ga3c.games.ale import find_rom, sticky_probability
from ga3c.games.images import area_weights
from ga3c.games.make import make_games
from ga3c.games.spec import FRAME, STACK, Finished
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


@pytest.mark.parametrize(
    ("name", "rom"),
    [
        ("Pong", "pong"),
        ("pong", "pong"),
        ("ms_pacman", "ms_pacman"),
        ("MsPacman", "ms_pacman"),
        ("ALE/Pong-v5", "pong"),
        ("ALE/MsPacman-v5", "ms_pacman"),
        ("PongNoFrameskip-v4", "pong"),
        ("SpaceInvadersNoFrameskip-v4", "space_invaders"),
        ("CartPole-v1", None),
        ("Pongg", None),
        ("my.module:Pong-v0", None),
    ],
)
def test_names_of_games(name, rom):
    assert find_rom(name) == rom


@pytest.mark.parametrize(
    ("name", "sticky"), [("Pong", 0.0), ("ms_pacman", 0.0), ("ALE/Pong-v5", 0.25), ("PongNoFrameskip-v4", 0.0)]
)
def test_an_id_means_its_own_sticky_actions(name, sticky):
    assert sticky_probability(Config(game=name)) == sticky
    for chosen in (0.0, 0.5):  # also 0, which is a choice and not auto
        assert sticky_probability(Config(game=name, sticky=chosen)) == chosen


def frames_of(steps=60, **settings):
    """All observations of random play, the same actions for all settings."""
    games = make_games(Config(**settings), 1)
    chance = np.random.default_rng(0)
    observations = [games.reset(seed=1)]
    observations += [games.step(chance.integers(games.spec.action.n, size=1)).observations for _ in range(steps)]
    games.close()
    return np.stack(observations)


def test_the_names_play_as_they_say():
    pong = frames_of(game="Pong")
    np.testing.assert_array_equal(frames_of(game="Pong"), pong)
    np.testing.assert_array_equal(frames_of(game="PongNoFrameskip-v4"), pong)
    np.testing.assert_array_equal(frames_of(game="ALE/Pong-v5", sticky=0.0), pong)
    assert (frames_of(game="ALE/Pong-v5") != pong).any()
    np.testing.assert_array_equal(frames_of(game="ALE/Pong-v5"), frames_of(game="Pong", sticky=0.25))


@pytest.mark.parametrize("game", ["combat", "Joust", "ALE/Warlords-v5"])
def test_games_for_two_players_are_refused(game):
    with pytest.raises(ConfigError, match="two players"):
        make_games(Config(game=game), 1)


def test_atari_observations():
    games = make_games(Config(game="Pong", noop_max=0), 2)
    first = games.reset(seed=0)
    second = games.step(np.array([0, 0])).observations
    games.close()
    assert first.shape == (2, STACK, FRAME, FRAME)
    assert first.dtype == np.uint8
    assert not first[:, :-1].any()  # zeros before the first frame, as in Preprocess
    assert first[:, -1].any()
    np.testing.assert_array_equal(second[:, -2], first[:, -1])
    assert games.spec.action.n == 6


def test_atari_frames_are_those_of_the_emulator():
    """Four emulated frames per step, the brighter of the last two, each target pixel the mean of what it covers."""
    games = make_games(Config(game="Pong", noop_max=0), 1)
    emulator = gymnasium.make("PongNoFrameskip-v4", obs_type="grayscale").unwrapped
    rows, columns = area_weights(210, FRAME), area_weights(160, FRAME).T
    emulator.reset(seed=0)
    screen, *_ = emulator.step(1)  # FIRE, with which a game begins
    np.testing.assert_allclose(games.reset(seed=0)[0, -1], rows @ screen.astype("f4") @ columns, atol=1)
    flickered = 0
    for action in np.random.default_rng(0).integers(6, size=60):
        screens = [emulator.step(action)[0] for _ in range(4)]
        brighter = np.maximum(screens[2], screens[3])
        flickered += (brighter != screens[3]).any()
        got = games.step(np.array([action])).observations[0, -1]
        np.testing.assert_allclose(got, rows @ brighter.astype("f4") @ columns, atol=1)
    games.close()
    emulator.close()
    assert flickered > 5  # or the brighter of two frames would not be seen here


def steps_to_first_lost_ball(noop_max):
    """Of four games of Breakout in which nothing is pressed."""
    games = make_games(Config(game="Breakout", noop_max=noop_max, episodic_life=True), 4)
    games.reset(seed=0)
    lost = np.stack([games.step(np.zeros(4, dtype=np.int64)).terminated for _ in range(40)])
    games.close()
    assert (lost.sum(axis=0) == 1).all()  # the ball flew, so FIRE was pressed at the start
    return lost.argmax(axis=0)


def test_games_begin_with_fire_after_a_random_number_of_noops():
    assert len(set(steps_to_first_lost_ball(0))) == 1
    assert len(set(steps_to_first_lost_ball(30))) > 1


def play_breakout(episodic_life):
    games = make_games(Config(game="Breakout", episodic_life=episodic_life), 2)
    chance = np.random.default_rng(0)
    games.reset(seed=1)
    played = [games.step(chance.integers(games.spec.action.n, size=2)) for _ in range(450)]
    games.close()
    return played


def test_a_lost_life_ends_the_episode_but_not_the_game():
    whole, lives = play_breakout(False), play_breakout(True)
    for one, other in zip(whole, lives, strict=True):
        # The play is the same to the last pixel, and so are the scores, which are of whole games.
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.rewards, other.rewards)
        np.testing.assert_array_equal(one.real, other.real)
        assert one.finished == other.finished
        # The end of a game is always an end; a lost life only with EPISODIC_LIFE=1.
        assert (other.terminated | ~one.terminated).all()
    games = sum(step.terminated.sum() for step in whole)
    episodes = sum(step.terminated.sum() for step in lives)
    assert games == sum(len(step.finished) for step in whole) >= 2
    assert episodes > 3 * games  # Breakout has five lives
    # The step after a lost life is real; the step after a game is not.
    for i, (one, other) in enumerate(zip(whole[:-1], lives[:-1], strict=True)):
        lost_life = other.terminated & ~one.terminated
        assert lives[i + 1].real[lost_life].all()
        assert not lives[i + 1].real[one.terminated].any()


def test_atari_scores_are_unclipped_and_whole():
    games = make_games(Config(game="MsPacman", episodic_life=True, reward_clip=1.0), 1)
    chance = np.random.default_rng(0)
    games.reset(seed=1)
    total, steps, finished = 0.0, 0, ()
    while not finished:
        played = games.step(chance.integers(games.spec.action.n, size=1))
        total, steps, finished = total + played.rewards[0], steps + 1, played.finished
        assert steps < 3000
    games.close()
    assert finished == (Finished(total, steps),)
    assert total >= 10 * 10  # a pill is worth 10 points; clipped it would be 1
    assert total % 10 == 0


def test_a_reset_is_no_data_however_long_its_no_ops_are():
    # With so many no-ops a new game begins at a later frame than the old one ended at.
    games = make_games(Config(game="Breakout", noop_max=2000), 2)
    games.reset(1)
    random = np.random.default_rng(0)
    over = np.zeros(2, dtype=bool)
    ends = 0
    for _ in range(500):
        played = games.step(random.integers(games.spec.action.n, size=2))
        np.testing.assert_array_equal(played.real, ~over)
        over = played.terminated | played.truncated
        ends += over.sum()
    games.close()
    assert ends >= 2


def test_a_game_is_cut_after_half_an_hour(monkeypatch):
    assert ale.MAX_FRAMES == 30 * 60 * 60
    monkeypatch.setattr(ale, "MAX_FRAMES", 400)
    games = make_games(Config(game="Pong", noop_max=0), 1)
    games.reset(seed=0)
    played = [games.step(np.zeros(1, dtype=np.int64)) for _ in range(110)]
    games.close()
    (cut,) = np.flatnonzero([step.truncated[0] for step in played])
    assert 4 * (cut + 1) == 400
    assert not any(step.terminated[0] for step in played)
    assert [len(step.finished) for step in played[cut - 1 : cut + 2]] == [0, 1, 0]
    assert [bool(step.real[0]) for step in played[cut : cut + 3]] == [True, False, True]
