"""The experiment command on small grids: what is done is not run again, whatever ended the command before."""

import csv
import json
import os
import signal
import time

import pytest

from ga3c.__main__ import main
from tests.helpers.command_line import all_gone, children_of, finish, run, start, trains
from tests.helpers.waiting import wait_until

GRID = """
title = "Two runs"
shows = "something"
does_not_show = "much"
learning = {learning}
[settings]
AGENTS = 2
ENVS_PER_AGENT = 2
HIDDEN = 16
MIN_BATCH = 10
LOG_SECONDS = 0.2
TUNER = "off"
{settings}
[budgets.toy]
{toy}
[budgets.laptop]
[budgets.paper]
"""
SHORT_AND_LONG = 'cases = [{ GAME = "CartPole-v1", MAX_STEPS = 500 }, { GAME = "gated:Gated-v0", MAX_STEPS = 1500 }]'
GATED = """
import time
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

OPEN = Path(__file__).with_name("open")


class Gated(CartPoleEnv):
    # So slow that nobody has to be quicker than it, until it is told.
    def step(self, action):
        if not OPEN.exists():
            time.sleep(0.1)
        return super().step(action)


gymnasium.register("Gated-v0", Gated, max_episode_steps=200)
"""
ENOUGH = 120  # seconds for what takes a few on a machine with little to do


@pytest.fixture
def patch(tmp_path):
    """What lets the command find the grids of a test."""
    grids = tmp_path / "grids"
    grids.mkdir()
    return f"from pathlib import Path\nfrom experiments.papers import grid\ngrid.DIRECTORY = Path({str(grids)!r})"


def declare(path, toy, learning=True, settings=""):
    text = GRID.format(learning=str(learning).lower(), settings=settings, toy=toy)
    (path / "grids" / "two.toml").write_text(text)
    (path / "gated.py").write_text(GATED)


WORDS = ("experiment", "two", "BUDGET=toy", "OUT=out")


def results_of(path):
    return json.loads((path / "out" / "two-toy" / "results.json").read_text())


def cell_of(path, game):
    """The directory of the cell with this game, once it is there."""
    return next((path / "out" / "two-toy" / "cells").glob(f"game-{game}-*"), None)


def start_until_it_trains(path, patch, game):
    """Start the command and wait until the cell of this game trains; returns the process and the cell's processes."""
    process = start(path, *WORDS, patch=patch)
    wait_until(lambda: (cell := cell_of(path, game)) and trains(cell)(), ENOUGH, f"training of {game}")
    (cell,) = children_of(process.pid)
    return process, [cell, *children_of(cell)]


@pytest.mark.processes
def test_after_a_kill_the_same_command_goes_on_with_what_was_under_way(tmp_path, patch):
    declare(tmp_path, SHORT_AND_LONG)
    process, family = start_until_it_trains(tmp_path, patch, "gated")
    done = (cell_of(tmp_path, "cartpole") / "cell.json").read_bytes()
    cut = cell_of(tmp_path, "gated")
    os.kill(process.pid, signal.SIGKILL)
    finish(process)
    wait_until(all_gone(family), ENOUGH, "the end of the cell")
    assert not (cut / "cell.json").exists()
    assert json.loads((cut / "summary.json").read_text())["exit_reason"] == "interrupted"  # it saved

    (tmp_path / "open").touch()
    code, output = run(tmp_path, *WORDS, patch=patch)
    assert code == 0, output
    assert (cell_of(tmp_path, "cartpole") / "cell.json").read_bytes() == done
    assert "resumed at step" in (cut / "log.txt").read_text()
    found = results_of(tmp_path)
    assert [cell["error"] for cell in found["cells"]] == [None, None]
    assert found["axes"] == {"game": ["CartPole-v1", "gated:Gated-v0"]}
    assert found["cells"][1]["figures"]["steps"] >= 1500
    assert found["cells"][0]["curve"]
    with (tmp_path / "out" / "two-toy" / "cells.csv").open() as file:
        assert [row["game"] for row in csv.DictReader(file)] == ["CartPole-v1", "gated:Gated-v0"]
    assert (tmp_path / "out" / "two-toy" / "curves.csv").read_text().startswith("cell,seconds,steps,score\n")
    assert (tmp_path / "out" / "two-toy" / "two.png").exists()

    before = {path: path.read_bytes() for path in tmp_path.glob("out/two-toy/cells/*/cell.json")}
    code, output = run(tmp_path, *WORDS, patch=patch)  # nothing is left to do
    assert code == 0, output
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.processes
def test_ctrl_c_ends_the_cell_and_says_how_to_go_on(tmp_path, patch):
    declare(tmp_path, SHORT_AND_LONG, learning=False)
    process, family = start_until_it_trains(tmp_path, patch, "gated")
    cut = cell_of(tmp_path, "gated")
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, output = finish(process, ENOUGH)
    assert code == 0, output
    assert "stopped with 1 of 2 cells to go: the same command goes on" in output
    assert all_gone(family)(), f"after {time.monotonic() - started:.1f} s"
    found = results_of(tmp_path)
    assert [cell["settings"]["game"] for cell in found["cells"]] == ["CartPole-v1"]
    assert found["unfinished"] == 1

    (tmp_path / "open").touch()
    code, output = run(tmp_path, *WORDS, patch=patch)
    assert code == 0, output
    assert "resumed at step" not in (cut / "log.txt").read_text()  # a rate is measured anew
    assert results_of(tmp_path)["unfinished"] == 0


@pytest.mark.processes
def test_a_cell_that_fails_is_told_and_tried_again_and_the_others_go_on(tmp_path, patch):
    declare(tmp_path, 'axes = { GAME = ["NoSuchGame-v0", "CartPole-v1"] }', settings="MAX_STEPS = 500")
    code, output = run(tmp_path, *WORDS, patch=patch)
    assert code == 1, output
    assert "FAILED: two game-nosuchgame-v0-" in output
    assert "the same command tries what failed again" in output
    failed, other = results_of(tmp_path)["cells"]
    assert "NoSuchGame" in failed["error"]
    assert failed["figures"] == {}
    assert other["error"] is None

    # What made it fail is mended: the name is registered by a module that the run can import.
    record = (cell_of(tmp_path, "nosuchgame") / "cell.json").read_bytes()
    (tmp_path / "sitecustomize.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('NoSuchGame-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=200)\n"
    )
    done = (cell_of(tmp_path, "cartpole") / "cell.json").read_bytes()
    code, output = run(tmp_path, *WORDS, patch=patch)
    assert code == 0, output
    assert (cell_of(tmp_path, "nosuchgame") / "cell.json").read_bytes() != record
    assert (cell_of(tmp_path, "cartpole") / "cell.json").read_bytes() == done
    assert [cell["error"] for cell in results_of(tmp_path)["cells"]] == [None, None]


@pytest.mark.processes
def test_one_directory_is_for_one_experiment_at_a_time(tmp_path, patch):
    declare(tmp_path, SHORT_AND_LONG)
    process = start(tmp_path, *WORDS, patch=patch)
    wait_until(lambda: cell_of(tmp_path, "cartpole"), ENOUGH, "the first cell")
    code, output = run(tmp_path, *WORDS, patch=patch)
    assert code == 2
    assert "another experiment writes to" in output
    process.send_signal(signal.SIGTERM)
    assert finish(process, ENOUGH)[0] == 0


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["figur3"], "Did you mean figure3?"),
        (["BUDGET=toy"], "which experiment?"),
        (["figure3", "BUDGET=tiny"], "It is one of: toy, laptop, paper"),
        (["figure3", "SEEDS=0"], "SEEDS=0 is out of range"),
        (["figure3", "OUT="], "is no folder"),
    ],
)
def test_wrong_words_are_refused(words, answer, capsys):
    assert main(["experiment", *words]) == 2
    assert answer in capsys.readouterr().err


def test_without_a_name_all_are_listed(capsys):
    assert main(["experiment"]) == 0
    output = capsys.readouterr().out
    for word in ("figure2", "figure3", "table2", "lag", "toy", "laptop", "paper", "min"):
        assert word in output
