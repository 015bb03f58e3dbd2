"""The tables of the experiments, against numbers that are easily checked, and the results page that is made of them."""

import copy
import json
import subprocess
import sys

import pytest

from experiments.papers.report import PAGE, markdown, page
from experiments.papers.tables import Table, show, tables
from tests.helpers.command_line import ROOT
from tests.helpers.made_results import every_experiment, figure2, lag, made_cell, made_results, speed_grid, table2

FIGURE = b"a picture"


def column(table, header):
    place = table.headers.index(header)
    return {row[0]: row[place] for row in table.rows}


@pytest.fixture
def results(tmp_path):
    """A directory of results, and a function that adds one."""

    def add(made):
        directory = tmp_path / "results" / made["name"]
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "results.json").write_text(json.dumps(made))
        (directory / f"{made['name']}.png").write_bytes(FIGURE)

    (tmp_path / "grids").mkdir()
    return tmp_path, add


def test_speeds_are_medians_and_ratios_are_those_of_pairs():
    speeds = {
        ("ga3c", 0): 1000,
        ("ga3c", 1): 3000,
        ("ga3c", 2): 2000,
        ("a3c", 0): 500,
        ("a3c", 1): 1000,
        ("a3c", 2): 400,
    }
    cells = [
        made_cell({"network": "small", "algo": algo, "agents": 16 if algo == "ga3c" else 2}, seed, pps=pps)
        for (algo, seed), pps in speeds.items()
    ]
    (table,) = tables(made_results("table2", cells, paper=table2()["paper"]))
    assert column(table, "GA3C, PPS") == {"small": "2,000 (1,000–3,000)"}
    assert column(table, "A3C, PPS") == {"small": "500 (400–1,000)"}
    assert column(table, "GA3C / A3C") == {"small": "3.00 (2.00–5.00)"}  # and not the 4 of the medians
    assert column(table, "in the paper") == {"small": "3.9, 6.3"}


def test_a_network_without_its_counterpart_has_no_ratio():
    (table,) = tables(made_results("table2", [made_cell({"network": "small", "algo": "ga3c"}, pps=700.0)]))
    assert table.rows == [["small", "700", "–", "–", "–", "95 %, –", "–, –"]]


def test_ga3c_with_many_games_per_agent_is_beside_the_same_a3c():
    cells = [
        made_cell({"network": "small", "algo": algo, "envs_per_agent": envs}, pps=pps, training_batch=batch)
        for algo, envs, pps, batch in (("ga3c", 1, 600.0, 5), ("a3c", 1, 500.0, 5), ("ga3c", 32, 1500.0, 160))
    ]
    first, second = tables(made_results("table2", cells))
    assert first.rows == [["small", "600", "500", "1.20", "–", "95 %, 95 %", "–, –"]]
    assert second.rows == [["small", "1,500", "500", "3.00", "95 %", "–", "160"]]


def test_the_top_settings_of_each_na():
    (table,) = tables(speed_grid("figure3"))
    assert [row[0].split("/")[0] for row in table.rows[:12]] == ["4"] * 3 + ["8"] * 3 + ["16"] * 3 + ["32"] * 3
    assert [row[0] for row in table.rows[12:]] == ["tuner: 28/1/2"] * 3
    shares = column(table, "of the best")
    assert list(shares.values()).count("100 %") == 1
    assert "of 24 settings" in table.title


def test_what_the_tuner_gained():
    results = figure2(games=("Pong",))
    (cell,) = results["cells"]
    cell["trials"] = [
        {"seconds": 20, "agents": 1, "predictors": 1, "trainers": 1, "tps": 10.0, "pps": 400.0, "decision": "start"},
        {"seconds": 40, "agents": 8, "predictors": 1, "trainers": 2, "tps": 24.0, "pps": 990.0, "decision": "accepted"},
        {"seconds": 60, "agents": 8, "predictors": 1, "trainers": 2, "tps": 99.0, "pps": 1.0, "decision": "failed"},
        {"seconds": 80, "agents": 8, "predictors": 1, "trainers": 2, "tps": 26.0, "pps": 1010.0, "decision": "kept"},
    ]
    cell["figures"].update(agents=8, predictors=1, trainers=2)
    (table,) = tables(results)
    assert table.rows == [["Pong, tuner anneal, seed 0", "4", "1/1/1", "8/1/2", "10.0", "25.0", "+150 %", "1,000"]]


def test_scores_say_what_their_brackets_mean():
    def scored(scores):
        cells = [made_cell({"game": "Pong", "min_batch": 20}, seed, score=score) for seed, score in enumerate(scores)]
        (table,) = tables(made_results("figure7", cells))
        return column(table, "score at the end")["Pong, batch ≥ 20"], table.note

    assert scored([5.0])[0] == "5.00"
    assert "one run" in scored([5.0])[1]
    assert scored([1.0, 4.0, 2.0])[0] == "2.17 (1.00–4.00)"  # (0.25 · 1 + 2 + 0.25 · 4) / 1.5
    assert "too few for an interval" in scored([1.0, 4.0, 2.0])[1]
    many, note = scored([float(score) for score in range(-4, 8)])
    assert many.startswith("1.50 [-")
    assert "95 % bootstrap interval" in note
    assert scored([None])[0] == "–"


def test_table3_is_human_normalised_over_all_games():
    cells = [
        made_cell({"game": game}, seed, evaluation={"mean": score, "scores": [score] * 30})
        for seed in (0, 1, 2)
        for game, score in (("Pong", 9.3), ("Breakout", 1.7), ("my_games:Own-v0", 3.0))
    ]
    paper = {"games": ["Pong"], "human": [16], "random": [-18], "a3c": [6], "ga3c": [9.3]}
    raw, scaled = tables(made_results("table3", cells, paper=paper))
    assert raw.rows[0] == ["Pong", "9.30 (9.30–9.30)", "90", "3", "-18", "16", "6", "9"]
    assert column(scaled, "score") == {
        "Pong": "1.00 (1.00–1.00)",
        "Breakout": "0.00 (0.00–0.00)",
        "my_games:Own-v0": "–",
        "all games": "0.50 [0.50–0.50]",
    }
    assert column(scaled, "GA3C (paper)")["Pong"] == "1.00"


def test_lag_by_setting_with_and_without_a_correction():
    (table,) = tables(lag())
    assert len(table.rows) == 16
    assert table.rows[0][0] == "4/1/1, batch ≥ 20, no correction"
    assert table.rows[1][0] == "4/1/1, batch ≥ 20, V-trace"
    assert [row[-1] for row in table.rows[:2]] == ["–", "0.90 (0.90–0.90)"]


def test_scores_along_the_way_by_minutes_and_by_steps():
    """One run plays twice as fast: at the same steps it has the same score, at the same time the better one."""
    cells = [
        made_cell(
            settings, curve=[[t, speed * t, speed * t / 100] for t in range(1, 401)], seconds=400.0, steps=speed * 400
        )
        for settings, speed in (({}, 100), ({"t_max": 5}, 200))
    ]
    _, way = tables(made_results("defaults", cells))
    assert way.headers == [
        "setting",
        "1.67 min",
        "3.33 min",
        "5.00 min",
        "6.67 min",
        "10.0 k",
        "20.0 k",
        "30.0 k",
        "40.0 k",
    ]
    slow, fast = way.rows
    assert (slow[0], fast[0]) == ("unchanged", "T_MAX = 5")
    by_time, by_steps = ([float(score) for score in places] for places in (slow[1:5], slow[5:]))
    assert by_steps == pytest.approx(by_time, rel=0.01)
    assert [float(score) for score in fast[5:]] == pytest.approx(by_steps, rel=0.01)
    assert [float(score) for score in fast[1:5]] == pytest.approx([2 * score for score in by_time], rel=0.01)
    assert by_time[-1] == pytest.approx(380, rel=0.01)  # of the games from 360 s on


def even_run(settings, steps, seed=0):
    """Always of score 1."""
    curve = [[t, steps / 400 * t, 1] for t in range(1, 401)]
    return made_cell(settings, seed=seed, curve=curve, seconds=400.0, steps=steps)


def test_one_slow_setting_does_not_hide_what_the_others_reached():
    cells = [even_run({}, 80_000), even_run({"t_max": 5}, 10_000), even_run({"beta": 0.1}, 40_000)]
    _, way = tables(made_results("defaults", cells))
    assert way.headers[5:] == ["10.0 k", "20.0 k", "30.0 k", "40.0 k"]
    assert [row[5:] for row in way.rows] == [["1.00"] * 4, ["1.00", "–", "–", "–"], ["1.00"] * 4]


def test_a_score_is_shown_only_where_all_runs_of_the_setting_came():
    cells = [even_run({}, 80_000), even_run({"t_max": 5}, 80_000)]
    cells += [even_run({"beta": 0.1}, 80_000), even_run({"beta": 0.1}, 30_000, seed=1)]
    _, way = tables(made_results("defaults", cells))
    assert way.headers[-1] == "80.0 k"
    assert [row[-1] for row in way.rows] == ["1.00", "1.00", "–"]


def test_every_table_has_as_many_columns_as_heads_and_fits_the_terminal(capsys):
    for made in every_experiment().values():
        for table in tables(made):
            assert table.rows
            assert {len(row) for row in table.rows} == {len(table.headers)}
        show(made)
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= 110
    assert not any("…" in line for line in lines)


def test_a_failed_cell_is_in_no_table_but_told(capsys):
    made = copy.deepcopy(speed_grid("figure4", seeds=(0,)))
    cell = made["cells"][0]
    cell.update(figures={}, error="out of [memory]")
    show(made)
    assert f"failed: {cell['id']}: out of [memory]" in capsys.readouterr().out.replace("\n", " ")


def test_the_page_has_what_was_run_and_names_what_was_not(results):
    directory, add = results
    (directory / "grids" / "lag.toml").write_text('title = "Policy lag"')
    (directory / "grids" / "figure9.toml").write_text('title = "A figure to come"')
    made = lag(seeds=(0,))
    made["cells"][0].update(figures={}, error="two\nlines | of `it`")
    add(made)
    text = page(directory / "results", directory / "grids")
    assert "## Lag: what this experiment is about" in text
    assert "./run.sh experiment lag BUDGET=laptop" in text
    assert "2 cores of A made-up processor, 8 GB, Linux x86_64, Python 3.12.1, torch 2.9.0." in text
    assert "16 runs (seed 0), 60 min in all. 2026-11-17, commit `0123456789`." in text
    assert "![Lag: what this experiment is about](results/lag/lag.png)" in text
    assert "**What it does not show**: What it does not show." in text
    assert "two lines | of 'it'`" in text
    assert "## Not run\n\n- figure9: A figure to come\n" in text
    assert "Policy lag\n" not in text.split("## Not run")[1]
    assert text == page(directory / "results", directory / "grids")


def test_a_toy_budget_is_said_on_the_page(results):
    directory, add = results
    add({**lag(seeds=(0,)), "budget": "toy"})
    assert "**Toy budget**" in page(directory / "results", directory / "grids")


def test_remarks_beside_the_results_are_on_the_page(results):
    directory, add = results
    add(lag(seeds=(0,)))
    (directory / "results" / "lag" / "remarks.md").write_text("It was a quiet day.\n")
    assert "**Remarks**\n\nIt was a quiet day.\n\n**What it shows**" in page(directory / "results", directory / "grids")


def test_markdown_keeps_its_columns():
    text = markdown(Table("Title", ["a", "b"], [["1 | 2", "3"]], "A note."))
    assert text.split("\n") == ["**Title**", "", "| a | b |", "| :-- | --: |", "| 1 \\| 2 | 3 |", "", "A note."]


def test_the_committed_page_is_what_the_committed_results_give():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m experiments.papers.report"


@pytest.mark.processes
def test_tables_load_neither_emulator_nor_torch():
    code = "import sys, experiments.papers.report; print({'ale_py', 'torch', 'gymnasium', 'zmq'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr
