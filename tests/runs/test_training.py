"""Whole runs through the command line and the Python interface: files, exit codes, resume."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import ga3c
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.runs import resolve as auto
from ga3c.runs import training
from ga3c.runs.checkpoint import load_newest
from tests.helpers.command_line import QUICK, ROOT, rows_of, run, summary_of

SUMMARY_KEYS = {
    *("steps", "updates", "episodes", "seconds", "pps", "tps", "trained_per_second"),
    *("agents", "predictors", "trainers", "score", "lag_mean", "lag_max", "exit_reason"),
}


@pytest.mark.processes
def test_a_run_leaves_the_documented_files(parallel_run):
    directory, output = parallel_run
    path = directory / "here"
    summary = summary_of(path)
    assert set(summary) >= SUMMARY_KEYS
    assert summary["exit_reason"] == "max_steps"
    assert 2000 <= summary["steps"] < 5000
    assert summary["pps"] > 0
    config = json.loads((path / "config.json").read_text())
    assert config["game"] == "CartPole-v1"
    assert config["network"] == "mlp"  # what was 'auto' is decided
    assert config["tuner_lag"] is None  # but for what follows from others: a resumed run may have another MAX_LAG
    assert config["sticky"] is None
    assert all(row["pps"] >= 0 and row["limit"] in ("agents", "predictors", "trainers") for row in rows_of(path))
    lines = (path / "episodes.csv").read_text().splitlines()
    assert lines[0] == "seconds,steps,episode,score,length"
    assert [int(line.split(",")[2]) for line in lines[1:]] == list(range(1, summary["episodes"] + 1))
    assert list((path / "checkpoints").glob("*.safetensors"))
    assert list(path.glob("events.out.tfevents*"))
    assert "first prediction after" in (path / "log.txt").read_text()
    assert re.search(r"steps +[\d,]+ .*PPS.*TPS.*NA/NP/NT 2/1/1.*lag.*limit", output)


@pytest.mark.processes
def test_resume_goes_on_with_weights_counters_and_settings(parallel_run, tmp_path):
    shutil.copytree(parallel_run[0] / "here", tmp_path / "here")
    first = summary_of(tmp_path / "here")
    _, arrays, state = load_newest(tmp_path / "here")
    assert state["updates"] == first["updates"]
    code, output = run(tmp_path, "RESUME=here", f"MAX_STEPS={first['steps'] + 1000}")
    assert code == 0, output
    assert f"resumed at step {first['steps']}, update {first['updates']}" in output
    second = summary_of(tmp_path / "here")
    assert second["steps"] >= first["steps"] + 1000
    assert second["updates"] > first["updates"]
    assert second["episodes"] > first["episodes"]
    assert second["seconds"] > first["seconds"]
    config = json.loads((tmp_path / "here" / "config.json").read_text())
    assert config["learning_rate"] == 0.002
    _, after, _ = load_newest(tmp_path / "here")
    assert not np.array_equal(arrays["weights"], after["weights"])
    episodes = (tmp_path / "here" / "episodes.csv").read_text().splitlines()
    assert [int(line.split(",")[2]) for line in episodes[1:]] == list(range(1, second["episodes"] + 1))


@pytest.mark.processes
def test_resume_in_serial_mode_loads_the_very_bits(finished_run, tmp_path):
    shutil.copytree(finished_run / "here", tmp_path / "here")
    _, before, state = load_newest(tmp_path / "here")
    # Nothing is left to do, so what is saved again is what was loaded.
    assert run(tmp_path, "RESUME=here", "RUN=there")[0] == 0
    _, after, again = load_newest(tmp_path / "there")
    assert state["updates"] == again["updates"]
    for name in ("weights", "mean_square"):
        np.testing.assert_array_equal(before[name], after[name])


@pytest.mark.processes
def test_a_serial_run_may_be_resumed_by_one_that_tunes(finished_run):
    assert ga3c.Config.from_words([f"RESUME={finished_run / 'here'}"]).tuner == ga3c.Config.tuner


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["RESUME=here", "GAME=Acrobot-v1"], "is of GAME=CartPole-v1, not Acrobot-v1"),
        (["RESUME=here", "HIDDEN=32"], "is of HIDDEN=16, not 32"),
        (["RESUME=nowhere"], "is not a run directory"),
        (["GAM=Pong"], "Did you mean GAME?"),
        (["GAME=Pongg"], "Did you mean Pong?"),
        (["GAME=Pendulum-v1"], "only Discrete action spaces"),
        (["RESUME=here", 'ENV_ARGS={"max_episode_steps": 9}'], 'is of ENV_ARGS=, not {"max_episode_steps": 9}'),
        (["GAME=CartPole-v1", "NETWORK=small"], "is for large images"),
        (["GAME=CartPole-v1", "ENV_ARGS=7"], "is no JSON object"),
        (["GAME=CartPole-v1", 'ENV_ARGS={"sutton_barto": 1}'], "Did you mean sutton_barto_reward?"),
        (["GAME=CartPole-v1", "RUN=here"], "holds a run already"),
        (["GAME=CartPole-v1", "DEVICE=cuda:9"], "cannot be used here"),
        (["trian"], "Did you mean train?"),
    ],
)
def test_wrong_words_are_refused_with_the_reason_and_code_2(finished_run, words, reason):
    code, output = run(finished_run, *words)
    assert code == 2, output
    assert reason in output
    assert "Traceback" not in output


@pytest.fixture(scope="module")
def parallel_run(tmp_path_factory):
    """Where it is, and what it said."""
    path = tmp_path_factory.mktemp("parallel")
    code, output = run(path, *QUICK[:-1], "MAX_STEPS=2000", "LEARNING_RATE=0.002", "RUN=here")
    assert code == 0, output
    return path, output


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished")
    assert run(path, *QUICK, "SERIAL=1", "MAX_STEPS=300", "RUN=here")[0] == 0
    return path


@pytest.mark.processes
def test_from_python_without_a_guard(tmp_path):
    """The README's lines, as a script that a user runs: spawned agents must not run it again."""
    script = tmp_path / "mine.py"
    script.write_text(
        "import ga3c\n"
        "summary = ga3c.train(ga3c.Config(game='CartPole-v1', agents=2, envs_per_agent=2, hidden=16, max_steps=1000,\n"
        "                                 run='here', tensorboard=False))\n"
        "print('STEPS', summary['steps'])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("STEPS") == 1


@pytest.mark.processes
def test_importing_the_package_and_agents_does_not_import_torch():
    modules = "ga3c, ga3c.agents.process, ga3c.engines.server, ga3c.runs.training, tuner"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
    assert ga3c.__version__


@pytest.mark.parametrize(
    ("cores", "settings", "agents", "envs"),
    [
        (2, {}, 3, 32),
        (2, {"agents": 6}, 6, 16),
        (2, {"agents": 40}, 40, 8),  # never fewer
        (1, {"agents": 1}, 1, 32),  # never more
        (16, {}, 17, 8),
        (2, {"envs_per_agent": 1}, 16, 1),
        (2, {"game": "CartPole-v1"}, 4, 4),
    ],
)
def test_the_cores_decide_how_many_play(monkeypatch, cores, settings, agents, envs):
    monkeypatch.setattr(auto, "available_cores", lambda: cores)
    config = auto.resolve(ga3c.Config(**settings), EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(6)))
    assert (config.agents, config.envs_per_agent) == (agents, envs)


@pytest.mark.processes
def test_a_run_that_was_interrupted_while_it_started_can_be_resumed(tmp_path, monkeypatch):
    interrupted = threading.Event()
    restore = training.Training._restore

    def restore_and_hear_ctrl_c(self, model):
        restore(self, model)
        interrupted.set()

    here = str(tmp_path / "here")
    config = ga3c.Config(game="CartPole-v1", agents=1, envs_per_agent=2, hidden=16, min_batch=10, run=here)
    with monkeypatch.context() as patched:
        patched.setattr(training.Training, "_restore", restore_and_hear_ctrl_c)
        assert training.run_training(config, interrupted)["exit_reason"] == "interrupted"
    resumed = ga3c.Config.from_words([f"RESUME={here}", "MAX_STEPS=100"])
    assert resumed.hidden == 16
    assert training.run_training(resumed, threading.Event())["exit_reason"] == "max_steps"
