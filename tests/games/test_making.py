"""Gymnasium's environments: what they are made with, and what is refused with a sentence that says what to write."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple

from ga3c.games.make import make_games
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


def games_of(game, env_args="", count=1, **settings):
    games = make_games(Config(game=game, env_args=env_args, **settings), count)
    games.close()
    return games


def refusal(game, env_args="", **settings):
    with pytest.raises(ConfigError) as caught:
        games_of(game, env_args, **settings)
    return str(caught.value)


@pytest.fixture
def register():
    names = []

    def register(name, maker, **others):
        gymnasium.register(name, maker, **others)
        names.append(name)

    yield register
    for name in names:
        gymnasium.registry.pop(name, None)


class Still(gymnasium.Env):
    """Shows zeros."""

    def __init__(self, actions=None, size=2, **_):
        self.observation_space = Box(-1, 1, (size,))
        self.action_space = actions or Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action):
        return np.zeros(self.observation_space.shape, np.float32), 0.0, False, False, {}


def test_arguments_reach_the_environment(register):
    register("ga3c-tests/Still-v0", Still)
    assert games_of("ga3c-tests/Still-v0", '{"size": 7}').spec.frame == (7,)
    assert games_of("ga3c-tests/Still-v0", {"size": 3}).spec.frame == (3,)  # from Python


def test_arguments_of_make_itself_are_known_too():
    games = make_games(Config(game="CartPole-v1", env_args={"max_episode_steps": 3}), 1)
    games.reset(seed=0)
    played = [games.step(np.array([0])) for _ in range(3)]
    games.close()
    assert [bool(step.truncated[0]) for step in played] == [False, False, True]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"continuous": false', r"is not JSON: write it as ENV_ARGS='{\"continuous\": false}'"),
        ("[1]", "is no JSON object"),
        ('{"x": NaN}', "is not JSON"),
        ('{"render_mode": "human"}', "has render_mode: leave it out, since './run.sh play' draws"),
        ({"a": object()}, "is not JSON"),
    ],
)
def test_arguments_that_are_none_are_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        Config(game="CartPole-v1", env_args=given)


def test_the_same_arguments_have_one_spelling():
    spellings = ['{"b":1,"a":2}', ' {"a": 2, "b": 1} ', {"b": 1, "a": 2}]
    assert {Config(env_args=given).env_args for given in spellings} == {'{"a": 2, "b": 1}'}
    assert {Config(env_args=given).env_args for given in ("", "{}", {}, " ")} == {""}


def test_arguments_may_stand_in_a_toml_file(tmp_path):
    (tmp_path / "game.toml").write_text('game = "CartPole-v1"\nenv_args = {max_episode_steps = 3}\n')
    assert Config.from_words([f"CONFIG={tmp_path / 'game.toml'}"]).env_args == '{"max_episode_steps": 3}'


def test_an_argument_that_the_environment_does_not_know_is_named():
    said = refusal("FrozenLake-v1", '{"is_slipery": false}')
    assert "ENV_ARGS has is_slipery, which GAME=FrozenLake-v1 does not take. Did you mean is_slippery?" in said
    assert "max_episode_steps, desc, map_name" in said


def test_an_argument_that_breaks_the_environment_is_told():
    said = refusal("FrozenLake-v1", '{"map_name": "9x9"}')
    assert """cannot be made with ENV_ARGS={"map_name": "9x9"}: KeyError""" in said


def test_games_of_ale_take_none():
    said = refusal("ms_pacman", '{"mode": 1}')
    assert "takes no ENV_ARGS: STICKY" in said
    assert "GAME=ale_py:ALE/MsPacman-v5" in said
    assert games_of("ale_py:ALE/MsPacman-v5", '{"mode": 1}').spec.frame == (84, 84)


ACTIONS = {
    "Box": (Box(-1, 1, (2,)), "DiscretizeAction"),
    "MultiDiscrete": (MultiDiscrete([2, 3]), "a wrapper that numbers their combinations"),
    "MultiBinary": (MultiBinary(3), "a wrapper that numbers"),
    "Tuple": (Tuple((Discrete(2), Discrete(2))), "a wrapper that numbers"),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_actions_that_are_not_numbered_are_refused_with_a_way_out(register, kind):
    space, advice = ACTIONS[kind]
    register("ga3c-tests/Acting-v0", lambda: Still(space))
    said = refusal("ga3c-tests/Acting-v0")
    assert f"has the action space {space}" in said
    assert advice in said


def test_an_environment_that_can_be_discrete_says_how(register):
    def make(continuous=True):
        return Still(Box(-1, 1, (1,)) if continuous else Discrete(3))

    register("ga3c-tests/Either-v0", make)
    assert """write ENV_ARGS='{"continuous": false}'""" in refusal("ga3c-tests/Either-v0")
    assert games_of("ga3c-tests/Either-v0", '{"continuous": false}').spec.action.n == 3


def test_a_version_that_is_gone_plays_the_newest_one():
    spec = games_of("Taxi-v3").spec
    assert spec.frame == (500,)
    assert len(spec.remarks) == 1
    assert spec.remarks[0].startswith("GAME=Taxi-v3: v3 is gone, so v")


@pytest.mark.filterwarnings("error")
def test_an_older_version_that_is_still_there_is_played(register):
    register("ga3c-tests/Two-v0", Still, kwargs={"size": 1})
    register("ga3c-tests/Two-v1", Still, kwargs={"size": 2})
    spec = games_of("ga3c-tests/Two-v0").spec
    assert spec.frame == (1,)
    assert spec.remarks == ("GAME=ga3c-tests/Two-v0: there is a newer version, v1",)
    assert games_of("ga3c-tests/Two-v1").spec.remarks == ()


def test_a_version_that_never_was_is_unknown():
    assert "Did you mean Taxi-v" in refusal("Taxi-v99")


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package that registers its environments only when Gymnasium's entry point is called, as MinAtar does."""
    (tmp_path / "late_package.py").write_text(
        "import gymnasium\nfrom tests.games.test_making import Still\n"
        "def register_envs():\n    gymnasium.register('Late/Still-v0', Still)\n"
    )
    info = tmp_path / "late_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: late-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[gymnasium.envs]\nLate = late_package:register_envs\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    gymnasium.registry.pop("Late/Still-v0", None)
    sys.modules.pop("late_package", None)


@pytest.mark.parametrize("game", ["Late/Still-v0", "late_package:Late/Still-v0"])
def test_a_package_that_registers_when_it_is_asked_is_asked(plugin, game):
    assert games_of(game).spec.frame == (2,)
