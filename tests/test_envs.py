"""From a name to K environments: names, spaces, preprocessing, lives and scores."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence

from ga3c.atari import find_rom, sticky_probability
from ga3c.checked import GameFault
from ga3c.config import Config
from ga3c.envs import make_games
from ga3c.games import FRAME, STACK, Finished, Scores
from ga3c.gym_games import area_weights
from ga3c.settings import ConfigError

# Names


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
    observations += [games.step(chance.integers(games.spec.actions, size=1)).observations for _ in range(steps)]
    games.close()
    return np.stack(observations)


def test_the_names_play_as_they_say():
    pong = frames_of(game="Pong")
    np.testing.assert_array_equal(frames_of(game="Pong"), pong)
    np.testing.assert_array_equal(frames_of(game="PongNoFrameskip-v4"), pong)
    np.testing.assert_array_equal(frames_of(game="ALE/Pong-v5", sticky=0.0), pong)
    assert (frames_of(game="ALE/Pong-v5") != pong).any()
    np.testing.assert_array_equal(frames_of(game="ALE/Pong-v5"), frames_of(game="Pong", sticky=0.25))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Pongg", "Pong"),
        ("Brekout", "Breakout"),
        ("SpaceInvader", "SpaceInvaders"),
        ("CartPole-v9", "CartPole-v1"),
        ("CartPol-v1", "CartPole-v1"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(name, meant):
    with pytest.raises(ConfigError, match=rf"GAME={name} .*Did you mean {meant}\?"):
        make_games(Config(game=name), 1)


def test_a_module_that_is_missing_is_named():
    with pytest.raises(ConfigError, match=r"GAME=no_such_module:Some-v0 .*no_such_module"):
        make_games(Config(game="no_such_module:Some-v0"), 1)


def test_a_continuous_action_space_is_refused():
    with pytest.raises(ConfigError, match=r"GAME=Pendulum-v1 has the action space Box.*only Discrete"):
        make_games(Config(game="Pendulum-v1"), 1)


def test_the_users_own_environment(tmp_path, monkeypatch):
    (tmp_path / "users_module.py").write_text(
        "import gymnasium\n"
        "class Mine(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (3,))\n"
        "    action_space = gymnasium.spaces.Discrete(7)\n"
        "gymnasium.register('Mine-v0', entry_point=Mine)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    games = make_games(Config(game="users_module:Mine-v0"), 2)
    games.close()
    del gymnasium.registry["Mine-v0"]
    assert (games.spec.frame, games.spec.actions) == ((3,), 7)


# Spaces

THREE = Discrete(3)


class Replay(gymnasium.Env):
    """Shows the observations it was given, one per step; the last ends the episode. Rewards are 10, 20, 30, …"""

    def __init__(self, space, shown, actions):
        self.observation_space, self.action_space = space, actions
        self._shown = shown
        self.received = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._at = 0
        return self._shown[0], {}

    def step(self, action):
        self.received.append(int(action))
        self._at += 1
        return self._shown[self._at], 10.0 * self._at, self._at == len(self._shown) - 1, False, {}


@pytest.fixture
def replay():
    """Makes games that replay these observations of this space."""
    made = []

    def make(space, shown, *, actions=THREE, count=1):
        def entry_point():
            return Replay(space, shown, actions)

        gymnasium.register("ga3c-tests/Replay-v0", entry_point=entry_point, disable_env_checker=True)
        made.append(make_games(Config(game="ga3c-tests/Replay-v0"), count))
        return made[-1]

    yield make
    for games in made:
        games.close()
    gymnasium.registry.pop("ga3c-tests/Replay-v0", None)


def test_vectors_are_flat_float32(replay):
    shown = np.arange(6, dtype=np.float64).reshape(2, 3)
    games = replay(Box(-9, 9, (2, 3), np.float64), [shown, -shown], count=2)
    spec = games.spec
    assert (spec.frame, spec.stack, spec.dtype, spec.is_image) == ((6,), 1, "float32", False)
    observations = games.reset(seed=0)
    assert observations.dtype == np.float32
    np.testing.assert_array_equal(observations, [[[0, 1, 2, 3, 4, 5]]] * 2)
    np.testing.assert_array_equal(games.step(np.array([0, 0])).observations, [[[0, -1, -2, -3, -4, -5]]] * 2)


def test_discrete_observations_are_one_hot(replay):
    games = replay(Discrete(4), [0, 3], count=2)
    assert games.spec.frame == (4,)
    np.testing.assert_array_equal(games.reset(seed=0), [[[1, 0, 0, 0]]] * 2)
    played = games.step(np.array([0, 0]))
    np.testing.assert_array_equal(played.observations, [[[0, 0, 0, 1]]] * 2)
    assert played.observations.dtype == np.float32


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        ("float32", "float64", True),  # only rounded
        ("float32", "int64", True),
        ("int32", "int64", True),  # as long as the numbers fit
        ("uint8", "uint16", True),
        ("uint8", "float32", False),
        ("uint8", "int64", False),
        ("float32", "complex64", False),
    ],
)
def test_observations_of_another_type_are_taken_where_they_stay_what_they_are(replay, wanted, given, fits):
    games = replay(Box(0, 255, (2,), np.dtype(wanted)), [np.full(2, 7, given)])
    if fits:
        assert games.reset(0).ravel().tolist() == [7, 7]
    else:
        with pytest.raises(
            GameFault, match=f"Replay-v0 returned an observation of {given} instead of {wanted} in reset"
        ):
            games.reset(0)


def test_numbers_that_would_wrap_around_are_refused_also_later(replay):
    games = replay(Box(0, 255, (2,), np.uint8), [np.full(2, 7, np.uint16), np.full(2, 300, np.uint16)])
    games.reset(0)
    with pytest.raises(GameFault, match="of uint16 instead of uint8 in step"):
        games.step(np.array([0]))


def test_what_no_space_can_hold_is_told(replay):
    with pytest.raises(GameFault, match=r"Replay-v0 returned what does not fit its observation space Discrete\(3\)"):
        replay(Discrete(3), ["left"]).reset(0)


def test_dict_observations_are_flat(replay):
    space = Dict({"a": Box(-9, 9, (2,)), "b": Discrete(3), "c": MultiDiscrete([2, 2])})
    shown = {"a": np.array([5.0, -6.0], np.float32), "b": 1, "c": np.array([0, 1])}
    games = replay(space, [shown, shown], count=2)
    assert games.spec.frame == (2 + 3 + 4,)
    # a as it is; b = 1 of 3; c = 0 of 2 and 1 of 2.
    np.testing.assert_array_equal(games.reset(seed=0), [[[5, -6, 0, 1, 0, 1, 0, 0, 1]]] * 2)


def test_observations_without_a_size_are_refused(replay):
    with pytest.raises(ConfigError, match="no fixed size"):
        replay(Sequence(Discrete(3)), [(), ()])


def test_actions_that_do_not_begin_at_zero(replay):
    shown = [np.zeros(1, np.float32)] * 4
    games = replay(Box(-1, 1, (1,)), shown, actions=Discrete(3, start=-1))
    games.reset(seed=0)
    for action in (0, 1, 2):
        games.step(np.array([action]))
    assert games.spec.actions == 3
    assert games._vector.envs[0].unwrapped.received == [-1, 0, 1]


# Images


def test_area_weights_by_hand():
    np.testing.assert_allclose(area_weights(4, 2), [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])
    # Three pixels on two: each covers one and a half.
    np.testing.assert_allclose(area_weights(3, 2), [[2 / 3, 1 / 3, 0], [0, 1 / 3, 2 / 3]], rtol=1e-6)
    np.testing.assert_allclose(area_weights(2, 4), [[1, 0], [1, 0], [0, 1], [0, 1]])
    np.testing.assert_allclose(area_weights(3, 3), np.eye(3))


@pytest.mark.parametrize("source", [1, 7, 83, 84, 85, 160, 210, 400])
def test_area_weights_are_means_that_use_each_pixel_alike(source):
    weights = area_weights(source, FRAME)
    assert weights.shape == (FRAME, source)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(weights.sum(axis=0), FRAME / source, rtol=1e-4)


def picture(value):
    """168×252, so that a target pixel covers 2×3: red, green and blue 0, 1 and 5 times the value, brighter in the
    upper half and black in the left third."""
    image = np.zeros((168, 252, 3), dtype=np.uint8)
    image[...] = np.array([0, value, 5 * value])
    image[:84] += value
    image[:, :84] = 0
    return image


def small_picture(value):
    """What has to become of it: the mean of the colours is 2·value, and 3·value in the upper half."""
    frame = np.full((FRAME, FRAME), 2 * value)
    frame[:42] = 3 * value
    frame[:, :28] = 0
    return frame


@pytest.mark.parametrize("layout", ["channels last", "channels first", "gray", "one channel"])
def test_images_are_gray_small_and_stacked_with_zeros_first(replay, layout):
    images = [picture(value) for value in (10, 20, 30)]
    if layout == "channels first":
        images = [image.transpose(2, 0, 1) for image in images]
    elif layout == "gray":
        images = [image.mean(axis=2).astype(np.uint8) for image in images]
    elif layout == "one channel":
        images = [image.mean(axis=2, keepdims=True).astype(np.uint8) for image in images]
    games = replay(Box(0, 255, images[0].shape, np.uint8), images, count=2)
    spec = games.spec
    assert (spec.frame, spec.stack, spec.dtype, spec.is_image) == ((84, 84), 4, "uint8", True)
    black = np.zeros((FRAME, FRAME))
    first, second, third = (small_picture(value) for value in (10, 20, 30))
    expected = [
        [black, black, black, first],
        [black, black, first, second],
        [black, first, second, third],  # the end
        [black, black, black, first],  # the reset: nothing of the game before
        [black, black, first, second],
    ]
    observations = [games.reset(seed=0)]
    observations += [games.step(np.zeros(2, dtype=np.int64)).observations for _ in range(4)]
    for got, wanted in zip(observations, expected, strict=True):
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, [wanted, wanted])


def test_pixels_are_means_rounded(replay):
    # Each target pixel covers 2×2: (0 + 100 + 100 + 201)/4 = 100.25 and (0 + 0 + 0 + 255)/4 = 63.75.
    image = np.zeros((168, 168), dtype=np.uint8)
    image[0:2, 0:2] = [[0, 100], [100, 201]]
    image[2:4, 0:2] = [[0, 0], [0, 255]]
    image[4:, 4:] = 255
    frame = replay(Box(0, 255, image.shape, np.uint8), [image, image]).reset(seed=0)[0, -1]
    assert (frame[0, 0], frame[1, 0], frame[0, 1]) == (100, 64, 0)
    assert (frame[2:, 2:] == 255).all()


def test_observations_are_not_written_over_by_the_next_step(replay):
    games = replay(Box(0, 255, (84, 84), np.uint8), [np.full((84, 84), n, np.uint8) for n in (1, 2, 3)])
    first = games.reset(seed=0)
    games.step(np.array([0]))
    assert first[0, -1, 0, 0] == 1


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
    assert games.spec.actions == 6


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


# Episodes and scores


def test_scores_are_sums_of_whole_games():
    scores = Scores(2)
    yes, no = np.array([True, True]), np.array([False, False])
    assert scores.add(np.array([5.0, 1.0]), yes, no) == ()
    assert scores.add(np.array([-2.0, 1.0]), yes, np.array([True, False])) == (Finished(3.0, 2),)
    # The first resets: whatever that step carries is no reward of a game, and no step of it.
    assert scores.add(np.array([50.0, 1.0]), np.array([False, True]), no) == ()
    assert scores.add(np.array([7.0, 1.0]), yes, yes) == (Finished(7.0, 1), Finished(4.0, 4))


def test_scores_of_gymnasium_games_are_unclipped_and_whole(replay):
    games = replay(Box(-1, 1, (1,)), [np.zeros(1, np.float32)] * 4, count=2)
    games.reset(seed=0)
    played = [games.step(np.zeros(2, dtype=np.int64)) for _ in range(8)]
    assert [step.rewards[0] for step in played] == [10, 20, 30, 0, 10, 20, 30, 0]
    assert [bool(step.terminated[0]) for step in played] == [False, False, True, False] * 2
    assert [bool(step.real[0]) for step in played] == [True, True, True, False] * 2
    assert [step.finished for step in played] == [(), (), (Finished(60.0, 3),) * 2, ()] * 2


def test_a_time_limit_truncates():
    games = make_games(Config(game="MountainCar-v0"), 1)
    games.reset(seed=0)
    played = [games.step(np.array([1])) for _ in range(201)]
    games.close()
    assert [(bool(step.terminated[0]), bool(step.truncated[0])) for step in played[198:]] == [
        (False, False),
        (False, True),
        (False, False),
    ]
    assert played[199].finished == (Finished(-200.0, 200),)
    assert not played[200].real[0]


def play_breakout(episodic_life):
    games = make_games(Config(game="Breakout", episodic_life=episodic_life), 2)
    chance = np.random.default_rng(0)
    games.reset(seed=1)
    played = [games.step(chance.integers(games.spec.actions, size=2)) for _ in range(450)]
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
        played = games.step(chance.integers(games.spec.actions, size=1))
        total, steps, finished = total + played.rewards[0], steps + 1, played.finished
        assert steps < 3000
    games.close()
    assert finished == (Finished(total, steps),)
    assert total >= 10 * 10  # a pill is worth 10 points; clipped it would be 1
    assert total % 10 == 0


def test_the_same_seed_plays_the_same_and_environments_differ():
    def observations(seed):
        games = make_games(Config(game="CartPole-v1"), 2)
        first = games.reset(seed=seed)
        games.close()
        return first

    np.testing.assert_array_equal(observations(3), observations(3))
    assert (observations(3) != observations(40)).any()
    assert (observations(3)[0] != observations(3)[1]).any()


def test_a_reset_is_no_data_however_long_its_no_ops_are():
    # With so many no-ops a new game begins at a later frame than the old one ended at.
    games = make_games(Config(game="Breakout", noop_max=2000), 2)
    games.reset(1)
    random = np.random.default_rng(0)
    over = np.zeros(2, dtype=bool)
    ends = 0
    for _ in range(500):
        played = games.step(random.integers(games.spec.actions, size=2))
        np.testing.assert_array_equal(played.real, ~over)
        over = played.terminated | played.truncated
        ends += over.sum()
    games.close()
    assert ends >= 2


@pytest.mark.parametrize("game", ["combat", "Joust", "ALE/Warlords-v5"])
def test_games_for_two_players_are_refused(game):
    with pytest.raises(ConfigError, match="two players"):
        make_games(Config(game=game), 1)
