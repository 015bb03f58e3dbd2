"""The picture of each experiment, from its results.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.canvas import new_figure, save, say_nothing
from experiments.papers.cell_records import Results, finished
from experiments.papers.figures_changes import draw_changes
from experiments.papers.figures_lag import draw_lag
from experiments.papers.figures_learning import draw_curves, draw_scores
from experiments.papers.figures_networks import draw_networks
from experiments.papers.figures_settings import draw_queues, draw_settings
from experiments.papers.figures_tuning import draw_tuning

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

_KINDS: dict[str, Callable[[Results], SubFigure]] = {
    "figure2": draw_tuning,
    "figure3": draw_settings,
    "figure4": draw_queues,
    "defaults": draw_changes,
    "table2": draw_networks,
    "table3": draw_scores,
    "lag": draw_lag,
}


def draw(results: Results, path: Path) -> None:
    """Writes one PNG."""
    save(picture(results), path)


def picture(results: Results) -> SubFigure:
    """Figures 5 to 7 are learning curves, as is whatever else has been declared."""
    if finished(results):
        return _KINDS.get(results["name"], draw_curves)(results)
    figure = new_figure(results, 2.5)
    say_nothing(figure.add_subplot(), "no cell has finished")
    return figure
