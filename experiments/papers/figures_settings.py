"""The pictures of figures 3 and 4: speed, queue and batch by NA, NP and NT."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.papers.canvas import bars, legend, new_figure, say_nothing, tidy, whiskers
from experiments.papers.cell_records import (
    THREADS,
    TOP,
    CellRecord,
    Results,
    axes_besides,
    finished,
    finished_by,
    fixed_settings,
    name_of,
    of_choice,
    top_settings,
    triple,
    tuned_cells,
    values,
)
from experiments.statistics import spread
from experiments.style import INK, MARKED, SHADES, SMALL, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

CHOICE: dict[str, Any] = {
    "linestyle": "",
    "marker": "*",
    "color": MARKED,
    "markersize": 14,
    "markeredgecolor": "white",
    "zorder": 4,
}
CHOICE_LINE: dict[str, Any] = {"color": MARKED, "linewidth": 1, "linestyle": "--"}


def _rows(results: Results, height: float) -> tuple[SubFigure, list[tuple[Axes, Axes, str, list[CellRecord]]]]:
    """Two panels beside each other for each combination of what is not NA, NP or NT."""
    axes = axes_besides(results, *THREADS, "tuner")
    parts = finished_by(results, axes)
    figure = new_figure(results, 1.2 + height * len(parts))
    panels = figure.subplots(len(parts), 2, squeeze=False)
    rows = [
        (left, right, name_of(cells[0], axes) + ": " if axes else "", cells)
        for (left, right), cells in zip(panels, parts.values(), strict=True)
    ]
    return figure, rows


def draw_settings(results: Results) -> SubFigure:
    """Figure 3: TPS of all settings by NA, and of the best three NP/NT of each NA as a share of the best."""
    figure, rows = _rows(results, 4.4)
    for left, right, name, cells in rows:
        fixed = fixed_settings(cells)
        if not fixed:
            say_nothing(left, "no setting was measured")
            say_nothing(right, "no setting was measured")
            continue
        tuned = [(cell["figures"]["agents"], of_choice(cell) or 0.0) for cell in tuned_cells(cells)]
        _draw_all_settings(left, fixed)
        if tuned:
            left.plot(*zip(*tuned, strict=True), **CHOICE)
        tidy(left, f"{name}TPS by NA, a line for each NP/NT", grid="both")
        best = max(median(values(runs, "tps")) for runs in fixed.values())
        _draw_top(right, cells, {key: [tps / best for tps in values(runs, "tps")] for key, runs in fixed.items()})
        for _, tps in tuned:
            right.axhline(tps / best, **CHOICE_LINE)
        right.set_ylabel("TPS / best TPS")
        tidy(right, f"{name}the top {TOP} NP/NT of each NA; 1 is the best setting")
    _explain_settings(figure, finished(results))
    return figure


def _draw_all_settings(axes: Axes, fixed: dict[tuple[Any, ...], list[CellRecord]]) -> None:
    threads: dict[tuple[Any, ...], dict[int, list[float]]] = {}
    for (agents, *both), runs in fixed.items():
        threads.setdefault(tuple(both), {})[agents] = values(runs, "tps")
    styles = _thread_styles(list(threads))
    for place, (pair, by_agents) in enumerate(sorted(threads.items())):
        counts = sorted(by_agents)
        figures = [spread(by_agents[count]) for count in counts]
        # Moved a little, so that the spreads of lines that meet can be told apart.
        moved = [count * 1.12 ** ((place - (len(threads) - 1) / 2) / len(threads)) for count in counts]
        middle = [one["median"] for one in figures]
        axes.errorbar(moved, middle, whiskers(figures), **styles[pair], markersize=4, linewidth=1.3, elinewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({agents for by_agents in threads.values() for agents in by_agents}))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_xlabel("agents NA")
    axes.set_ylabel("TPS (updates / s)")
    axes.set_ylim(bottom=0)


def _thread_styles(pairs: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The colour says NP, the line and its mark NT."""
    predictors, trainers = (sorted({pair[place] for pair in pairs}) for place in (0, 1))
    return {
        pair: {**style_of(trainers.index(pair[1])), "color": style_of(predictors.index(pair[0]))["color"]}
        for pair in sorted(pairs)
    }


def _explain_settings(figure: SubFigure, cells: list[CellRecord]) -> None:
    """Under both panels: what the lines of the left one are, and the bars of the right one."""
    from matplotlib.lines import Line2D

    pairs = list(dict.fromkeys(setting[1:] for setting in fixed_settings(cells)))
    lines: list[Any] = [
        Line2D([], [], label=f"NP/NT {pair[0]}/{pair[1]}", markersize=4, linewidth=1.3, **style)
        for pair, style in _thread_styles(pairs).items()
    ]
    ranks = _rank_patches()
    if chosen := _choices(cells):
        lines.append(Line2D([], [], label=f"tuner's choice: {chosen}", **CHOICE))
        ranks.append(Line2D([], [], label="tuner's choice", **CHOICE_LINE))
    legend(figure, handles=lines, loc="outside lower left", ncols=max(4, len({pair[0] for pair in pairs})))
    legend(figure, handles=ranks, loc="outside lower right", ncols=2)


def _choices(cells: list[CellRecord]) -> str:
    """What the tuner of each run with one ended with; empty where there was none."""
    return ", ".join(dict.fromkeys(triple(cell["figures"]) for cell in tuned_cells(cells)))


def _rank_patches() -> list[Any]:
    from matplotlib.patches import Patch

    names = ("most TPS", "second", "third of this NA")
    return [Patch(color=shade, label=name) for shade, name in zip(SHADES, names, strict=True)]


def _draw_top(axes: Axes, cells: list[CellRecord], figures: dict[tuple[Any, ...], list[float]]) -> None:
    """Bars for the best of each NA, from the left in the order of their TPS, with their NP/NT in them."""
    tops = top_settings(cells)
    width = 0.8 / TOP
    highest = max((max(runs) for runs in figures.values() if runs), default=0.0)
    for column, top in enumerate(tops.values()):
        for rank, (setting, _) in enumerate(top):
            place, runs = column + (rank - (len(top) - 1) / 2) * width, figures.get(setting, [])
            bars(axes, [place], [runs], width * 0.94, color=SHADES[rank])
            covered = bool(runs) and median(runs) > 0.06 * highest  # by a bar that is high enough for the words
            axes.annotate(
                f"{setting[1]}/{setting[2]}",
                (place, 0),
                (0, 4),
                textcoords="offset points",
                ha="center",
                fontsize=SMALL,
                color="white" if rank == 0 and covered else INK,
            )
    axes.set_xticks(range(len(tops)), [f"{agents}" for agents in tops])
    axes.set_xlim(-0.6, len(tops) - 0.4)
    axes.set_xlabel("agents NA (in the bars: NP/NT)")
    axes.margins(y=0.12)


def draw_queues(results: Results) -> SubFigure:
    """Figure 4: how long the training queue and how large prediction batches were with the top settings of figure 3."""
    figure, rows = _rows(results, 4.0)
    for left, right, name, cells in rows:
        shown = (
            (left, "training_queue", "training queue", "experiences that wait, on average"),
            (right, "prediction_batch", "prediction batch", "observations, on average"),
        )
        fixed = fixed_settings(cells)
        for axes, figure_name, title, unit in shown:
            if not fixed:
                say_nothing(axes, "no setting was measured")
                continue
            _draw_top(axes, cells, {setting: values(runs, figure_name) for setting, runs in fixed.items()})
            for cell in tuned_cells(cells):
                if (chosen := of_choice(cell, figure_name)) is not None:
                    axes.axhline(chosen, **CHOICE_LINE)
            axes.set_ylabel(unit)
            tidy(axes, f"{name}{title} of the top {TOP} NP/NT of each NA")
    _explain_queues(figure, finished(results))
    return figure


def _explain_queues(figure: SubFigure, cells: list[CellRecord]) -> None:
    from matplotlib.lines import Line2D

    handles = _rank_patches()
    if chosen := _choices(cells):
        handles.append(Line2D([], [], label=f"tuner's choice: {chosen}", **CHOICE_LINE))
    legend(figure, handles=handles, loc="outside lower left", ncols=4)
