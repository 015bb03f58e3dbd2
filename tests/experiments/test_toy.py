"""Every experiment at toy size, from its grid to its picture, so that none rots."""

import csv
import json

import pytest

from experiments.papers import grid
from ga3c.settings.config import Config
from tests.helpers.command_line import run

FIGURES = {
    *("pps", "tps", "trained_per_second", "prediction_queue", "training_queue", "prediction_batch", "training_batch"),
    *("lag_mean", "lag_max", "predictor_busy", "trainer_busy", "held", "limit", "score", "steps", "updates", "seconds"),
    *("agents", "predictors", "trainers", "cpu", "device", "memory"),
}
KEYS = {
    *("name", "budget", "title", "shows", "does_not_show", "paper", "command", "date", "commit", "hardware", "seconds"),
    *("axes", "seeds", "unfinished", "cells"),
}


@pytest.mark.processes
@pytest.mark.parametrize("name", [name for name in grid.names() if not grid.load(name).cells_of])
def test_an_experiment_at_toy_size(tmp_path, name):
    together = [name, *(other for other in grid.names() if grid.load(other).cells_of == name)]
    for each in together:
        code, output = run(tmp_path, "experiment", each, "BUDGET=toy", "OUT=out", seconds=300)
        assert code == 0, output
        check(tmp_path / "out" / f"{each}-toy", grid.load(each))
    ran = {cell.parent.name for cell in tmp_path.glob("out/*/cells/*/cell.json")}
    for each in together:  # also those that show the cells of another, which do not run again
        assert {cell["id"] for cell in results(tmp_path / "out" / f"{each}-toy")["cells"]} == ran


def results(directory):
    return json.loads((directory / "results.json").read_text())


def check(directory, declared):
    found = results(directory)
    assert found.keys() == KEYS
    assert (found["budget"], found["unfinished"]) == ("toy", 0)
    assert found["paper"] == declared.paper
    planned = {cell.id: cell for cell in grid.load(declared.cells_of or declared.name).cells("toy")}
    assert planned.keys() == {cell["id"] for cell in found["cells"]}
    for cell in found["cells"]:
        assert cell["error"] is None
        assert cell["settings"].keys() <= found["axes"].keys()
        assert cell["figures"].keys() == FIGURES
        assert cell["figures"]["pps"] > 0
        assert cell["figures"]["tps"] > 0
        assert 0 < cell["figures"]["cpu"] <= 1.05
        assert (cell["trials"] is not None) == (Config.from_words(planned[cell["id"]].words).tuner != "off")
        assert (cell["curve"] is not None) == declared.learning
        assert len(cell["evaluation"]["scores"] if cell["evaluation"] else []) == planned[cell["id"]].evaluate
    with (directory / "cells.csv").open() as file:
        assert [row["cell"] for row in csv.DictReader(file)] == [cell["id"] for cell in found["cells"]]
    assert (directory / "curves.csv").exists() == any(cell["curve"] for cell in found["cells"])
    assert (directory / f"{declared.name}.png").exists()
