"""The server is killed, or one of its threads fails: nothing stays behind, and the run can be gone on with."""

import re
from pathlib import Path

import numpy as np
import pytest

from ga3c.runs.checkpoint import checkpoints_of, load_newest
from tests.helpers.command_line import QUICK, all_gone, children_of, run, start, summary_of, trains
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.processes


def semaphores_of(pid):
    """Files in shared memory that a process has, of its log queue."""
    with open(f"/proc/{pid}/maps") as maps:
        return set(re.findall(r"/dev/shm/sem\S+", maps.read()))


def test_a_killed_server_leaves_nothing_and_its_run_goes_on_from_the_last_whole_checkpoint(tmp_path, temporary):
    path = tmp_path / "here"
    process = start(tmp_path, *QUICK, "RUN=here", "CHECKPOINT_SECONDS=0.5")
    wait_until(lambda: trains(path)() and len(list(path.glob("checkpoints/*.safetensors"))) > 1, 120)
    children, semaphores = children_of(process.pid), semaphores_of(process.pid)
    assert len(children) >= 2
    assert semaphores
    process.kill()
    process.wait()
    wait_until(all_gone(children), 5)
    assert list(temporary.iterdir())  # which nobody could remove any more
    unfinished = path / "checkpoints" / ".000000000009.safetensors.4711"
    unfinished.write_bytes(b"half of it")  # as if it had been killed while it saved
    newest = checkpoints_of(path)[0]
    newest.write_bytes(newest.read_bytes()[:-1000])
    _, _, state = load_newest(path)
    code, output = run(tmp_path, "RESUME=here", f"MAX_STEPS={state['steps'] + 500}")
    assert code == 0, output
    assert re.search(rf"{newest.name} cannot be read .*; the one before it is taken", output)
    assert f"resumed at step {state['steps']}, update {state['updates']}" in output
    assert not list(temporary.iterdir())
    assert not any(Path(name).exists() for name in semaphores)
    assert not unfinished.exists()


FAIL = """
from ga3c.algorithms.actor_critic import learning
from ga3c.models import model
import torch

def later(function, count, fail):
    calls = iter(range(count))
    def wrapped(*given, **named):
        return function(*given, **named) if next(calls, None) is not None else fail(*given, **named)
    return wrapped

def break_down(*given, **named):
    raise ZeroDivisionError("on purpose")

def run_out(*given, **named):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

loss = learning.actor_critic_loss

def spoil(*given, **named):
    spoilt = loss(*given, **named)
    return spoilt._replace(total=spoilt.total * float("nan"))

"""


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("model.Model.predict = later(model.Model.predict, 200, break_down)", "on purpose"),
        pytest.param(
            "model.Model.gradient = later(model.Model.gradient, 20, break_down)", "on purpose", marks=pytest.mark.long
        ),
        ("model.Model.gradient = later(model.Model.gradient, 20, run_out)", "smaller MAX_PREDICTION_BATCH, MIN_BATCH"),
        ("learning.actor_critic_loss = later(loss, 20, spoil)", "5 updates in a row were not finite"),
    ],
    ids=["predictor", "trainer", "memory", "loss"],
)
def test_a_thread_that_fails_ends_the_run_with_its_traceback_and_a_checkpoint(tmp_path, patch, told):
    code, output = run(tmp_path, *QUICK, "RUN=here", patch=FAIL + patch)
    assert code == 1, output
    path = tmp_path / "here"
    summary = summary_of(path)
    assert summary["exit_reason"].startswith("failed: a thread of the server failed: ")
    assert told in summary["exit_reason"]
    assert summary["unaccounted_steps"] == 0
    assert told in output.splitlines()[-1]  # where a user looks
    assert "Traceback (most recent call last)" in (path / "log.txt").read_text()
    _, arrays, state = load_newest(path)
    assert state["updates"] == summary["updates"] > 0
    assert np.isfinite(arrays["weights"]).all()
