"""It learns: CartPole and a small game of pixels, on the real server with its agents."""

import shutil
import signal

import pytest

from tests.helpers import catch_game
from tests.helpers.command_line import finish, rows_of, start
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.processes

# Settings that suit small games; the README names those of CartPole.
SMALL = ["ENVS_PER_AGENT=16", "T_MAX=5", "MIN_BATCH=40", "LEARNING_RATE=1e-3"]
# A reward of 1 in each step makes values of up to 100, whose gradients would drown those of the policy.
CARTPOLE = [*SMALL, "GAME=CartPole-v1", "AGENTS=2", "HIDDEN=128", "REWARD_CLIP=0.1", "LEARNING_RATE=5e-4"]
A3C = ["ALGO=a3c", "ENVS_PER_AGENT=auto", "T_MAX=20", "MIN_BATCH=auto", "LEARNING_RATE=2e-3"]


@pytest.mark.parametrize(
    ("words", "wanted", "seconds"),
    [
        (CARTPOLE, 195.0, 150),
        pytest.param([*CARTPOLE, *A3C], 195.0, 240, marks=pytest.mark.long),
        ([*SMALL, "GAME=catch_game:Catch-v0", "AGENTS=3"], 0.8, 150),
        (["GAME=CartPole-v1", "ALGO=dqn"], 195.0, 150),  # as it is by default
    ],
    ids=["CartPole", "A3C", "pixels", "DQN"],
)
def test_reaches_the_score_in_time(tmp_path, words, wanted, seconds):
    path = tmp_path / "run"
    shutil.copy(catch_game.__file__, tmp_path)
    process = start(tmp_path, *words, f"RUN={path}", "LOG_SECONDS=0.5", "TENSORBOARD=0", f"MAX_SECONDS={seconds}")
    scores = []

    def over():
        scores[:] = [row["score"] for row in rows_of(path) if row["episodes"] >= 100]
        return max(scores, default=wanted - 1) >= wanted or process.poll() is not None

    wait_until(over, seconds + 30)
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 10)
    assert code == 0, output
    assert max(scores) >= wanted, output
