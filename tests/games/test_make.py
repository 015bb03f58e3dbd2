"""From a name to environments, and the scores of their games."""

import gymnasium
import numpy as np
import pytest

from ga3c.games.make import make_games
from ga3c.games.spec import Finished
from ga3c.games.vector import Scores
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


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
    assert (games.spec.frame, games.spec.action.n) == ((3,), 7)


def test_scores_are_sums_of_whole_games():
    scores = Scores(2)
    yes, no = np.array([True, True]), np.array([False, False])
    assert scores.add(np.array([5.0, 1.0]), yes, no) == ()
    assert scores.add(np.array([-2.0, 1.0]), yes, np.array([True, False])) == (Finished(3.0, 2),)
    # The first resets: whatever that step carries is no reward of a game, and no step of it.
    assert scores.add(np.array([50.0, 1.0]), np.array([False, True]), no) == ()
    assert scores.add(np.array([7.0, 1.0]), yes, yes) == (Finished(7.0, 1), Finished(4.0, 4))
