"""The picture of table 2: GA3C beside A3C for each network."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.canvas import OTHER, OURS, PAPER, bars, legend, new_figure, say_nothing, tidy, whiskers
from experiments.outcomes import Pair, Results, pairs, published_ratio, values
from experiments.statistics import spread
from tuner.plots import INK
from tuner.story import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

ASIDE = 0.2  # of the space of a network: how far the bars of the two algorithms are from its middle
BARS: dict[str, dict[str, Any]] = {
    "GA3C": {"color": OURS},
    "A3C": {"color": OTHER, "hatch": "//", "edgecolor": "white"},
}
DIAMONDS: dict[str, Any] = {"color": PAPER, "marker": "D", "markersize": 6, "markeredgecolor": "white", "zorder": 4}


def draw_networks(results: Results) -> SubFigure:
    """Table 2: PPS of both algorithms for each network, their ratio, and how busy the machine was."""
    found = pairs(results)
    figure = new_figure(results, 8)
    (speed, ratio), (cpu, device) = figure.subplots(2, 2, height_ratios=(1.5, 1))
    _draw_bars(speed, found, "pps")
    speed.set_yscale("log")
    speed.yaxis.set_major_formatter("{x:,g}")
    _write_speeds(speed, found)
    speed.set_ylabel("PPS (steps / s)")
    tidy(speed, "steps per second; above: GA3C / A3C")
    legend(speed, loc="upper right", ncols=2)
    _draw_ratios(ratio, found, results)
    _draw_busy(cpu, found, "cpu", "CPU: share of all cores that worked", results)
    _draw_busy(device, found, "device", "device: share of the time that it worked", results)
    return figure


def _draw_bars(axes: Axes, found: list[Pair], name: str) -> None:
    for shift, (label, style) in zip((-ASIDE, ASIDE), BARS.items(), strict=True):
        runs = [values(pair.ours if label == "GA3C" else pair.theirs, name) for pair in found]
        bars(axes, [place + shift for place in range(len(found))], runs, 1.9 * ASIDE, label=label, **style)
    axes.set_xticks(range(len(found)), [pair.name for pair in found])
    axes.set_xlim(-0.5, len(found) - 0.5)


def _write_speeds(axes: Axes, found: list[Pair]) -> None:
    """The medians on their bars, and the ratio above both."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 3)
    for place, pair in enumerate(found):
        speeds = [values(pair.ours, "pps"), values(pair.theirs, "pps")]
        for shift, runs in zip((-ASIDE, ASIDE), speeds, strict=True):
            if runs:
                _write_above(axes, place + shift, max(runs), 4, number(median(runs)), 8)
        if ratios := pair.ratios():
            _write_above(axes, place, max(speeds[0] + speeds[1]), 17, f"{median(ratios):.1f}×", 10)


def _write_above(axes: Axes, place: float, top: float, points: float, words: str, size: float) -> None:
    axes.annotate(words, (place, top), (0, points), textcoords="offset points", ha="center", fontsize=size)


def _draw_ratios(axes: Axes, found: list[Pair], results: Results) -> None:
    """By network, beside the paper's: on a device that is faster than the CPU the ratio grows with the network."""
    tidy(axes, "GA3C / A3C: median, lowest to highest pair of runs")
    here = [(place, spread(ratios)) for place, pair in enumerate(found) if (ratios := pair.ratios())]
    published = [
        (place, ratio) for place, pair in enumerate(found) if (ratio := published_ratio(results, pair.network))
    ]
    if not here and not published:
        say_nothing(axes, "no pair of runs")
        return
    if here:
        figures = [one for _, one in here]
        medians = [one["median"] for one in figures]
        places = [place for place, _ in here]
        axes.errorbar(places, medians, whiskers(figures), fmt="o-", color=OURS, capsize=3, label="here")
    if published:
        system = results["paper"].get("system")
        label = f"the paper ({system})" if system else "the paper"
        axes.plot(*zip(*published, strict=True), linestyle="--", label=label, **DIAMONDS)
    axes.axhline(1, color=INK, linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}×")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}×" if f"{value:e}"[0] in "25" else "")
    axes.set_xticks(range(len(found)), [pair.name for pair in found])
    axes.set_xlim(-0.5, len(found) - 0.5)
    legend(axes, loc="upper left")


def _draw_busy(axes: Axes, found: list[Pair], name: str, title: str, results: Results) -> None:
    measured = any(values(pair.ours + pair.theirs, name) for pair in found)
    tidy(axes, title if measured else f"{title}: not measured here")
    _draw_bars(axes, found, name)
    paper = results["paper"].get("networks", {})
    published = [(at - ASIDE, paper[pair.network][name]) for at, pair in enumerate(found) if pair.network in paper]
    if published:
        axes.plot(*zip(*published, strict=True), linestyle="", label="GA3C in the paper", **DIAMONDS)
    axes.set_ylim(0, 1.25)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value <= 1 else "")
    if measured or published:
        legend(axes, loc="upper right", ncols=3)
