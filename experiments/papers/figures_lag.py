"""The picture of policy lag by setting, with and without a correction, and of what the correction costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.papers.canvas import legend, new_figure, plain, tidy, whiskers
from experiments.papers.cell_records import Results, axes_besides, finished_by, groups, name_of, values
from experiments.statistics import spread
from experiments.style import INK, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure


def draw_lag(results: Results) -> SubFigure:
    """Mean and largest lag of each setting at the left, steps per second at the right."""
    others = axes_besides(results, "correction")
    parts = finished_by(results, others)
    corrections = groups(results["cells"], ["correction"])
    colours = {key: style_of(place)["color"] for place, key in enumerate(corrections)}
    figure = new_figure(results, 2.2 + (0.25 + 0.22 * len(corrections)) * len(parts))
    lag, speed = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(corrections)
    for row, cells in enumerate(parts.values()):
        for place, correction in enumerate(corrections):
            runs = groups(cells, ["correction"]).get(correction, [])
            at = row + (place - (len(corrections) - 1) / 2) * height
            _draw_bar(lag, at, values(runs, "lag_mean"), height, colours[correction])
            _draw_bar(speed, at, values(runs, "pps"), height, colours[correction])
            if largest := values(runs, "lag_max"):
                lag.plot([max(largest)], [at], "|", color=INK, markersize=9, markeredgewidth=1.8)
    lag.set_yticks(range(len(parts)), [plain(name_of(cells[0], others)) for cells in parts.values()])
    lag.set_ylim(len(parts) - 0.5, -0.5)
    lag.set_xlim(left=0)
    lag.set_xlabel("updates")
    tidy(lag, "policy lag: means (bars), largest (|)", grid="x")
    speed.set_xlabel("PPS (steps / s)")
    tidy(speed, "speed", grid="x")
    if len(corrections) > 1:
        names = [name_of(runs[0], ["correction"]) for runs in corrections.values()]
        _explain_colours(figure, dict(zip(names, colours.values(), strict=True)))
    return figure


def _draw_bar(axes: Axes, at: float, repeats: list[float], height: float, colour: str) -> None:
    """The median, with the spread of the repeats."""
    if repeats:
        figure = spread(repeats)
        axes.barh(at, figure["median"], height * 0.92, color=colour)
        if len(repeats) > 1:
            ends = whiskers([figure])
            axes.errorbar(figure["median"], at, xerr=ends, fmt="none", ecolor=INK, elinewidth=1, capsize=2)


def _explain_colours(figure: SubFigure, colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
    legend(figure, handles=handles, loc="outside lower left", ncols=len(handles))
