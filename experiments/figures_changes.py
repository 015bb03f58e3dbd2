"""The picture of settings that were changed one at a time: each beside the run in which nothing was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.canvas import OURS, PAPER, legend, new_figure, plain, say_nothing, tidy
from experiments.cell_groups import Cell, Results, axes_besides, finished_by, name_of, score_curve
from experiments.statistics import band
from tuner.story import unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

ACROSS = 4  # panels beside each other
ROW = 2.1  # inches


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
    for panel, cells in zip(panels.flat, parts.values(), strict=False):
        tidy(panel, name_of(cells[0], axes), grid="both")
        _draw(panel, unchanged, unit, PAPER, 1.2)
        _draw(panel, cells, unit, OURS, 1.8)
        panel.set_xlim(left=0)
    for panel in panels.flat[len(parts) :]:
        panel.set_axis_off()
    if not parts:
        say_nothing(panels[0, 0], "no change has been run")
    for place, panel in enumerate(panels.flat[: len(parts)]):
        if place + ACROSS >= len(parts):
            panel.set_xlabel(f"{unit_name} of training")
            panel.tick_params(labelbottom=True)
    for panel in panels[:, 0]:
        panel.set_ylabel("mean score", fontsize=9)
    _explain(figure)
    return figure


def _draw(axes: Axes, cells: list[Cell], unit: float, colour: str, width: float) -> None:
    common = band([[(seconds / unit, score) for seconds, score in score_curve(cell)] for cell in cells])
    if common is None:
        return
    axes.plot(common.at, common.middle, color=colour, linewidth=width)
    if common.low is not None and common.high is not None:
        axes.fill_between(common.at, common.low, common.high, color=colour, alpha=0.15, linewidth=0)


def _explain(figure: SubFigure) -> None:
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=OURS, linewidth=1.8, label=plain("with the change that the panel names")),
        Line2D([], [], color=PAPER, linewidth=1.2, label="unchanged"),
    ]
    legend(figure, handles=lines, loc="outside lower left", ncols=2)
