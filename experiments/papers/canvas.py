"""What the pictures of all experiments have in common: axes, bars, and a frame that says what they are of."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.papers.cell_records import Results, failures
from experiments.statistics import spread
from experiments.style import DPI, GRID, HEAD, INK, LABEL, NOTE, SOFT, TITLE, WIDTH

if TYPE_CHECKING:  # matplotlib takes a second to import, so it is not before a picture is made
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

COLUMNS = 150  # characters of the lines above and under the panels
FAILURES = 6  # named in full; of more, their number


def new_figure(results: Results, height: float) -> SubFigure:
    """A place for panels, so many inches high: above it is what they are of, under it what is missing in them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    notes = _notes(results)
    below = 0.15 + 0.17 * len(notes)
    figure = Figure((WIDTH, height + below), DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels: SubFigure
    panels, rest = figure.subfigures(2, 1, squeeze=False, height_ratios=(height, below))[:, 0]
    panels.suptitle(_title(results), x=0.01, ha="left", fontsize=HEAD, color=INK)
    rest.text(0.01, 0.95, "\n".join(notes), va="top", fontsize=NOTE, color=INK)
    return panels


def save(panels: SubFigure, path: Path) -> None:
    panels.get_figure(root=True).savefig(path, format="png")


def _title(results: Results) -> str:
    hardware = results["hardware"]
    budget = f"{results['budget']} budget"
    if results["budget"] == "toy":
        budget = "TOY BUDGET: it shows that the experiment runs, its numbers say nothing"
    machine = f"{hardware['cores']} cores of {hardware['cpu']}, {results['date'][:10]}"
    return f"{plain(results['title'])}\n{budget} · {plain(machine)}"


def _notes(results: Results) -> list[str]:
    notes = []
    if says := results["paper"].get("says"):
        notes += textwrap.wrap(f"The paper: {says}", COLUMNS)
    failed = failures(results)
    if failed:
        notes.append(f"Left out, since they failed ({len(failed)} of {len(results['cells'])} cells):")
        notes += [textwrap.shorten(one, COLUMNS, placeholder=" …") for one in failed[:FAILURES]]
        if len(failed) > FAILURES:
            notes.append(f"and {len(failed) - FAILURES} more")
    if results.get("unfinished"):
        left = results["unfinished"]
        notes.append(f"{left} cells have not been run yet." if left > 1 else "1 cell has not been run yet.")
    return [plain(note) for note in notes]


def plain(text: str) -> str:
    """Names and errors are no formulas, whatever dollars are in them."""
    return text.replace("$", r"\$")


def tidy(axes: Axes, title: str = "", *, grid: str = "y") -> None:
    axes.grid(True, axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=LABEL, length=3)
    axes.set_title(plain(title), loc="left", fontsize=TITLE)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def say_nothing(axes: Axes, why: str) -> None:
    """A panel without data says so, instead of looking like zero."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=SOFT)
    axes.set_xticks([])
    axes.set_yticks([])


def whiskers(figures: Sequence[dict[str, Any]]) -> list[list[float]]:
    """How far the lowest and the highest of their repeats are from the medians."""
    return [
        [figure["median"] - figure["low"] for figure in figures],
        [figure["high"] - figure["median"] for figure in figures],
    ]


def bars(axes: Axes, places: Sequence[float], runs: Sequence[Sequence[float]], width: float, **style: Any) -> None:
    """Medians as bars, with the spread of their repeats; nothing where there are none."""
    at = [place for place, repeats in zip(places, runs, strict=True) if repeats]
    figures = [spread(repeats) for repeats in runs if repeats]
    medians = [figure["median"] for figure in figures]
    if figures:
        axes.bar(at, medians, width, **style)
    if any(len(figure["repeats"]) > 1 for figure in figures):
        axes.errorbar(at, medians, whiskers(figures), fmt="none", ecolor=INK, elinewidth=1, capsize=2)


def legend(place: Axes | SubFigure, **options: Any) -> None:
    place.legend(fontsize=NOTE, frameon=False, **options)
