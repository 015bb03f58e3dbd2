"""The picture of figure 2: what the tuner did."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from experiments.papers.canvas import legend, new_figure, plain, say_nothing, tidy
from experiments.papers.cell_records import (
    THREADS,
    CellRecord,
    Results,
    axes_besides,
    finished,
    groups,
    measured,
    name_of,
)
from experiments.style import LABEL, MARKS, style_of
from experiments.text import unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

TUNING = {
    "agents\nNA": "agents",
    "predictors\nNP": "predictors",
    "trainers\nNT": "trainers",
    "TPS\nupdates / s": "tps",
    "PPS\nsteps / s": "pps",
}


def draw_tuning(results: Results) -> SubFigure:
    """Figure 2: NA, NP, NT, TPS and PPS over time, a column for each game and a line for each run."""
    cells = [cell for cell in finished(results) if cell.get("trials")]
    figure = new_figure(results, 9.5 if cells else 2.5)
    if not cells:
        say_nothing(figure.add_subplot(), "no cell has windows of a tuner")
        return figure
    others = axes_besides(results, "game")
    games = groups(cells, ["game"])
    panels = figure.subplots(len(TUNING), len(games), squeeze=False, sharex="col", sharey="row")
    unit, unit_name = unit_of(max(cell["trials"][-1]["seconds"] for cell in cells))
    seeds = len({cell["seed"] for cell in cells}) > 1
    names = {cell["id"]: name_of(cell, others) + (f", seed {cell['seed']}" if seeds else "") for cell in cells}
    styles = {name: style_of(place) for place, name in enumerate(sorted(set(names.values())))}
    for column, ((game,), runs) in enumerate(games.items()):
        for row, (label, name) in enumerate(TUNING.items()):
            axes = panels[row, column]
            tidy(axes, str(game) if row == 0 and game is not None else "")
            for place, cell in enumerate(runs):
                # Whole numbers are moved a little, or the last run would hide the ones before.
                shift = 0.05 * (place - (len(runs) - 1) / 2) if name in ("predictors", "trainers") else 0.0
                _draw_windows(axes, cell["trials"], name, unit, styles[names[cell["id"]]], shift)
            if column == 0:
                axes.set_ylabel(label, fontsize=LABEL)
        panels[-1, column].set_xlabel(f"{unit_name} of the run")
    _limit_tuning(panels)
    legend(figure, handles=[*_run_lines(styles), *_verdict_marks(cells)], loc="outside lower left", ncols=4)
    return figure


def _limit_tuning(panels: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    for row, name in enumerate(TUNING.values()):
        for axes in panels[row]:
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=name in THREADS, min_n_ticks=2))
            axes.set_xlim(left=0)
        panels[row, 0].set_ylim(bottom=0)  # shared by its row


def _draw_windows(
    axes: Axes, trials: list[dict[str, Any]], name: str, unit: float, style: dict[str, Any], shift: float
) -> None:
    """A step for each window, a gap where nothing was measured, and on TPS what was decided then."""
    ends = [trial["seconds"] / unit for trial in trials]
    starts = [0.0, *ends[:-1]]
    heights = [_height(trial, name) + shift for trial in trials]
    times = [at for pair in zip(starts, ends, strict=True) for at in pair]
    steps = [height for height in heights for _ in range(2)]
    axes.plot(times, steps, color=style["color"], linestyle=style["linestyle"], linewidth=1.3)
    if name != "tps":
        return
    middles = [(start + end) / 2 for start, end in zip(starts, ends, strict=True)]
    for verdict in dict.fromkeys(trial["decision"] for trial in trials if trial["decision"] in MARKS):
        mark = MARKS[verdict]
        marked = [place for place, trial in enumerate(trials) if trial["decision"] == verdict]
        at = [middles[place] for place in marked]
        known = [0.0 if math.isnan(heights[place]) else heights[place] for place in marked]
        small = {**mark, "markersize": 0.7 * mark["markersize"]}
        axes.plot(at, known, linestyle="", clip_on=False, zorder=3, **small)


def _height(trial: dict[str, Any], name: str) -> float:
    known = trial[name] if name in THREADS else measured(trial, name)
    return math.nan if known is None else float(known)


def _run_lines(styles: dict[str, dict[str, Any]]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], label=plain(name), color=style["color"], linestyle=style["linestyle"], linewidth=1.3)
        for name, style in styles.items()
    ]


def _verdict_marks(cells: list[CellRecord]) -> list[Any]:
    from matplotlib.lines import Line2D

    found = {trial["decision"] for cell in cells for trial in cell["trials"]}
    return [
        Line2D([], [], label=f"{verdict} (on TPS)", linestyle="", **mark)
        for verdict, mark in MARKS.items()
        if verdict in found
    ]
