"""Runs of environments that are made with arguments, have parts, or are small images: all commands know them."""

import re
from pathlib import Path

import pytest

import ga3c
from ga3c.__main__ import main
from ga3c.runs.evaluate import evaluate
from ga3c.runs.play import play
from ga3c.settings.commands import EvalOptions, PlayOptions
from ga3c.settings.config import Config
from tests.helpers.command_line import finish, rows_of, start

SERIAL = {"serial": True, "agents": 1, "envs_per_agent": 2, "hidden": 8, "max_steps": 300, "tensorboard": False}
SEVEN = {"max_episode_steps": 7}


def test_the_arguments_belong_to_the_run(tmp_path):
    run = str(tmp_path / "run")
    ga3c.train(Config(game="CartPole-v1", env_args=SEVEN, run=run, **SERIAL))
    assert max(evaluate(EvalOptions(run=run, episodes=4))["lengths"]) == 7
    video = str(tmp_path / "game.gif")
    assert play(PlayOptions(run=run, video=video))[0].steps == 7
    again = ga3c.train(Config.from_mapping({"resume": run, "max_steps": 600, "env_args": '{"max_episode_steps":7}'}))
    assert again["steps"] >= 600
    assert again["score"] <= 7


@pytest.mark.processes
def test_agents_know_the_arguments_and_only_the_server_tells_of_a_version_that_is_gone(tmp_path):
    words = ["GAME=CliffWalking-v0", 'ENV_ARGS={"max_episode_steps": 7}', "AGENTS=2", "HIDDEN=8", "STAGGER=0"]
    process = start(tmp_path, *words, "MAX_STEPS=500", "RUN=run", "LOG_SECONDS=0.5", "TENSORBOARD=0", "DEVICE=cpu")
    code, output = finish(process, 60)
    assert code == 0, output
    assert len(re.findall("v0 is gone, so v", output)) == 1
    assert "DeprecationWarning" not in output
    lengths = [int(row.split(",")[-1]) for row in (tmp_path / "run" / "episodes.csv").read_text().split()[1:]]
    assert lengths
    assert max(lengths) <= 7
    assert rows_of(tmp_path / "run")


@pytest.mark.parametrize(
    ("game", "env_args", "frame"),
    [
        ("MiniGrid-Empty-5x5-v0", {}, (7, 7, 7)),
        ("CarRacing-v3", {"continuous": False}, (3, 84, 84)),
        ("LunarLander-v3", {}, (8,)),
        ("Blackjack-v1", {}, (45,)),
        ("FrozenLake-v1", {"map_name": "8x8"}, (64,)),
    ],
)
def test_environments_of_others_train_and_are_evaluated(tmp_path, game, env_args, frame, capsys):
    if game.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
        game = f"minigrid:{game}"
    elif game.startswith(("Car", "Lunar")):
        pytest.importorskip("Box2D")
    run = tmp_path / "run"
    steps = {**SERIAL, "max_steps": 80, "min_batch": 20, "color": True}
    summary = ga3c.train(Config(game=game, env_args=env_args, run=str(run), **steps))
    assert summary["exit_reason"] == "max_steps"
    assert summary["updates"] > 1
    assert main(["eval", f"RUN={run}", "EPISODES=1", "MAX_STEPS=5"]) == 0
    assert Path(run / "summary.json").exists()
    from ga3c.runs.resolve import probe

    assert probe(Config(game=game, env_args=env_args, color=True)).frame == frame
