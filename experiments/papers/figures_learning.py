"""Pictures about what was learned: figures 5, 6 and 7 and table 3 of the paper."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.papers.canvas import legend, new_figure, plain, say_nothing, tidy
from experiments.papers.cell_records import (
    PLAYERS,
    CellRecord,
    Results,
    axes_besides,
    finished,
    finished_by,
    groups,
    name_of,
    normalised,
    published_scores,
    score_curve,
    scores,
    values,
)
from experiments.statistics import Band, Estimate, band, estimate
from experiments.style import BAND, INK, LABEL, NOTE, OTHER, OURS, PAPER, SMALL, style_of
from experiments.text import in_short, number, unit_of
from ga3c.games.human_scores import random_and_human

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

# The paper's players: how they are marked, and how far under or above the row of their game.
PUBLISHED: dict[str, dict[str, Any]] = {
    "a3c": {"style": {"marker": "s", "color": OTHER, "markersize": 5}, "shift": -0.2},
    "ga3c": {"style": {"marker": "D", "color": PAPER, "markersize": 5}, "shift": 0.2},
}
ACROSS = 3  # panels beside each other
CLOSE = 0.065  # of a panel's height: labels that are nearer would cover each other
LEAST_RISE = 0.1  # of the way from a random player to a human that a panel shows, or chance would look like learning
FEW = 3  # settings whose single runs can still be followed in one panel


def draw_curves(results: Results) -> SubFigure:
    """Score over time, a panel for each game and a line for each setting; figure 5 has the steps at the right."""
    cells, others = finished(results), axes_besides(results, "game")
    games = finished_by(results, ["game"])
    across = min(ACROSS, len(games))
    down = -(-len(games) // across)
    figure = new_figure(results, 5.4 if down == 1 else 1.4 + 3.4 * down)
    panels = list(figure.subplots(down, across, squeeze=False, sharex=True).flat)
    styles = {key: style_of(at) for at, key in enumerate(groups(results["cells"], others))}
    unit, unit_name = unit_of(max((at for cell in cells for at, _ in score_curve(cell)), default=0.0))
    drawn: list[Band] = []
    for place, (axes, ((game,), of_game)) in enumerate(zip(panels, games.items(), strict=False)):
        tidy(axes, str(game) if game is not None else "", grid="both")
        labels = []
        settings = groups(of_game, others)
        for key, runs in settings.items():
            common = draw_runs(axes, runs, unit, styles[key], crowded=len(settings) > FEW)
            if common is not None:
                drawn.append(common)
                labels.append((float(common.middle[-1]), in_short(median(values(runs, "steps"))), styles[key]))
        _mark_random(axes, game)
        if not labels:
            say_nothing(axes, "no game has ended yet")
        elif results["name"] == "figure5":
            _write_steps(axes, labels)
        axes.set_xlim(left=0)
        if place + across >= len(games):
            axes.set_xlabel(f"{unit_name} of training")
            axes.tick_params(labelbottom=True)
        if place % across == 0:
            axes.set_ylabel("mean score of the games that ended", fontsize=LABEL)
    for axes in panels[len(games) :]:
        axes.set_axis_off()
    named = {name_of(runs[0], others): styles[key] for key, runs in finished_by(results, others).items()}
    _explain_curves(figure, named if others else {}, drawn)
    return figure


def _mark_random(axes: Axes, game: Any) -> None:
    """What a random player reaches, where that is known: what lies above it was learned."""
    if known := random_and_human(str(game)):
        random, human = known
        axes.axhline(random, color=INK, linewidth=0.9, linestyle=":")
        axes.annotate(
            "random player",
            (1, random),
            (-3, 3),
            ("axes fraction", "data"),
            "offset points",
            ha="right",
            fontsize=SMALL,
        )
        axes.set_ylim(top=max(axes.get_ylim()[1], random + LEAST_RISE * (human - random)))


def draw_runs(axes: Axes, runs: list[CellRecord], unit: float, style: dict[str, Any], *, crowded: bool) -> Band | None:
    """Each run as a thin line to its own end, and what they have in common as a thick one."""
    curves = [[(seconds / unit, score) for seconds, score in score_curve(cell)] for cell in runs]
    common = band(curves)
    if common is None:
        return None
    if common.low is not None and common.high is not None:
        for curve in curves:
            if curve and not crowded:
                axes.plot(*zip(*curve, strict=True), color=style["color"], linewidth=0.5, alpha=0.45)
        shade = 0.08 if crowded else 0.16
        axes.fill_between(common.at, common.low, common.high, color=style["color"], alpha=shade, linewidth=0)
    alone = style["marker"] if len(common.at) == 1 else None
    axes.plot(common.at, common.middle, color=style["color"], linestyle=style["linestyle"], marker=alone, linewidth=1.8)
    return common


def _write_steps(axes: Axes, labels: list[tuple[float, str, dict[str, Any]]]) -> None:
    """At the right, as high as the curves end, but apart from each other."""
    low, high = axes.get_ylim()
    last = -1.0
    for end, steps, style in sorted(labels, key=lambda label: label[0]):
        last = max((end - low) / (high - low), last + CLOSE)
        axes.text(1.01, last, steps, transform=axes.transAxes, va="center", fontsize=NOTE, color=style["color"])
    axes.text(1.01, max(last + CLOSE, 1.0), "steps", transform=axes.transAxes, va="center", fontsize=NOTE, color=INK)


def _explain_curves(figure: SubFigure, styles: dict[str, dict[str, Any]], drawn: list[Band]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], label=plain(name), color=style["color"], linestyle=style["linestyle"], linewidth=1.8)
        for name, style in styles.items()
    ]
    runs = max((one.runs for one in drawn), default=1)
    if runs > 1:
        meaning = "95 % interval" if any(one.is_interval for one in drawn) else "lowest to highest"
        words = f"interquartile mean of {runs} runs; shaded: {meaning}"
        handles.append(Patch(facecolor=BAND, label=words))
    if handles:
        legend(figure, handles=handles, loc="outside lower left", ncols=4)


def draw_scores(results: Results) -> SubFigure:
    """Table 3: human-normalised scores beside the paper's, and all scores as they are."""
    others = axes_besides(results, "game")
    parts = finished_by(results, ["game", *others])
    figure = new_figure(results, 2.5 + 0.42 * len(parts))
    chart, text = figure.subplots(1, 2, sharey=True)
    found: list[Estimate] = []
    marked = [0.0, 1.0]
    for row, ((game, *_), cells) in enumerate(parts.items()):
        if shares := normalised(game, scores(cells)):
            found.append(estimate([shares]))
            _draw_estimate(chart, row, found[-1], OURS)
        for player, mark in PUBLISHED.items():
            score = published_scores(results, game).get(player)
            share = normalised(game, [] if score is None else [score])
            marked += [*share, *shares]
            chart.plot(share, [row + mark["shift"]] * len(share), linestyle="", zorder=3, **mark["style"])
    for level, player in ((0, "random"), (1, "human")):
        chart.axvline(level, color=INK, linewidth=0.8, linestyle=":")
        chart.annotate(
            player, (level, 1), (0, 3), ("data", "axes fraction"), "offset points", ha="center", fontsize=NOTE
        )
    chart.set_xscale("symlog", linthresh=1, linscale=1.5)
    chart.set_xlim(1.1 * min(*marked, -0.2), 1.4 * max(marked))
    chart.xaxis.set_major_formatter("{x:g}")
    chart.set_yticks(range(len(parts)), [", ".join(map(str, key)) for key in parts])
    chart.set_ylim(len(parts) - 0.5, -0.5)
    chart.set_xlabel("human-normalised score (linear up to 1, then logarithmic)")
    tidy(chart, grid="both")
    _write_scores(text, parts, results)
    _explain_scores(figure, found)
    return figure


def _draw_estimate(axes: Axes, row: float, one: Estimate, colour: str) -> None:
    if one.low is not None and one.high is not None:
        axes.plot([one.low, one.high], [row, row], color=colour, linewidth=2.5, alpha=0.5, solid_capstyle="butt")
    axes.plot([one.value], [row], "o", color=colour, markersize=7, zorder=4)


def _meaning(found: list[Estimate]) -> str:
    """What dots and lines are, as far as there are any."""
    ends = [one for one in found if one.low is not None]
    if not ends:
        return "one run" if found else "no score that can be normalised"
    words = dict.fromkeys("95 % interval" if one.is_interval else "lowest to highest run" for one in ends)
    return f"interquartile mean; line: {', or '.join(words)}"


def _explain_scores(figure: SubFigure, found: list[Estimate]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=OURS, marker="o", markersize=7, linewidth=2.5, label=f"here: {_meaning(found)}")]
    handles += [
        Line2D([], [], linestyle="", label=f"{player.upper()}, the paper", **mark["style"])
        for player, mark in PUBLISHED.items()
    ]
    legend(figure, handles=handles, loc="outside lower left", ncols=3)


def _write_scores(axes: Axes, parts: dict[tuple[Any, ...], list[CellRecord]], results: Results) -> None:
    """The numbers beside their games."""
    columns = {"here": 0.16, "random": 0.36, "human": 0.54, "A3C": 0.75, "GA3C": 0.95}
    heads = [(at, 3, name) for name, at in columns.items()]
    heads += [(columns["here"], 18, "scores"), (columns["GA3C"], 18, "scores in the paper's table 3")]
    for at, points, words in heads:
        axes.annotate(words, (at, 1), (0, points), "axes fraction", "offset points", ha="right", fontsize=LABEL)
    for row, ((game, *_), cells) in enumerate(parts.items()):
        runs = scores(cells)
        shown = [number(estimate([runs]).value) if runs else "–"]
        for player in PLAYERS:
            score = published_scores(results, game).get(player)
            shown.append("–" if score is None else f"{score:,.0f}")
        for words, at in zip(shown, columns.values(), strict=True):
            axes.text(at, row, words, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=LABEL)
    axes.set_axis_off()
