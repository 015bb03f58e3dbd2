"""Saving while a run goes on: its state is of one moment, and a slow disk keeps nobody but the thread that writes."""

import os
import signal
import threading

import numpy as np
import pytest

from ga3c.memory.stats import Stats
from ga3c.runs.checkpoint import load_newest
from ga3c.runs.saving import Saving
from ga3c.settings.config import Config
from ga3c.system import files
from tests.helpers.waiting import wait_until


class Disk:
    """One whose writes wait until they may go on; each is seen from outside."""

    def __init__(self, monkeypatch):
        self.may_write = threading.Event()
        self.begun = threading.Semaphore(0)
        self._sync = os.fsync
        monkeypatch.setattr(files.os, "fsync", self._slow)

    def _slow(self, number):
        self.begun.release()
        assert self.may_write.wait(30)
        self._sync(number)


class Weights:
    """A model as far as saving asks; each state of it is of the next update."""

    def __init__(self):
        self.updates = 0

    def state(self):
        self.updates += 1
        return self.updates, {"weights": np.full(3, self.updates, np.float32)}


@pytest.fixture
def disk(monkeypatch):
    disk = Disk(monkeypatch)
    yield disk
    disk.may_write.set()


def saving_to(path, **settings):
    return Saving(path / "checkpoints", Config(game="CartPole-v1", **settings), Stats())


def updates_saved(path):
    return sorted(int(file.stem) for file in (path / "checkpoints").glob("*.safetensors"))


@pytest.mark.processes
def test_an_agent_that_is_killed_while_a_checkpoint_is_written_is_replaced(start, disk, tmp_path):
    serving = start()
    serving.wait_until(lambda: serving.server.agents_playing == 2 and serving.stats.totals.updates > 5)
    saving = Saving(tmp_path / "checkpoints", serving.config, serving.stats)
    saving.save(serving.model, None)
    assert disk.begun.acquire(timeout=30)
    victim, process = next(iter(serving.processes().items()))
    os.kill(process.pid, signal.SIGKILL)
    serving.wait_until(lambda: victim not in serving.processes() and serving.server.agents_playing == 2)
    assert not list((tmp_path / "checkpoints").glob("*.safetensors"))  # it is still being written
    disk.may_write.set()
    assert saving.save_last(serving.model, None) == ""
    assert len(updates_saved(tmp_path)) == 2


def test_of_those_taken_while_one_is_written_only_the_newest_follows(disk, tmp_path):
    saving, model = saving_to(tmp_path, keep_checkpoints=9), Weights()
    saving.save(model, None)
    assert disk.begun.acquire(timeout=30)
    for _ in range(3):
        saving.save(model, None)
    disk.may_write.set()
    wait_until(lambda: 4 in updates_saved(tmp_path))
    assert updates_saved(tmp_path) == [1, 4]
    assert saving.save_last(model, None) == ""
    assert updates_saved(tmp_path) == [1, 4, 5]
    _, arrays, state = load_newest(tmp_path)
    assert (arrays["weights"] == 5).all()
    assert state["stats"]["totals"]["updates"] == 5


def test_the_end_waits_for_the_checkpoint_that_is_written(disk, tmp_path):
    saving, model = saving_to(tmp_path, keep_checkpoints=9), Weights()
    saving.save(model, None)
    assert disk.begun.acquire(timeout=30)
    saving.save(model, None)  # which the last one makes needless
    lost = []
    end = threading.Thread(target=lambda: lost.append(saving.save_last(model, None)))
    end.start()
    end.join(0.2)
    assert end.is_alive()
    disk.may_write.set()
    end.join(30)
    assert lost == [""]
    assert updates_saved(tmp_path) == [1, 3]


def test_a_serial_run_goes_on_when_its_checkpoint_is_there(tmp_path):
    saving_to(tmp_path, serial=True).save(Weights(), {"players": []})
    assert updates_saved(tmp_path) == [1]
    assert load_newest(tmp_path)[2]["play"] == {"players": []}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("no such number")])
def test_failures_are_told_once_and_what_is_lost_at_the_end(tmp_path, monkeypatch, caplog, error):
    def fail(number):
        failed.release()
        raise error

    saving, model, failed = saving_to(tmp_path), Weights(), threading.Semaphore(0)
    saving.save(model, None)
    wait_until(lambda: saving._saved == 1)
    with monkeypatch.context() as patched:
        patched.setattr(files.os, "fsync", fail)
        for _ in range(2):
            saving.save(model, None)
            assert failed.acquire(timeout=30)
        told = f"its last checkpoint could not be written ({error}): the newest is of update 1"
        assert saving.save_last(model, None) == told
    assert caplog.text.count(f"no checkpoint can be written ({error}); training goes on") == 1
    assert ("Traceback" in caplog.text) == isinstance(error, ValueError)


def test_where_nothing_could_be_saved_that_is_said(tmp_path):
    (tmp_path / "checkpoints").touch()
    assert saving_to(tmp_path).save_last(Weights(), None).endswith("nothing of this session is saved")
