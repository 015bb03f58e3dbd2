"""``experiment``: a figure or table of the paper on this machine, from its declared grid to its results.

Cells that are done are never run again, so that the same command goes on where it was stopped, however that was.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.options import BUDGETS, ExperimentOptions
from experiments.papers import grid, result_files
from experiments.papers.grid import Grid, GridCell
from experiments.papers.run_cell import record_of, run_cell
from experiments.progress import Part, Progress
from ga3c.settings.declare import ConfigError, read_words
from ga3c.system.files import lock_directory
from ga3c.system.signals import interruptible


@dataclass(frozen=True)
class Experiment:
    """A grid at a budget, and where its results and its cells are."""

    grid: Grid
    options: ExperimentOptions
    cells: list[GridCell]
    cells_directory: Path
    directory: Path

    @classmethod
    def load(cls, name: str, options: ExperimentOptions) -> Experiment:
        shown = grid.load(name)
        source = grid.load(shown.cells_of) if shown.cells_of else shown
        seeds = list(range(options.seeds)) if options.seeds else None
        out = Path(options.out).expanduser()
        return cls(
            grid=shown,
            options=options,
            cells=source.cells(options.budget, seeds),
            cells_directory=out / f"{source.name}-{options.budget}" / "cells",
            directory=out / f"{name}-{options.budget}",
        )

    def record(self, cell: GridCell) -> dict[str, Any] | None:
        return record_of(self.cells_directory / cell.id)

    def done(self, cell: GridCell) -> bool:
        record = self.record(cell)
        return record is not None and record["error"] is None

    def results(self) -> dict[str, Any]:
        records = [record for cell in self.cells if (record := self.record(cell)) is not None]
        words = [f"BUDGET={self.options.budget}", *([f"SEEDS={self.options.seeds}"] if self.options.seeds else [])]
        about = {
            "budget": self.options.budget,
            "command": " ".join(["./run.sh experiment", self.grid.name, *words]),
        }
        return result_files.results(self.grid, self.cells, records, about)


class Session:
    """One call of the command: the cells that are left of all its experiments, in turn."""

    def __init__(self, experiments: list[Experiment]) -> None:
        self._experiments = experiments
        # An experiment may show the cells of another, which run only once.
        self._left = {
            experiment.cells_directory / cell.id: cell
            for experiment in experiments
            for cell in experiment.cells
            if not experiment.done(cell)
        }
        self._expected = sum(cell.expected for cell in self._left.values())
        self.failed: dict[str, str] = {}  # cells and pictures, and why
        self.found: list[dict[str, Any]] = []  # results of the experiments that are complete

    def run(self) -> None:
        with interruptible(), Progress(self._expected) as progress:
            for experiment in self._experiments:
                for cell in experiment.cells:
                    if self._left.pop(experiment.cells_directory / cell.id, None) is not None:
                        self._run(experiment, cell, progress)
                self._finish(experiment)

    def _run(self, experiment: Experiment, cell: GridCell, progress: Progress) -> None:
        part = Part(f"{experiment.grid.name} {cell.id}", cell.expected, lambda: "")
        progress.begin(part)
        record = run_cell(cell, experiment.cells_directory / cell.id)
        if record["error"]:
            self.failed[part.name] = record["error"]
        progress.finish(part, _describe(record))

    def _finish(self, experiment: Experiment) -> None:
        found = experiment.results()
        result_files.write(found, experiment.directory)
        self.found.append(found)
        try:
            result_files.draw(found, experiment.directory)
        except Exception as error:  # hours of runs may follow, and the picture can be drawn again
            traceback.print_exc()
            self.failed[f"picture of {experiment.grid.name}"] = f"{type(error).__name__}: {error}"

    def keep(self) -> str:
        """Write what there is of the experiments that were stopped; returns how many cells are left, in words."""
        for experiment in self._experiments[len(self.found) :]:
            found = experiment.results()
            if found["cells"]:
                result_files.write(found, experiment.directory)
        done = {each.cells_directory / cell.id: each.done(cell) for each in self._experiments for cell in each.cells}
        return f"{list(done.values()).count(False)} of {len(done)} cells"


def main(words: list[str]) -> int:
    if not words:
        print(overview())
        return 0
    if "=" in words[0]:
        raise ConfigError("which experiment? './run.sh experiment' lists them; its name is the first word")
    name, *settings = words
    options = ExperimentOptions(**read_words(ExperimentOptions, settings))
    experiments = [Experiment.load(each, options) for each in (grid.names() if name == grid.ALL else [name])]
    for directory in {experiment.cells_directory.parent for experiment in experiments}:
        _take(directory)
    session = Session(experiments)
    try:
        session.run()
    except KeyboardInterrupt:
        print(f"stopped with {session.keep()} to go: the same command goes on with them", file=sys.stderr)
    for experiment, found in zip(experiments, session.found, strict=False):
        result_files.show(found)
        print(f"results of {experiment.grid.name} in {experiment.directory}\n")
    for cell, reason in session.failed.items():
        print(f"FAILED: {cell}: {reason}", file=sys.stderr)
    if session.failed:
        print("the same command tries what failed again", file=sys.stderr)
    return 1 if session.failed else 0


def overview() -> str:
    """All experiments, and how long each takes by budget."""
    lines = [f"{'':<10}{''.join(f'{budget:>9}' for budget in BUDGETS)}"]
    totals = dict.fromkeys(BUDGETS, 0.0)
    for name in grid.names():
        declared = grid.load(name)
        times = {budget: 0.0 if declared.cells_of else declared.seconds(budget) for budget in BUDGETS}
        totals = {budget: totals[budget] + times[budget] for budget in BUDGETS}
        shown = "".join(f"{_duration(times[budget]) if not declared.cells_of else '–':>9}" for budget in BUDGETS)
        cells = f" (of the cells of {declared.cells_of})" if declared.cells_of else ""
        lines.append(f"{name:<10}{shown}  {declared.title}{cells}")
    lines.append(f"{grid.ALL:<10}{''.join(f'{_duration(totals[budget]):>9}' for budget in BUDGETS)}")
    return "\n".join(
        [
            *lines,
            "",
            "./run.sh experiment NAME BUDGET=…: toy shows only that it runs; laptop, the default, says something on a",
            "small machine; paper is what was published, in hours and days.",
        ]
    )


def _take(directory: Path) -> None:
    """Have the cells for this process alone, until it ends."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        lock_directory(directory)
    except ConfigError:
        raise ConfigError(f"another experiment writes to {directory}: wait for it, or name another OUT=…") from None


def _describe(record: dict[str, Any]) -> str:
    if record["error"]:
        return f"failed: {record['error']}"
    figures = record["figures"]
    score = "" if figures["score"] is None else f", score {figures['score']:.1f}"
    return f"PPS {figures['pps']:,.0f}, TPS {figures['tps']:.1f}{score}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
