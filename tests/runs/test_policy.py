"""``ga3c.load``: a trained policy acts as ``eval`` has it act, in the environment of its run."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import ga3c
from ga3c.games.make import make_games
from ga3c.runs.checkpoint import checkpoints_of, load_newest, save_checkpoint
from ga3c.runs.evaluate import evaluate
from ga3c.settings.commands import EvalOptions
from ga3c.settings.declare import ConfigError
from ga3c.settings.recipes import RECIPES
from tests.runs.test_evaluate import make_run

OWN = "tests.helpers.own_networks"


def play(policy, env, seed):
    """The score and the steps of one game, by the best actions."""
    observation, info = env.reset(seed=seed)
    score, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(policy.act(observation, greedy=True))
        score += reward
        over = terminated or truncated
    assert info["episode"]["r"] == score
    return score, info["episode"]["l"]


@pytest.mark.parametrize("network", ["mlp", f"{OWN}:MLP"])
def test_its_games_are_those_of_eval(tmp_path, network):
    run = make_run(tmp_path, network=network)
    policy = ga3c.load(run, device="cpu")
    env = policy.make_env()
    summary = evaluate(EvalOptions(run=run, episodes=6, seed=7, greedy=True, device="cpu"))
    played = [play(policy, env, 7 + number) for number in range(6)]
    env.close()
    assert played == list(zip(summary["scores"], summary["lengths"], strict=True))
    assert (policy.steps, policy.config.game, policy.config.network) == (1234, "CartPole-v1", network)
    assert isinstance(policy, ga3c.Policy)


def test_observations_are_one_or_many(tmp_path):
    policy = ga3c.load(make_run(tmp_path), device="cpu")
    many = np.random.default_rng(0).normal(size=(5, 1, 4)).astype(np.float32)
    actions, outputs = policy.act(many, greedy=True), policy.outputs(many)
    assert actions.shape == (5,)
    assert outputs.shape == (5, 3)
    assert (actions == outputs[:, :2].argmax(axis=1)).all()
    for one in (many[3], many[3, 0], many[3, 0].astype(np.float64), many[3].tolist()):
        action = policy.act(one, greedy=True)
        assert np.shape(action) == ()
        assert action == actions[3]
        np.testing.assert_allclose(policy.outputs(one), outputs[3], atol=1e-6)


def test_actions_are_drawn_from_the_policy_by_the_seed(tmp_path):
    run = make_run(tmp_path)
    many = np.repeat(np.full((1, 1, 4), 0.5, np.float32), 4000, axis=0)
    policies = [ga3c.load(run, seed=seed, device="cpu") for seed in (1, 1, 2)]
    one, again, other = (policy.act(many) for policy in policies)
    assert (one == again).all()
    assert (one != other).any()
    assert one.mean() == pytest.approx(policies[0].outputs(many)[0, 1], abs=0.05)


@pytest.mark.parametrize(
    ("observations", "told"),
    [
        (np.zeros((5, 4), np.float32), r"of shape \(5, 4\) do not fit this policy: it takes \('n', 1, 4\) or \(1, 4\)"),
        (np.zeros((0, 1, 4), np.float32), "do not fit"),
        (np.zeros(3, np.float32), "do not fit"),
        (np.zeros(4, complex), "of complex128 do not fit this policy: it takes float32"),
    ],
)
def test_other_observations_are_refused(observations, told, tmp_path):
    policy = ga3c.load(make_run(tmp_path), device="cpu")
    with pytest.raises(ConfigError, match=told):
        policy.act(observations)


def test_what_it_is_given_stays_as_it_is(tmp_path):
    policy = ga3c.load(make_run(tmp_path, network=f"{OWN}:InPlace"), device="cpu")
    given = np.ones((1, 1, 4), np.float32)
    policy.act(given)
    assert (given == 1).all()


@pytest.mark.parametrize("algo", RECIPES)
def test_it_acts_by_any_rule(algo, tmp_path):
    policy = ga3c.load(make_run(tmp_path, algo=algo), device="cpu")
    env = policy.make_env(3)
    observations, _ = env.reset(seed=0)
    for greedy in (False, True):
        actions = policy.act(observations, greedy=greedy)
        assert env.action_space.contains(actions)
    env.close()


@pytest.mark.filterwarnings("ignore:.*A Box observation space")
def test_one_environment_is_as_gymnasium_has_them(tmp_path):
    policy = ga3c.load(make_run(tmp_path), device="cpu")
    env = policy.make_env(render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    env.reset(seed=1)
    assert env.render().shape == (400, 600, 3)
    assert env.metadata["render_fps"] == 50
    env.close()
    env = policy.make_env()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    assert env.render() is None
    env.close()
    with pytest.raises(ConfigError, match="render_mode='human' is unknown"):
        policy.make_env(render_mode="human")


def test_many_environments_play_in_step(tmp_path):
    policy = ga3c.load(make_run(tmp_path), device="cpu")
    env = policy.make_env(3)
    games = make_games(policy.config, 3)
    observations, info = env.reset(seed=5)
    assert (observations == games.reset(5)).all()
    assert info == {}
    ended = []
    for _ in range(60):
        actions = policy.act(observations, greedy=True)
        observations, rewards, terminated, truncated, info = env.step(actions)
        played = games.step(actions)
        assert (observations == played.observations).all()
        assert (rewards == played.rewards).all()
        assert not truncated.any()
        over = np.flatnonzero(terminated)
        if len(over):
            assert info["_episode"].tolist() == terminated.tolist()
            ended += zip(over.tolist(), info["episode"]["r"][over].tolist(), strict=True)
        assert [game.score for game in played.finished] == [score for _, score in ended[len(ended) - len(over) :]]
    assert len(ended) > 3
    assert env.observation_space.contains(observations)
    env.close()
    games.close()
    with pytest.raises(ConfigError, match="0 environments are none"):
        policy.make_env(0)


def test_without_a_seed_games_differ_but_follow_the_first_seed(tmp_path):
    policy = ga3c.load(make_run(tmp_path), device="cpu")
    begun = []
    for _ in range(2):
        env = policy.make_env()
        begun.append([env.reset(seed=seed)[0].tolist() for seed in (3, None, None)])
        env.close()
    assert begun[0] == begun[1]
    assert begun[0][1] != begun[0][2]


def test_a_game_of_pixels_is_preprocessed_as_in_training(tmp_path):
    run = make_run(tmp_path, "Breakout", episodic_life=True)
    policy = ga3c.load(run, device="cpu")
    assert not policy.config.episodic_life
    env, games = policy.make_env(), make_games(policy.config, 1)
    observation, _ = env.reset(seed=2)
    assert (observation == games.reset(2)[0]).all()
    assert observation.shape == (4, 84, 84)
    for action in (1, 2, 3):
        observation, *_ = env.step(action)
        assert (observation == games.step(np.array([action])).observations[0]).all()
    assert env.observation_space.contains(observation)
    assert policy.act(observation) in range(4)
    with pytest.raises(ConfigError, match="of float32 do not fit this policy: it takes uint8"):
        policy.act(observation.astype(np.float32))
    env.close()
    games.close()


def test_a_directory_or_a_file_and_the_mean_or_the_newest(tmp_path):
    run = Path(make_run(tmp_path))
    path, arrays, state = load_newest(run)
    arrays["mean_weights"] = arrays["weights"] + 1
    save_checkpoint(path.parent, arrays, state, keep=1)
    for given in (run, str(run), checkpoints_of(run)[0]):
        for weights, name in (("mean", "mean_weights"), ("newest", "weights")):
            policy = ga3c.load(given, weights=weights, device="cpu")
            assert (policy.model.version.weights.numpy() == arrays[name]).all()
            assert policy.checkpoint == path
    with pytest.raises(ConfigError, match="nowhere is not a run directory"):
        ga3c.load("nowhere")
    with pytest.raises(ConfigError, match="WEIGHTS=best is unknown"):
        ga3c.load(run, weights="best")
    with pytest.raises(ConfigError, match="cannot be read as a checkpoint"):
        ga3c.load(run / "config.json")
