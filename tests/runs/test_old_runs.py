"""Runs of commit 5392fc6 (tests/data): the code of today resumes, evaluates, plays and replays them as that did."""

import hashlib
import json
import platform
import re
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

import ga3c
from ga3c.__main__ import main
from ga3c.runs import tuning
from ga3c.runs.checkpoint import load_newest
from ga3c.settings.config import Config
from tuner.trace import read_trace

RUNS = Path(__file__).parent.parent / "data" / "runs-5392fc6"
EXPECTED = json.loads((RUNS / "expected.json").read_text())


@pytest.fixture
def old(tmp_path):
    """Copies of the old runs, by name."""
    return lambda name: shutil.copytree(RUNS / name, tmp_path / name)


def resume(run, **settings):
    return ga3c.train(Config.from_mapping({"resume": str(run), **settings}))


def same_machine():
    """Whether torch computes here with the bits that it had there: those of another processor differ by rounding."""
    try:
        vendor = re.findall(r"vendor_id\s*: (.*)", Path("/proc/cpuinfo").read_text())[0]
    except (OSError, IndexError):
        vendor = platform.machine()
    here = (torch.__version__, f"{vendor} {torch.backends.cpu.get_cpu_capability()}")
    return here == (EXPECTED["torch"], EXPECTED["processor"])


@pytest.mark.parametrize("name", EXPECTED["further"])
def test_a_serial_run_goes_on_as_the_old_code_did(old, name):
    run, expected = old(name), EXPECTED["further"][name]
    resume(run, max_steps=expected["max_steps"])
    _, arrays, state = load_newest(run)
    totals = state["stats"]["totals"]
    assert {name: totals[name] for name in expected["totals"]} == expected["totals"]
    weights = arrays["weights"]
    assert weights[:: expected["every"]] == pytest.approx(expected["weights"], rel=1e-3, abs=1e-5)
    if same_machine():
        assert hashlib.sha256(weights.data).hexdigest() == expected["sha256"]


@pytest.mark.processes
def test_agents_that_train_by_themselves_go_on(old):
    goes_on(old("cartpole-a3c"))


@pytest.mark.processes
def test_the_tuner_goes_on_where_it_was(old, monkeypatch):
    monkeypatch.setattr(tuning, "available_cores", lambda: 2)  # those of the machine that the trace is of
    run = old("cartpole-tuner")
    incumbent = read_trace(run).trials[-1].decision.incumbent
    lines = (run / "tuner.jsonl").read_bytes()
    summary = goes_on(run)
    assert (summary["agents"], summary["predictors"], summary["trainers"]) == incumbent
    assert (run / "tuner.jsonl").read_bytes().startswith(lines)
    assert not list(run.glob("tuner-*.jsonl"))  # none was set aside


def goes_on(run):
    before = json.loads((run / "summary.json").read_text())
    summary = resume(run, max_steps=before["steps"] + 200, max_seconds=0)
    assert summary["exit_reason"] == "max_steps"
    assert summary["updates"] > before["updates"]
    assert summary["unaccounted_steps"] == 0
    return summary


@pytest.mark.parametrize("name", EXPECTED["games"])
def test_games_score_as_they_did(name, tmp_path):
    expected = EXPECTED["games"][name]
    out = tmp_path / "eval.json"
    assert main(["eval", f"RUN={RUNS / name}", "DEVICE=cpu", f"OUT={out}", *expected["words"]]) == 0
    result = json.loads(out.read_text())
    assert (result["scores"], result["lengths"]) == (expected["scores"], expected["lengths"])


def test_agents_that_trained_on_the_cpu_may_be_looked_at_elsewhere(capsys):
    assert main(["eval", f"RUN={RUNS / 'cartpole-a3c'}", "DEVICE=cuda:77"]) == 2
    assert "DEVICE=cuda:77 cannot be used here" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cartpole-serial", "pong-serial"])
def test_a_game_is_recorded(name, tmp_path):
    video = tmp_path / "out.gif"
    assert main(["play", f"RUN={RUNS / name}", "DEVICE=cpu", f"VIDEO={video}", "START=0.1", "SECONDS=0.2"]) == 0
    with Image.open(video) as gif:
        assert gif.n_frames > 1


def test_the_tuner_comes_to_the_same_decisions(old, capsys):
    run = old("cartpole-tuner")
    assert main(["replay", f"RUN={run}"]) == 0
    assert "comes to the same decision in every window" in capsys.readouterr().out
    assert (run / "replay.html").exists()
    verdicts = {trial.decision.verdict for trial in read_trace(run).trials}
    assert {"start", "accepted", "refused", "kept", "reopened"} <= verdicts  # or it shows little
