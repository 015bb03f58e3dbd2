"""The picture of settings that were changed one at a time: each beside the run in which nothing was."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from experiments.papers.canvas import legend, new_figure, say_nothing, tidy
from experiments.papers.cell_records import Results, axes_besides, finished_by, name_of, score_curve
from experiments.papers.figures_learning import draw_runs
from experiments.style import LABEL, OURS, PAPER
from experiments.text import unit_of

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

ACROSS = 4  # panels beside each other
ROW = 2.1  # inches
COLUMNS = 34  # characters of the title of a panel
CHANGED: dict[str, Any] = {"color": OURS, "linestyle": "-", "marker": "o"}
UNCHANGED: dict[str, Any] = {"color": PAPER, "linestyle": "--", "marker": "s"}


def draw_changes(results: Results) -> SubFigure:
    """Score over time, a panel for each change; the unchanged run is in all of them."""
    axes = axes_besides(results)
    parts = finished_by(results, axes)
    unchanged = parts.pop((None,) * len(axes), [])
    down = -(-len(parts) // ACROSS) or 1
    figure = new_figure(results, 1.3 + ROW * down)
    panels = figure.subplots(down, ACROSS, squeeze=False, sharex=True, sharey=True)
    runs = [*unchanged, *(cell for cells in parts.values() for cell in cells)]
    unit, unit_name = unit_of(max((at for cell in runs for at, _ in score_curve(cell)), default=0.0))
    for place, (panel, cells) in enumerate(zip(panels.flat, parts.values(), strict=False)):
        tidy(panel, textwrap.fill(name_of(cells[0], axes), COLUMNS), grid="both")
        draw_runs(panel, unchanged, unit, UNCHANGED, crowded=True)
        draw_runs(panel, cells, unit, CHANGED, crowded=True)
        panel.set_xlim(left=0)
        if place + ACROSS >= len(parts):
            panel.set_xlabel(f"{unit_name} of training")
            panel.tick_params(labelbottom=True)
    for panel in panels.flat[len(parts) :]:
        panel.set_axis_off()
    if not parts:
        say_nothing(panels[0, 0], "no change has been run")
    for panel in panels[:, 0]:
        panel.set_ylabel("mean score", fontsize=LABEL)
    _explain(figure)
    return figure


def _explain(figure: SubFigure) -> None:
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], linewidth=1.8, label=label, color=style["color"], linestyle=style["linestyle"])
        for label, style in (("with the change that the panel names", CHANGED), ("unchanged", UNCHANGED))
    ]
    legend(figure, handles=lines, loc="outside lower left", ncols=2)
