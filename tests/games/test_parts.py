"""What is taken of an observation space: images large and small, parts of Dict and Tuple, and what is left out."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text, Tuple

from ga3c.games.checked_game import GameFault
from ga3c.games.make import make_games
from ga3c.settings.config import Config
from tests.games.test_gym import Replay

PICTURE = Box(0, 255, (168, 168, 3), np.uint8)


@pytest.fixture
def replay():
    """Makes games that replay these observations of this space."""
    made = []

    def make(space, shown, *, count=1, **settings):
        gymnasium.registry.pop("ga3c-tests/Parts-v0", None)
        gymnasium.register("ga3c-tests/Parts-v0", lambda: Replay(space, shown, Discrete(3)), disable_env_checker=True)
        made.append(make_games(Config(game="ga3c-tests/Parts-v0", **settings), count))
        return made[-1]

    yield make
    for games in made:
        games.close()
    gymnasium.registry.pop("ga3c-tests/Parts-v0", None)


def left_out(games):
    return [remark.removeprefix("GAME=ga3c-tests/Parts-v0: ") for remark in games.spec.remarks]


def board(*values):
    """6 × 7 with these channels, each of one value."""
    return np.broadcast_to(np.array(values), (6, 7, len(values)))


def test_a_small_image_is_taken_as_it_is(replay):
    image = np.random.default_rng(0).integers(0, 255, (6, 7, 3)).astype(np.uint8)
    games = replay(Box(0, 255, (6, 7, 3), np.uint8), [image, image], count=2)
    spec = games.spec
    assert (spec.frame, spec.stack, spec.dtype, spec.is_image, spec.is_small) == ((3, 6, 7), 1, "uint8", True, True)
    np.testing.assert_array_equal(games.reset(0), [image.transpose(2, 0, 1)[None]] * 2)


@pytest.mark.parametrize(
    ("shape", "frame"),
    [
        ((6, 7), (6, 7)),
        ((6, 7, 1), (6, 7)),
        ((10, 10, 4), (4, 10, 10)),
        ((17, 8, 8), (17, 8, 8)),
        ((8, 8, 17), (17, 8, 8)),
        ((2, 6, 7), (2, 6, 7)),
        ((5, 5, 5), (5, 5, 5)),
        ((25, 25), (25, 25)),
        ((26, 25), (84, 84)),
        ((4, 9, 3), (108,)),  # a table of numbers
    ],
)
def test_sides_and_channels_are_told_apart(replay, shape, frame):
    image = np.zeros(shape, np.uint8)
    assert replay(Box(0, 255, shape, np.uint8), [image, image]).spec.frame == frame


def test_bool_images_are_black_and_white(replay):
    image = board(True, False)
    games = replay(Box(0, 1, image.shape, np.bool_), [image, image])
    assert games.spec.frame == (2, 6, 7)
    assert games.reset(0)[0, 0, :, 3, 3].tolist() == [255, 0]


@pytest.mark.parametrize(("high", "value", "taken"), [(1, 0.5, 128), (255, 100.4, 100)])
def test_float_images_become_whole_numbers(replay, high, value, taken):
    for shape, frame in (((6, 7, 2), (2, 6, 7)), ((168, 168), (84, 84)), ((168, 168, 3), (84, 84))):
        image = np.full(shape, value, np.float32)
        games = replay(Box(0, high, shape, np.float32), [image, image])
        assert (games.spec.frame, games.spec.dtype) == (frame, "uint8")
        assert np.unique(games.reset(0)[0, -1]).tolist() == [taken]


def test_floats_with_other_bounds_are_no_image(replay):
    image = np.full((6, 7, 2), 0.5, np.float32)
    for space in (Box(-1, 1, image.shape), Box(-np.inf, np.inf, image.shape), Box(0, 1, (6, 7))):
        assert replay(space, [image[..., : space.shape[-1]]] * 2).spec.dtype == "float32"


def test_the_bounds_of_a_small_image_are_used(replay):
    image = np.full((6, 7), 2, np.int64)
    assert np.unique(replay(Box(0, 10, (6, 7), np.int64), [image, image]).reset(0)).tolist() == [51]


def test_a_float_image_that_is_not_finite_is_told(replay):
    image = np.full((6, 7, 2), np.nan, np.float32)
    with pytest.raises(GameFault, match="an observation that is not finite"):
        replay(Box(0, 1, image.shape), [image, image]).reset(0)


@pytest.mark.parametrize("first", [False, True])
def test_colours_are_kept_where_they_are_wanted(replay, first):
    image = np.zeros((168, 168, 3), np.uint8)
    image[:84] = (10, 20, 30)
    shown = [image.transpose(2, 0, 1) if first else image] * 3
    games = replay(Box(0, 255, shown[0].shape, np.uint8), shown, color=True)
    assert (games.spec.frame, games.spec.stack, games.spec.channels) == ((3, 84, 84), 4, 12)
    observation = games.reset(0)
    assert observation.shape == (1, 4, 3, 84, 84)
    assert observation[0, -1, :, 0, 0].tolist() == [10, 20, 30]
    assert not observation[0, -1, :, 42:].any()
    assert not observation[0, :-1].any()


def test_colours_of_ale_are_kept_where_they_are_wanted():
    games = make_games(Config(game="Pong", color=True), 2)
    gray = make_games(Config(game="Pong"), 2)
    colors, grays = games.reset(1), gray.reset(1)
    for actions in ([2, 3], [3, 2]):
        colors, grays = games.step(np.array(actions)).observations, gray.step(np.array(actions)).observations
    assert colors.shape == (2, 4, 3, 84, 84)
    # What is gray is the mean of the colours, as the eye weighs them; but for what moves, where the brighter of two
    # frames is taken of each colour.
    difference = np.abs(np.tensordot(colors, [0.299, 0.587, 0.114], ((2,), (0,))) - grays)
    assert (difference > 1).mean() < 0.01
    games.close()
    gray.close()


def test_a_small_image_has_numbers_beside_it_as_planes(replay):
    space = Dict({"image": Box(0, 255, (6, 7, 2), np.uint8), "way": Discrete(3), "fuel": Box(0, 4, (1,))})
    shown = {"image": board(7, 9).astype(np.uint8), "way": 1, "fuel": np.array([1], np.float32)}
    games = replay(space, [shown, shown], count=2)
    assert games.spec.frame == (2 + 1 + 3, 6, 7)
    assert left_out(games) == []
    planes = games.reset(0)
    assert (planes == planes[..., :1, :1]).all()
    assert planes[1, 0, :, 0, 0].tolist() == [7, 9, 64, 0, 255, 0]  # Gymnasium sorts names: fuel, then way


def test_what_has_no_place_is_left_out_and_told(replay):
    space = Dict(
        {
            "image": Box(0, 255, (6, 7, 2), np.uint8),
            "mission": Text(9),
            "speed": Box(-np.inf, np.inf, (2,)),
            "inner": Dict({"flags": MultiBinary(2)}),
        }
    )
    shown = {
        "image": board(7, 9).astype(np.uint8),
        "mission": "go",
        "speed": np.zeros(2, np.float32),
        "inner": {"flags": np.array([1, 0], np.int8)},
    }
    games = replay(space, [shown, shown])
    assert left_out(games) == [
        "'mission' of the observations is left out: Text is no array of numbers",
        "'speed' of the observations is left out: there is no place for numbers without bounds, or for more than 64",
    ]
    assert games.reset(0)[0, 0, :, 0, 0].tolist() == [7, 9, 255, 0]


def test_beside_a_large_image_nothing_is_kept(replay):
    shown = (np.full(PICTURE.shape, 8, np.uint8), 1)
    games = replay(Tuple((PICTURE, Discrete(2))), [shown, shown])
    assert games.spec.frame == (84, 84)
    assert left_out(games) == [
        "'1' of the observations is left out: there is no place for numbers beside a large image"
    ]
    assert np.unique(games.reset(0)[0, -1]).tolist() == [8]


def test_numbers_of_a_tuple_stand_in_a_row_without_its_text(replay):
    shown = (2, "go", np.array([0.5, -1], np.float32))
    games = replay(Tuple((Discrete(3), Text(9), Box(-1, 1, (2,)))), [shown, shown])
    np.testing.assert_array_equal(games.reset(0), [[[0, 0, 1, 0.5, -1]]])
    assert left_out(games) == ["'1' of the observations is left out: Text is no array of numbers"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"b": 1}, "an observation without 'a' in reset"),
        ({"a": np.zeros(3, np.float32), "b": 1}, r"an observation 'a' of shape \(3,\) instead of \(2,\) in reset"),
        ({"a": np.zeros(2, complex), "b": 1}, "an observation 'a' of complex128 instead of float32 in reset"),
        ({"a": np.zeros(2, np.float32)}, "returned what does not fit its observation space Dict"),
    ],
)
def test_a_part_that_does_not_fit_is_named(replay, broken, said):
    games = replay(Dict({"a": Box(-1, 1, (2,)), "b": Discrete(2)}), [broken, broken])
    with pytest.raises(GameFault, match=said):
        games.reset(0)
