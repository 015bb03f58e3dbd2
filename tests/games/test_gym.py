"""Gymnasium's environments: spaces, pictures, episodes and scores."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence

from ga3c.games.checked_game import GameFault
from ga3c.games.images import area_weights
from ga3c.games.make import make_games
from ga3c.games.spec import FRAME, Finished
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


def test_a_continuous_action_space_is_refused():
    with pytest.raises(ConfigError, match=r"GAME=Pendulum-v1 has the action space Box.*only Discrete"):
        make_games(Config(game="Pendulum-v1"), 1)


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

    def make(space, shown, *, actions=THREE, count=1, max_episode_steps=None):
        def entry_point():
            return Replay(space, shown, actions)

        gymnasium.register(
            "ga3c-tests/Replay-v0",
            entry_point=entry_point,
            disable_env_checker=True,
            max_episode_steps=max_episode_steps,
        )
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


def test_an_observation_of_another_shape_is_told_also_later(replay):
    games = replay(Box(-9, 9, (2,)), [np.zeros(2, np.float32), np.zeros(2, np.float32), np.zeros(3, np.float32)])
    games.reset(0)
    games.step(np.array([0]))
    with pytest.raises(GameFault, match=r"an observation of shape \(3,\) instead of \(2,\) in step"):
        games.step(np.array([0]))


@pytest.mark.filterwarnings("ignore:invalid value encountered in dot")
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1], ids=["reset", "step"])
def test_an_observation_that_is_not_finite_is_told(replay, number, place):
    shown = [np.zeros(2, np.float32), np.zeros(2, np.float32)]
    shown[place][1] = number
    games = replay(Box(-9, 9, (2,)), shown, count=2)
    play = [lambda: games.reset(0), lambda: games.step(np.array([0, 0]))]
    for turn in play[:place]:
        turn()
    with pytest.raises(GameFault, match="an observation that is not finite"):
        play[place]()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, None])
def test_a_reward_that_is_not_finite_is_told(replay, monkeypatch, number):
    observation = np.zeros(1, np.float32)
    monkeypatch.setattr(Replay, "step", lambda self, action: (observation, number, False, False, {}))
    games = replay(Box(-1, 1, (1,)), [observation])
    games.reset(0)
    with pytest.raises(GameFault, match=f"a reward that is not a finite number in step: {number}"):
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
    assert games.spec.action.n == 3
    assert games._vector.envs[0].unwrapped.received == [-1, 0, 1]


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


def test_four_channels_may_be_first_too(replay):
    image = np.zeros((4, 168, 252), dtype=np.uint8)
    image[1] = 40
    frame = replay(Box(0, 255, image.shape, np.uint8), [image, image]).reset(seed=0)[0, -1]
    assert (frame == 10).all()  # the mean of the four


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


def test_scores_of_gymnasium_games_are_unclipped_and_whole(replay):
    games = replay(Box(-1, 1, (1,)), [np.zeros(1, np.float32)] * 4, count=2)
    games.reset(seed=0)
    played = [games.step(np.zeros(2, dtype=np.int64)) for _ in range(8)]
    assert [step.rewards[0] for step in played] == [10, 20, 30, 0, 10, 20, 30, 0]
    assert [bool(step.terminated[0]) for step in played] == [False, False, True, False] * 2
    assert [bool(step.real[0]) for step in played] == [True, True, True, False] * 2
    assert [step.finished for step in played] == [(), (), (Finished(60.0, 3),) * 2, ()] * 2


def test_a_game_that_ends_with_its_time_limit_has_ended(replay):
    """Nothing follows its last step, so nothing is predicted of it."""
    games = replay(Box(-1, 1, (1,)), [np.zeros(1, np.float32)] * 4, max_episode_steps=3)
    games.reset(seed=0)
    played = [games.step(np.zeros(1, dtype=np.int64)) for _ in range(3)]
    assert [bool(step.terminated[0]) for step in played] == [False, False, True]
    assert not any(step.truncated[0] for step in played)


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


def test_the_same_seed_plays_the_same_and_environments_differ():
    def observations(seed):
        games = make_games(Config(game="CartPole-v1"), 2)
        first = games.reset(seed=seed)
        games.close()
        return first

    np.testing.assert_array_equal(observations(3), observations(3))
    assert (observations(3) != observations(40)).any()
    assert (observations(3)[0] != observations(3)[1]).any()
