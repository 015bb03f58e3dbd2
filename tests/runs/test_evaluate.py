"""Evaluation: each game depends on its own seed only, whole games are counted, and the result says what it should."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from ga3c.algorithms.actor_critic.acting import sample
from ga3c.algorithms.rule import make_learning
from ga3c.games.human_scores import RANDOM_AND_HUMAN, human_normalized
from ga3c.games.make import make_games
from ga3c.models.model import Model
from ga3c.runs.checkpoint import checkpoints_of, load_newest, save_checkpoint
from ga3c.runs.evaluate import Saved, evaluate, main
from ga3c.runs.resolve import resolve
from ga3c.settings.commands import EvalOptions
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


class Lasting(gymnasium.Env):
    """Lasts as many steps as its seed says, with a reward of 1 each, and draws the number of the step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 (Gymnasium's own way)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.length, self.steps = 1 + 7 * (seed or 0) % 50, 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == self.length, False, {}

    def render(self):
        return np.full((31, 20, 3), (self.steps, 100, 200), np.uint8)


gymnasium.register("Lasting-v0", Lasting)


def make_run(path, game="CartPole-v1", **changes):
    """A run directory with one checkpoint of untrained weights."""
    config = Config(game=game, hidden=16, seed=5, device="cpu", init="paper", **changes)
    games = make_games(config, 1)
    resolved = resolve(config, games.spec)
    updates, arrays = Model(resolved, make_learning(resolved, games.spec).network).state()
    games.close()
    state = {
        "updates": updates,
        "steps": 1234,
        "game": game,
        "network": "auto",
        "config": config.to_dict(),
        "stats": {"seconds": 56.5},
    }
    save_checkpoint(path / "checkpoints", arrays, state, keep=1)
    (path / "config.json").write_text(json.dumps(config.to_dict()))
    return str(path)


def play_plainly(run, seed, number, greedy):
    """The oracle: one game in the plain environment, one prediction at a time."""
    saved = Saved.load(EvalOptions(run=run, device="cpu"))
    env = gymnasium.make(saved.config.game)
    model = Model(saved.config, make_learning(saved.config, make_games(saved.config, 1).spec).network)
    model.load(0, saved.arrays)
    random = np.random.default_rng([seed, number])
    observation, _ = env.reset(seed=seed + number)
    score, over = 0.0, False
    while not over:
        policies = model.predict(torch.tensor(observation)[None, :, None]).outputs[:, :-1]
        action = policies[0].argmax() if greedy else sample(policies.tolist(), random)[0]
        observation, reward, terminated, truncated, _ = env.step(action)
        score += reward
        over = terminated or truncated
    return score


@pytest.mark.parametrize("greedy", [False, True])
def test_scores_are_those_of_games_played_plainly(tmp_path, greedy):
    run = make_run(tmp_path)
    summary = evaluate(EvalOptions(run=run, episodes=10, seed=7, greedy=greedy, device="cpu"))
    assert summary["scores"] == [play_plainly(run, 7, number, greedy) for number in range(10)]
    assert summary["lengths"] == summary["scores"]  # CartPole gives 1 per step
    assert (summary["steps"], summary["seconds"]) == (1234, 56.5)
    assert (summary["settings"]["hidden"], summary["settings"]["seed"]) == (16, 5)
    assert "run" not in summary["settings"]  # a path of this machine
    assert len(set(summary["scores"])) > 1


def test_a_game_does_not_depend_on_those_beside_it(tmp_path):
    run = make_run(tmp_path)
    scores = {
        (tables, episodes): evaluate(EvalOptions(run=run, episodes=episodes, device="cpu"), tables=tables)["scores"]
        for tables, episodes in [(1, 11), (2, 11), (8, 11), (8, 4)]
    }
    assert scores[1, 11] == scores[2, 11] == scores[8, 11]
    assert scores[8, 4] == scores[8, 11][:4]


def test_an_ale_game_does_not_depend_on_those_beside_it(tmp_path):
    run = make_run(tmp_path, "SpaceInvaders", sticky=0.25)
    options = EvalOptions(run=run, episodes=2, max_steps=80, device="cpu")
    together, alone = evaluate(options), evaluate(options, tables=1)
    assert together == alone
    assert together["cut"] == 2
    assert len(set(together["scores"])) > 1


def test_short_games_count_no_more_than_long_ones(tmp_path):
    """Taking the first 20 that end would give a lower mean."""
    summary = evaluate(EvalOptions(run=make_run(tmp_path, "Lasting-v0"), episodes=20, seed=3, device="cpu"))
    assert summary["scores"] == [1 + 7 * seed % 50 for seed in range(3, 23)]


def test_games_are_whole_also_where_training_ended_them_at_a_lost_life(tmp_path):
    run = make_run(tmp_path, "Breakout", episodic_life=True, noop_max=11)
    config = Saved.load(EvalOptions(run=run)).config
    assert not config.episodic_life
    assert config.noop_max == 11


def test_out_holds_the_result(tmp_path, capsys):
    run, out = make_run(tmp_path), tmp_path / "result.json"
    assert main([f"RUN={run}", "EPISODES=3", f"OUT={out}", "DEVICE=cpu"]) == 0
    result = json.loads(out.read_text())
    assert len(result["scores"]) == 3
    assert result["mean"] == pytest.approx(sum(result["scores"]) / 3)
    assert result["std"] == pytest.approx(np.std(result["scores"]))
    assert result["human_normalized"] is None
    assert result["steps"] == 1234
    printed = capsys.readouterr().out
    assert f"mean {result['mean']:.2f}" in printed
    assert printed.count("score ") == 4  # the games, and the human score that is not known


def test_a_given_checkpoint_is_used(tmp_path):
    path = checkpoints_of(Path(make_run(tmp_path)))[0]
    assert evaluate(EvalOptions(checkpoint=str(path), episodes=1, device="cpu"))["checkpoint"] == str(path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "RUN is missing"),
        (["RUN=nowhere"], "not a run directory"),
        (["RUN=.", "OUT=nowhere/result.json"], "the directory nowhere does not exist"),
        (["RUN=.", "OUT=."], "OUT=. is a directory"),
        (["RUN=.", "EPISODES=0"], "EPISODES=0 is out of range"),
    ],
)
def test_wrong_words_are_told(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        main(words)


def test_settings_of_another_version_are_told(tmp_path):
    state = {"updates": 0, "steps": 0, "config": {"game": "Pong", "colour": "blue"}}
    save_checkpoint(tmp_path / "checkpoints", {"weights": np.zeros(1)}, state, keep=1)
    with pytest.raises(ConfigError, match="colour"):
        evaluate(EvalOptions(run=str(tmp_path)))


@pytest.mark.parametrize(("options", "name"), [({}, "mean_weights"), ({"weights": "newest"}, "weights")])
def test_the_mean_of_the_weights_plays_unless_the_newest_are_asked_for(tmp_path, options, name):
    run = make_run(tmp_path)
    path, arrays, state = load_newest(tmp_path)
    arrays["mean_weights"] = arrays["weights"] + 1
    save_checkpoint(path.parent, arrays, state, keep=1)
    saved = Saved.load(EvalOptions(run=run, **options))
    assert np.array_equal(saved.arrays["weights"], arrays[name])


def test_human_normalized_scores():
    assert len(RANDOM_AND_HUMAN) == 49
    for name in ("Pong", "pong", "ALE/Pong-v5", "PongNoFrameskip-v4"):
        assert human_normalized(name, 18.9) == pytest.approx(1.32)  # as the paper's table says of DQN
    assert human_normalized("MsPacman", 2311) == pytest.approx(0.130, abs=5e-4)
    assert human_normalized("DoubleDunk", -18.6) == 0
    assert human_normalized("Skiing", 0) is None
    assert human_normalized("CartPole-v1", 500) is None
