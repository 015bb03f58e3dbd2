"""``ga3c.train`` in a process that is not its own: what is of the whole process is afterwards as it was (D4)."""

import json
import logging
import multiprocessing
import resource
import signal
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import ga3c
from ga3c.__main__ import main
from ga3c.models.shared import SharedNumbers
from ga3c.runs import training
from ga3c.runs.checkpoint import load_newest
from ga3c.runs.training import RunFailed
from ga3c.settings.declare import ConfigError
from ga3c.system import malloc

SETTINGS = {"game": "CartPole-v1", "agents": 1, "envs_per_agent": 2, "hidden": 16, "min_batch": 10, "device": "cpu"}
HANDLED = (signal.SIGINT, signal.SIGTERM)


def mine(number, frame):
    """What the caller does at a signal."""


def seen_from_outside():
    return {
        "torch threads": torch.get_num_threads(),
        "open files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "temporary files": sorted(Path(tempfile.gettempdir()).glob("ga3c-*")),
        "signals": [signal.getsignal(number) for number in HANDLED],
        "log handlers": [list(logging.getLogger(name).handlers) for name in (None, "ga3c", "tuner")],
        "log levels": [logging.getLogger(name).level for name in (None, "ga3c", "tuner")],
    }


@pytest.fixture
def process(temporary):
    """The process of a caller, with threads and signals of its own, and temporary files that no other test makes."""
    before = torch.get_num_threads(), [signal.getsignal(number) for number in HANDLED]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, files[1]), files[1]))
    torch.set_num_threads(3)
    for number in HANDLED:
        signal.signal(number, mine)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    torch.set_num_threads(before[0])
    for number, handler in zip(HANDLED, before[1], strict=True):
        signal.signal(number, handler)


def never():
    raise AssertionError("the C library of the caller was told how to keep memory")


@pytest.fixture
def kept_as_it_is(monkeypatch):
    monkeypatch.setattr(malloc.keep_freed_memory, "__code__", never.__code__)  # under any name


def train(path, **settings):
    return ga3c.train(ga3c.Config(**{**SETTINGS, "run": str(path / "here"), "tensorboard": False, **settings}))


@pytest.mark.usefixtures("process", "kept_as_it_is")
@pytest.mark.parametrize(
    "settings",
    [
        {"serial": True},
        pytest.param({}, marks=pytest.mark.processes),
        pytest.param({"algo": "a3c"}, marks=pytest.mark.processes),
    ],
    ids=["serial", "ga3c", "a3c"],
)
def test_a_run_leaves_the_process_as_it_was(tmp_path, settings):
    before = seen_from_outside()
    assert train(tmp_path, max_steps=200, **settings)["exit_reason"] == "max_steps"
    assert seen_from_outside() == before


@pytest.mark.usefixtures("process", "kept_as_it_is")
def test_during_a_run_they_are_its_own(tmp_path, monkeypatch):
    """Or the test above would show nothing."""
    during = []
    loop = training.Training._loop
    monkeypatch.setattr(training.Training, "_loop", lambda *given: during.append(seen_from_outside()) or loop(*given))
    before = seen_from_outside()
    train(tmp_path, max_steps=200, serial=True)
    (then,) = during
    assert then["torch threads"] == 1
    assert all(then[name] != before[name] for name in ("signals", "log handlers"))


def broken(*_):
    raise RuntimeError("broken on purpose")


@pytest.mark.usefixtures("process", "kept_as_it_is")
@pytest.mark.parametrize("algo", ["ga3c", "a3c"])
def test_so_does_one_that_fails_before_it_plays(tmp_path, monkeypatch, algo):
    before = seen_from_outside()
    monkeypatch.setattr(training.Training, "_restore", broken)
    with pytest.raises(RunFailed, match="broken on purpose"):
        train(tmp_path, algo=algo, serial=algo == "ga3c")
    assert seen_from_outside() == before


@pytest.mark.usefixtures("process", "kept_as_it_is")
def test_so_does_one_whose_shared_memory_cannot_be_had(tmp_path, monkeypatch):
    monkeypatch.setattr(SharedNumbers, "make", broken)
    before = seen_from_outside()
    with pytest.raises(RunFailed, match="broken on purpose"):
        train(tmp_path, algo="a3c")
    assert seen_from_outside() == before


@pytest.mark.usefixtures("process", "kept_as_it_is")
def test_so_does_one_that_is_refused_when_its_model_is_made(tmp_path):
    before = seen_from_outside()
    with pytest.raises(ConfigError, match="DEVICE=cuda:77"):
        train(tmp_path, device="cuda:77", serial=True)
    assert seen_from_outside() == before


@pytest.mark.usefixtures("process", "kept_as_it_is")
def test_beside_other_threads_signals_stay_with_the_first_one(tmp_path):
    before, summaries = seen_from_outside(), []
    thread = threading.Thread(target=lambda: summaries.append(train(tmp_path, max_steps=200, serial=True)))
    thread.start()
    thread.join(60)
    assert summaries[0]["exit_reason"] == "max_steps"
    assert seen_from_outside() == before


@pytest.mark.usefixtures("process")
def test_the_command_line_keeps_freed_memory_since_the_process_is_its_own(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(malloc, "keep_freed_memory", lambda: kept.append(True))
    words = [f"{name.upper()}={value}" for name, value in SETTINGS.items()]
    assert main([*words, "SERIAL=1", "MAX_STEPS=100", "TENSORBOARD=0", f"RUN={tmp_path / 'here'}"]) == 0
    assert kept == [True]


# A callback


def rows_of(path):
    return [json.loads(line) for line in (path / "here" / "metrics.jsonl").read_text().splitlines()]


OFTEN = {"serial": True, "log_seconds": 0.01, "max_seconds": 60.0}


@pytest.mark.usefixtures("process")
def test_a_callback_gets_the_figures_of_each_interval(tmp_path):
    given = []
    config = ga3c.Config(**SETTINGS, run=str(tmp_path / "here"), tensorboard=False, **{**OFTEN, "max_steps": 500})
    summary = ga3c.train(config, given.append)  # which returns None: go on
    assert summary["exit_reason"] == "max_steps"
    written = rows_of(tmp_path)
    assert given == written[: len(given)]
    assert len(written) - len(given) <= 1  # the last one is shorter, and of the end
    assert len(given) > 1


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("end", [False, np.False_])
def test_a_callback_ends_the_run(tmp_path, end):
    given, before = [], seen_from_outside()

    def callback(row):
        given.append(dict(row))
        row.clear()  # it is the caller's
        return True if len(given) < 3 else end

    summary = ga3c.train(ga3c.Config(**SETTINGS, run=str(tmp_path / "here"), tensorboard=False, **OFTEN), callback)
    assert summary["exit_reason"] == "callback"
    assert len(given) == 3
    assert rows_of(tmp_path)[:3] == given
    _, _, state = load_newest(tmp_path / "here")
    assert state["updates"] == summary["updates"]
    assert seen_from_outside() == before


class Mine(BaseException):
    """Not even an Exception."""


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("kind", [ZeroDivisionError, Mine])
@pytest.mark.parametrize(
    "settings",
    [{"serial": True}, pytest.param({"serial": False}, marks=pytest.mark.processes)],
    ids=["serial", "ga3c"],
)
def test_what_a_callback_raises_is_raised_when_all_is_saved(tmp_path, kind, settings):
    before = seen_from_outside()

    def callback(row):
        raise kind("on purpose")

    config = ga3c.Config(**SETTINGS, run=str(tmp_path / "here"), tensorboard=False, **{**OFTEN, **settings})
    with pytest.raises(kind, match="on purpose"):
        ga3c.train(config, callback)
    summary = json.loads((tmp_path / "here" / "summary.json").read_text())
    assert summary["exit_reason"] == f"failed: the callback raised {kind.__name__}: on purpose"
    assert load_newest(tmp_path / "here")[2]["updates"] == summary["updates"]
    assert not multiprocessing.active_children()
    assert seen_from_outside() == before
