"""Declared experiments: what a grid file says, what is refused, the order of cells and what they are known by."""

from types import SimpleNamespace

import pytest

from experiments.options import BUDGETS
from experiments.papers import grid
from experiments.papers.experiment import Session
from ga3c.__main__ import main
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from ga3c.system.limits import available_cores

GRID = """
title = "A title"
shows = "something"
does_not_show = "much"
warm_up = 2
[settings]
GAME = "Pong"
TUNER = "off"
MAX_SECONDS = 10
[axes]
NETWORK = ["small", "large-4"]
[budgets.toy]
seeds = [0, 1]
cases = [{ TRAINERS = 1, AGENTS = "3 per core" }, { TRAINERS = 2 }]
also = [{ TUNER = "anneal", MAX_SECONDS = 30 }]
[budgets.laptop]
settings = { MAX_SECONDS = 60, NORMALIZE = false }
axes = { LEARNING_RATE = [7e-4, 1e-4] }
[budgets.paper]
"""


@pytest.fixture
def read(tmp_path):
    def read(text=GRID):
        path = tmp_path / "name.toml"
        path.write_text(text)
        return grid.read_grid(path)

    return read


def test_cells_come_repeat_by_repeat_and_cases_directly_after_each_other(read):
    cells = read().cells("toy")
    order = [(cell.seed, *(cell.settings[name] for name in ("network", "trainers", "tuner"))) for cell in cells]
    once = [
        ("small", 1, "off"),
        ("small", 2, "off"),
        ("large-4", 1, "off"),
        ("large-4", 2, "off"),
        ("auto", 1, "anneal"),
    ]
    assert order == [(seed, *settings) for seed in (0, 1) for settings in once]


def test_a_cell_has_the_words_of_all_that_it_was_given(read):
    first, *_, last = read().cells("toy", [5])
    assert Config.from_words(first.words).agents == 3 * available_cores()
    assert {"GAME=Pong", "NETWORK=small", "TRAINERS=1", "MAX_SECONDS=10", "SEED=5"} <= set(first.words)
    assert {"TUNER=anneal", "MAX_SECONDS=30", "SEED=5"} <= set(last.words)
    assert (first.seed, first.warm_up) == (5, 2)
    assert last.expected == 30 + grid.START_SECONDS


def test_settings_that_go_with_another_are_not_what_cells_are_told_apart_by(read):
    given = 'given = { NETWORK = { "large-4" = { AGENTS = 5, MIN_BATCH = 20 } } }\n'
    cells = read(GRID.replace("seeds = [0, 1]\n", given)).cells("toy")
    found = [(Config.from_words(cell.words).agents, Config.from_words(cell.words).min_batch) for cell in cells]
    many, default = 3 * available_cores(), Config.min_batch
    assert found == [(many, default), (None, default), (many, 20), (5, 20), (None, default)]  # a case's own word wins
    assert "min_batch" not in cells[0].settings


def test_changes_are_known_by_themselves_alone(read):
    changed = "axes = {}\nchanges = [{ T_MAX = 5 }, { BETA = 0.1, MAX_STEPS = 9 }]\n"
    cells = read(
        GRID.replace("seeds = [0, 1]\n", changed).replace(GRID[GRID.index("cases") : GRID.index("[budgets.l")], "")
    )
    first, *changes = cells.cells("toy")
    assert [cell.settings for cell in (first, *changes)] == [{}, {"t_max": 5}, {"beta": 0.1}]
    assert "MAX_STEPS=9" in changes[1].words
    assert [cell.id.rpartition("-seed-")[0] for cell in (first, *changes)] == ["run", "t-max-5", "beta-0.1"]


def test_a_budget_adds_settings_and_replaces_axes(read):
    cells = read().cells("laptop")
    assert [cell.settings for cell in cells] == [{"learning_rate": 7e-4}, {"learning_rate": 1e-4}]
    assert {"GAME=Pong", "MAX_SECONDS=60", "NORMALIZE=0"} <= set(cells[0].words)
    assert read().seconds("laptop") == 2 * (60 + grid.START_SECONDS)
    assert read().seconds("toy") == 2 * (4 * (10 + grid.START_SECONDS) + 30 + grid.START_SECONDS)


def test_cells_are_known_by_all_that_they_depend_on(read):
    ids = [cell.id for cell in read().cells("toy")]
    assert len(set(ids)) == len(ids)
    assert ids[0].startswith("network-small-trainers-1-agents-")
    assert "-seed-0-" in ids[0]
    assert ids == [cell.id for cell in read().cells("toy")]
    for change in (("MAX_SECONDS = 10", "MAX_SECONDS = 11"), ("warm_up = 2", "warm_up = 3"), ("Pong", "Boxing")):
        changed = [cell.id for cell in read(GRID.replace(*change)).cells("toy")]
        assert not set(ids[:4]) & set(changed), change


def test_cells_of_other_defaults_are_other_cells(read, monkeypatch):
    ids = [cell.id for cell in read().cells("toy")]
    later_config = SimpleNamespace(from_words=lambda words: Config.from_words(["BETA=0.02", *words]))
    monkeypatch.setattr(grid, "Config", later_config)
    later = [cell.id for cell in read().cells("toy")]
    assert len(later) == len(ids)
    assert not set(ids) & set(later)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("shows =", "show =", ["name.toml", "'show'", "Did you mean shows?"]),
        ("title =", "# title =", ["'title' is missing"]),
        ("[budgets.laptop]", "[budgets.labtop]", ["'labtop'", "Did you mean laptop?"]),
        ("[budgets.paper]", "", ["[budgets.paper] is missing"]),
        ("seeds = [0, 1]", "seed = [0, 1]", ["'seed'", "Did you mean seeds?"]),
        ("seeds = [0, 1]", "seeds = 2", ["seeds is not a list"]),
        ('NETWORK = ["small", "large-4"]', 'NETWORK = "small"', ["NETWORK is not a list"]),
        ("[axes]", "[axes", ["is not a TOML file"]),
    ],
)
def test_a_wrong_grid_is_refused(read, right, wrong, words):
    assert right in GRID
    with pytest.raises(ConfigError) as refused:
        read(GRID.replace(right, wrong))
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("NETWORK =", "NETWROK =", ["name: NETWROK is not a setting", "Did you mean NETWORK?"]),
        ('"small"', '"smal"', ["NETWORK=smal is unknown", "Did you mean small?"]),
        ("MAX_SECONDS = 10", "MIN_BATCH = 10", ["without an end"]),
    ],
)
def test_settings_that_no_run_would_take_are_refused_before_anything_runs(read, right, wrong, words):
    found = read(GRID.replace(right, wrong))
    with pytest.raises(ConfigError) as refused:
        found.cells("toy")
    for word in words:
        assert word in str(refused.value)


def test_the_experiments_of_the_paper_are_declared_at_every_budget():
    assert {*(f"figure{number}" for number in range(2, 8)), "lag", "table2", "table3"} < set(grid.names())
    for declared in map(grid.load, grid.names()):
        source = grid.load(declared.cells_of) if declared.cells_of else declared
        for budget in BUDGETS:
            cells = source.cells(budget)
            assert len({cell.id for cell in cells}) == len(cells) > 0
            assert all(cell.expected > grid.START_SECONDS or budget == "toy" for cell in cells)
    assert sum(grid.load(name).seconds("toy") for name in grid.names() if name != "figure4") < 180


def test_a_name_that_is_nearly_right():
    with pytest.raises(ConfigError, match="Did you mean table2"):
        grid.load("tabel2")


def test_all_experiments_are_one_word_and_cells_that_two_of_them_show_run_once(tmp_path, monkeypatch):
    planned = []
    monkeypatch.setattr(Session, "run", lambda session: planned.append(session))
    assert main(["experiment", "all", "BUDGET=toy", f"OUT={tmp_path}"]) == 0
    (session,) = planned
    assert [each.grid.name for each in session._experiments] == grid.names()
    own = [name for name in grid.names() if not grid.load(name).cells_of]
    assert len(session._left) == sum(len(grid.load(name).cells("toy")) for name in own)
