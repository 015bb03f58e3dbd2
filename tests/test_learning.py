"""It learns: CartPole and a small game of pixels, on the real server with its agents, within a minute each."""

import shutil
import signal
from pathlib import Path

import pytest
from running import finish, rows_of, start
from waiting import wait_until


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["GAME=CartPole-v1", "T_MAX=5", "MIN_BATCH=40", "LEARNING_RATE=1e-3"], 195.0),
        (["GAME=catch:Catch-v0", "ENVS_PER_AGENT=16", "T_MAX=5", "MIN_BATCH=40", "LEARNING_RATE=1e-3"], 0.8),
    ],
    ids=["CartPole", "pixels"],
)
def test_reaches_the_score_within_a_minute(tmp_path, words, wanted):
    path = tmp_path / "run"
    shutil.copy(Path(__file__).with_name("catch.py"), tmp_path)
    process = start(tmp_path, *words, f"RUN={path}", "LOG_SECONDS=0.5", "TENSORBOARD=0", "MAX_SECONDS=60")
    scores = []

    def over():
        scores[:] = [row["score"] for row in rows_of(path) if row["episodes"] >= 100]
        return max(scores, default=wanted - 1) >= wanted or process.poll() is not None

    wait_until(over, 90)
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 10)
    assert code == 0, output
    assert max(scores) >= wanted, output
