"""``check`` as a command: environments that hang, end their process or print, and what is told of them."""

import pytest

from ga3c.__main__ import main

GAME = """
import os, sys, time
import gymnasium, numpy as np

class Doing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, do="nothing", when=30):
        self.do, self.when = do, when

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.np_random.random(1, np.float32), {}

    def step(self, action):
        self.at += 1
        if self.at == self.when:
            exec(self.do)
        return self.np_random.random(1, np.float32), 1.0, self.at == 50, False, {}

gymnasium.register("Doing-v0", Doing, max_episode_steps=1000)
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    (tmp_path / "doing_games.py").write_text(GAME)
    monkeypatch.syspath_prepend(tmp_path)

    def check(do, *words):
        code = main(["check", "GAME=doing_games:Doing-v0", f'ENV_ARGS={{"do": "{do}"}}', "STEPS=100", *words])
        return code, " ".join(capsys.readouterr().out.split())

    return check


@pytest.mark.processes
def test_an_environment_that_is_right(check):
    code, said = check("pass")
    assert code == 0
    assert "ok seed the same seed and actions give the same game" in said
    assert "Nothing is wrong" in said
    assert """./run.sh GAME=doing_games:Doing-v0 ENV_ARGS='{"do": "pass"}' ENVS_PER_AGENT=""" in said
    assert said.endswith("REWARD_CLIP=0.1")


@pytest.mark.processes
def test_an_environment_that_raises(check):
    code, said = check("raise KeyError(7)")
    assert code == 1
    assert "wrong step raised KeyError: 7" in said
    assert "One thing is wrong" in said


@pytest.mark.processes
def test_an_environment_that_hangs(check):
    code, said = check("time.sleep(1000)", "STALL_SECONDS=0.5")
    assert code == 1
    assert "wrong hangs nothing happened for" in said
    assert "in: step" in said


@pytest.mark.processes
@pytest.mark.parametrize("do", ["os._exit(0)", "sys.exit(3)"])
def test_an_environment_that_ends_its_process(check, do):
    code, said = check(do)
    assert code == 1
    assert f"wrong process it ended with exit code {do[-2]} in: step" in said


@pytest.mark.processes
def test_what_an_environment_prints_is_counted_and_not_mixed_with_what_is_found(check):
    code, said = check("print(37 * 3); os.write(2, b'2' * 3)")
    assert code == 0
    assert "mind prints" in said
    assert "the first: 111" in said
    assert "222" not in said


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["GAME=Nothing-v0"], "neither an ALE game nor a Gymnasium id"),
        (["GAME=Pendulum-v1"], "DiscretizeAction"),
        (["GAME=Pong", 'ENV_ARGS={"mode": 1}'], "takes no ENV_ARGS"),
    ],
)
def test_what_a_run_would_refuse(words, said, capsys):
    assert main(["check", *words]) == 1
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_game_has_to_be_named(capsys):
    assert main(["check"]) == 2
    assert "GAME is missing" in capsys.readouterr().err
