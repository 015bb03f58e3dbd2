"""What an experiment leaves: ``results.json``, ``cells.csv``, ``curves.csv``, a picture, and tables on the terminal.

``results.json`` is what pictures and pages are made from, so its keys are an interface.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.papers.grid import Grid, GridCell
from ga3c.system.files import write_atomically, write_json

CELL_KEYS = ("id", "settings", "seed", "figures", "curve", "trials", "evaluation", "error", "date", "commit")


def results(
    grid: Grid, cells: Sequence[GridCell], records: Sequence[dict[str, Any]], about: dict[str, Any]
) -> dict[str, Any]:
    """All that is known of an experiment, from the records of its cells as far as they were run."""
    commits = sorted({str(record["commit"]) for record in records if record["commit"]})
    return {
        "name": grid.name,
        "title": grid.title,
        "shows": grid.shows,
        "does_not_show": grid.does_not_show,
        "paper": grid.paper,
        **about,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "commit": ", ".join(commits) or None,  # several where it was gone on with after a change
        "hardware": _hardware(records),
        "seconds": sum(record["spent"] for record in records),
        "axes": _axes(cells),
        "seeds": list(dict.fromkeys(cell.seed for cell in cells)),
        "unfinished": len(cells) - len(records),
        "cells": [{key: record[key] for key in CELL_KEYS} for record in records],
    }


def _hardware(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The machine of the cells; where there were several, the last one with the names of all."""
    machines = [record["hardware"] for record in records]
    return (
        {**machines[-1], "cpu": " / ".join(dict.fromkeys(machine["cpu"] for machine in machines))} if machines else {}
    )


def write(found: dict[str, Any], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "results.json", found)
    write_atomically(directory / "cells.csv", _csv(*_cell_rows(found)))
    points = [[cell["id"], *point] for cell in found["cells"] for point in cell["curve"] or []]
    if points:
        write_atomically(directory / "curves.csv", _csv(["cell", "seconds", "steps", "score"], points))


def draw(found: dict[str, Any], directory: Path) -> None:
    """The picture of the results; drawing is loaded only now, since it takes a second."""
    from experiments.papers import figures

    figures.draw(found, directory / f"{found['name']}.png")


def show(found: dict[str, Any]) -> None:
    """Its tables, on the terminal."""
    from experiments.papers import tables

    tables.show(found)


def _axes(cells: Iterable[GridCell]) -> dict[str, list[Any]]:
    """The values of each setting that is varied, in the order in which they come."""
    axes: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.settings.items():
            values = axes.setdefault(name, [])
            if value not in values:
                values.append(value)
    return axes


def _cell_rows(found: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """One row per cell: what is varied, the seed, the figures."""
    figures = list(dict.fromkeys(name for cell in found["cells"] for name in cell["figures"]))
    rows = [
        [
            cell["id"],
            *(cell["settings"].get(name) for name in found["axes"]),
            cell["seed"],
            *(cell["figures"].get(name) for name in figures),
            cell["evaluation"]["mean"] if cell["evaluation"] else None,
            cell["error"],
        ]
        for cell in found["cells"]
    ]
    # A setting may have the name of a figure: the number of agents at the start and at the end.
    ends = [f"final_{name}" if name in found["axes"] else name for name in figures]
    return ["cell", *found["axes"], "seed", *ends, "evaluation", "error"], rows


def _csv(heads: list[str], rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue().encode()
