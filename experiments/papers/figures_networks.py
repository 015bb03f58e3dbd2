"""The picture of table 2: GA3C beside A3C for each network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.papers.canvas import bars, legend, new_figure, say_nothing, tidy, whiskers
from experiments.papers.cell_records import (
    CellRecord,
    Pair,
    Results,
    pairs,
    published,
    published_ratios,
    speed_ratios,
    values,
)
from experiments.statistics import spread
from experiments.style import INK, MARKED, OTHER, OURS, PAPER, SMALL
from experiments.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

BATCHED = "GA3C, large batches"
ASIDE = 0.27  # of the space of a network: from one of what is compared to the next
BARS: dict[str, dict[str, Any]] = {
    "GA3C": {"color": OURS},
    "A3C": {"color": OTHER, "hatch": "//", "edgecolor": "white"},
    BATCHED: {"color": MARKED, "hatch": "..", "edgecolor": "white"},
}
# On a logarithmic axis the length of a bar says nothing, so speeds are marks.
MARKS: dict[str, dict[str, Any]] = {
    "GA3C": {"color": OURS, "fmt": "o"},
    "A3C": {"color": OTHER, "fmt": "s"},
    BATCHED: {"color": MARKED, "fmt": "^"},
}
DIAMONDS: dict[str, Any] = {"color": PAPER, "marker": "D", "markersize": 6, "markeredgecolor": "white", "zorder": 4}


def draw_networks(results: Results) -> SubFigure:
    """Table 2: PPS of both algorithms for each network, their ratio, and how busy the machine was."""
    found = pairs(results)
    figure = new_figure(results, 8)
    (speed, ratio), (cpu, device) = figure.subplots(2, 2, height_ratios=(1.5, 1))
    _draw_speeds(speed, found)
    _draw_ratios(ratio, found, results)
    _draw_busy(cpu, found, "cpu", "CPU: share of all cores that worked", results)
    _draw_busy(device, found, "device", "device: share of the time that it worked", results)
    return figure


def _draw_speeds(axes: Axes, found: list[Pair]) -> None:
    for label, style in MARKS.items():
        runs = [values(_cells(pair, label), "pps") for pair in found]
        places = [place + _aside(label) for place, repeats in enumerate(runs) if repeats]
        figures = [spread(repeats) for repeats in runs if repeats]
        if figures:
            medians = [figure["median"] for figure in figures]
            axes.errorbar(places, medians, whiskers(figures), label=label, markersize=8, capsize=3, **style)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_ylabel("PPS (steps / s)")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 2)  # room for the legend
    _name_networks(axes, found)
    tidy(axes, "steps per second")
    legend(axes, loc="upper right", ncols=3)


def _cells(pair: Pair, label: str) -> list[CellRecord]:
    return {"GA3C": pair.ours, "A3C": pair.theirs, BATCHED: pair.batched}[label]


def _aside(label: str) -> float:
    return (list(MARKS).index(label) - 1) * ASIDE


def _name_networks(axes: Axes, found: list[Pair]) -> None:
    axes.set_xticks(range(len(found)), [pair.name for pair in found])
    axes.set_xlim(-0.5, len(found) - 0.5)


def _draw_bars(axes: Axes, found: list[Pair], name: str) -> None:
    for label, style in BARS.items():
        runs = [values(_cells(pair, label), name) for pair in found]
        places = [place + _aside(label) for place in range(len(found))]
        bars(axes, places, runs, 0.95 * ASIDE, label=label, **style)
    _name_networks(axes, found)


def _write(axes: Axes, words: str, point: tuple[float, float], points_above: float) -> None:
    axes.annotate(words, point, (0, points_above), textcoords="offset points", ha="center", fontsize=SMALL)


def _draw_ratios(axes: Axes, found: list[Pair], results: Results) -> None:
    """By network, beside the paper's: on a device that is faster than the CPU the ratio grows with the network."""
    tidy(axes, "GA3C / A3C: median, lowest to highest pair of runs")
    ours = {
        label: [
            (at, spread(ratios))
            for at, pair in enumerate(found)
            if (ratios := speed_ratios(_cells(pair, label), pair.theirs))
        ]
        for label in ("GA3C", BATCHED)
    }
    paper = {
        system: [(place, column[pair.network]) for place, pair in enumerate(found) if pair.network in column]
        for system, column in published_ratios(results).items()
    }
    if not any(ours.values()) and not any(paper.values()):
        say_nothing(axes, "no pair of runs")
        return
    for label, here in ours.items():
        if here:
            figures = [one for _, one in here]
            medians = [one["median"] for one in figures]
            style = {**MARKS[label], "fmt": f"{MARKS[label]['fmt']}-"}
            name = "here" if label == "GA3C" else "here, large batches"
            axes.errorbar([place for place, _ in here], medians, whiskers(figures), capsize=3, label=name, **style)
            for place, one in here:
                words, above = f"{number(one['median'])}×", label == BATCHED
                _write(axes, words, (place, one["high" if above else "low"]), 5 if above else -13)
    for (system, known), marker in zip(paper.items(), "D^v", strict=False):
        if known:
            line = "--" if len(known) == len(found) else ""  # none through networks of which it says nothing
            style = {**DIAMONDS, "marker": marker, "linestyle": line, "linewidth": 1}
            axes.plot(*zip(*known, strict=True), label=f"the paper, {system}", **style)
    axes.axhline(1, color=INK, linewidth=0.8)
    axes.set_yscale("log")
    axes.margins(y=0.12)  # for the words under the lowest
    axes.yaxis.set_major_formatter("{x:g}×")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}×" if f"{value:e}"[0] in "25" else "")
    _name_networks(axes, found)
    legend(axes, loc="upper left")


def _draw_busy(axes: Axes, found: list[Pair], name: str, title: str, results: Results) -> None:
    measured = any(values(pair.ours + pair.theirs, name) for pair in found)
    tidy(axes, title if measured else f"{title}: not measured here")
    _draw_bars(axes, found, name)
    system, column = next(iter(published(results, f"ga3c_{name}").items()), ("", {}))
    marked = [(at + _aside("GA3C"), column[pair.network]) for at, pair in enumerate(found) if pair.network in column]
    if marked:
        axes.plot(*zip(*marked, strict=True), linestyle="", label=f"GA3C in the paper, {system}", **DIAMONDS)
    axes.set_ylim(0, 1.4)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value <= 1 else "")
    if measured or marked:
        legend(axes, loc="upper right", ncols=2)
