"""What all tests share: one torch thread, so that a loaded machine changes neither times nor bits; turns, some of them
alone; what they may start, and what CI may skip; a server, its sockets alone, and a quick tuner."""

import contextlib
import importlib
import os
import signal
import tempfile
from pathlib import Path

import pytest
import torch

from tests.helpers.command_line import end_all
from tests.helpers.exchange_at_work import Office
from tests.helpers.fake_server import PLAN
from tests.helpers.processes import no_processes
from tests.helpers.server_at_work import Run
from tests.helpers.turns import turn
from tuner import controller
from tuner.controller import Controller
from tuner.record import Record
from tuner.strategy import Paper

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Tests that were started in the background ignore Ctrl-C, and so would all that they start until it has a handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)


if os.environ.get("CI") == "true":
    # There a package that is missing fails the tests that need it, which elsewhere are skipped.
    pytest.importorskip = lambda name, **_: importlib.import_module(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    marked = {mark.name for mark in item.iter_markers()}
    with (
        turn(alone=bool(marked & {"alone", "long"})),
        contextlib.nullcontext() if marked & {"processes", "long"} else no_processes(),
    ):
        return (yield)


@pytest.fixture(autouse=True)
def no_run_is_left():
    yield
    end_all()


@pytest.fixture(autouse=True)
def signals_mean_what_they_meant():
    """The command line, called in the tests' own process, leaves them ignored, and all that later tests start would
    ignore them too."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def temporary(monkeypatch, tmp_path_factory):
    """Where temporary files are, for the test alone: a short name, which the sockets in it need."""
    tmp_path_factory.getbasetemp()  # pytest's own outlive the test
    with tempfile.TemporaryDirectory(prefix="ga3c-test-") as directory:
        monkeypatch.setenv("TMPDIR", directory)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(directory)


@pytest.fixture
def office():
    office = Office()
    yield office
    office.close()


@pytest.fixture
def start(tmp_path):
    """Start a server with its agents; all that were started are stopped at the end."""
    runs = []

    def begin(**settings):
        runs.append(Run(tmp_path, **settings))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


@pytest.fixture
def tune(tmp_path, monkeypatch):
    """Start a controller that waits for nothing long; all that were started are stopped at the end."""
    monkeypatch.setattr(controller, "SETTLING_LEAST", 0.01)
    monkeypatch.setattr(controller, "PATIENCE", 0.3)
    monkeypatch.setattr(controller, "ENV_PATIENCE", 0.0)
    monkeypatch.setattr(controller, "LOOK_SECONDS", 0.002)
    running = []

    def begin(server, make=Paper, plan=PLAN, resumed=None):
        running.append(Controller(server, plan, Record(tmp_path), make, resumed))
        running[-1].start()
        return running[-1]

    yield begin
    for thread in running:
        thread.stop(5)
        assert not thread.is_alive()
