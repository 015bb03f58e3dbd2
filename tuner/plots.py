"""The picture of a replay: Figure 2 of the paper with every decision, the policy lag and the landscape under it."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tuner.heat import Cell, Heat
from tuner.panels import LAG, PANELS, TPS, Panel
from tuner.story import VERDICTS, Story, began, closing_sentence, printable, time_unit, tps_of
from tuner.style import DPI, GRID, INK, MARKS, PALE, QUIET, RUNS, SOFT, WARNING, WIDTH
from tuner.text import number
from tuner.trace import Trial

if TYPE_CHECKING:  # matplotlib takes a second to import, so it is not before a picture is made
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEAT_COLUMNS = 2  # heat maps beside each other
LEGEND_COLUMNS = 3
TITLE_COLUMNS = 140  # characters


def draw(stories: Sequence[Story], heats: Sequence[Heat | None]) -> bytes:
    """A PNG of one run with all its trials, or of several runs over each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    known = [(story, heat) for story, heat in zip(stories, heats, strict=True) if heat is not None and heat.cells]
    sentences = [closing_sentence(story) for story in stories] + [note for story in stories for note in story.notes]
    title = [line for sentence in sentences for line in textwrap.wrap(_plain(sentence), TITLE_COLUMNS)]
    legend = _legend(stories)
    head = 0.35 + 0.2 * len(title) + 0.2 * -(-len(legend) // LEGEND_COLUMNS)
    panels = 1.25 * sum(panel.height for panel in PANELS)
    across = HEAT_COLUMNS if len(known) > 1 else 1
    heat_height = max((1.7 + 0.2 * len(heat.rows) for _, heat in known), default=0.0)
    figure = Figure((WIDTH, head + panels + 0.6 + heat_height * -(-len(known) // across)), DPI, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.02, 1 - 0.1 / figure.get_figheight(), "\n".join(title), va="top", fontsize=10.5, color=INK)
    _draw_legend(figure, legend, head)
    _draw_panels(figure, stories, head, panels)
    for index, (story, heat) in enumerate(known):
        row, column = divmod(index, across)
        width, top = 0.9 / across, head + panels + 1.0 + row * heat_height
        box = _box(figure, 0.08 + column * (width + 0.03), top, width - 0.06, heat_height - 1.1)
        _draw_heat(figure.add_axes(box), figure, heat, story, alone=len(stories) == 1)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name in letters that the font lacks has boxes in the picture
        figure.savefig(file, format="png")
    return file.getvalue()


def _plain(text: str) -> str:
    """Names and reasons are no formulas, whatever dollars are in them."""
    return printable(text).replace("$", r"\$")


def _box(figure: Figure, left: float, top: float, width: float, height: float) -> tuple[float, float, float, float]:
    """A place on the figure: across as a share, down in inches from its top."""
    full = figure.get_figheight()
    return left, 1 - (top + height) / full, width, height / full


def _draw_panels(figure: Figure, stories: Sequence[Story], head: float, height: float) -> None:
    unit, unit_name = time_unit(stories)
    inch = height / sum(panel.height for panel in PANELS)
    top, first = head, None
    for panel in PANELS:
        axes = figure.add_axes(_box(figure, 0.08, top, 0.9, panel.height * inch - 0.15), sharex=first)
        first = first or axes
        top += panel.height * inch
        _prepare(axes, panel)
        for index, story in enumerate(stories):
            if len(stories) == 1:
                _draw_alone(axes, panel, story, unit)
            else:
                _draw_beside(
                    axes,
                    panel,
                    story,
                    unit,
                    RUNS[index % len(RUNS)],
                    index - (len(stories) - 1) / 2,
                    _most(panel, stories),
                )
        _limit(axes, panel, stories)
        axes.tick_params(labelbottom=panel is PANELS[-1])
    axes.set_xlabel(f"{unit_name} of the run")
    axes.set_xlim(left=0)


def _prepare(axes: Axes, panel: Panel) -> None:
    axes.set_ylabel(panel.label, fontsize=9)
    axes.grid(True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _limit(axes: Axes, panel: Panel, stories: Sequence[Story]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(4, integer=panel.knob is not None, min_n_ticks=2))
    if panel.knob:
        axes.set_ylim(0.4, _most(panel, stories) * 1.06 + 0.4)
    else:
        axes.set_ylim(0, max(axes.get_ylim()[1] * 1.04, 1e-3))
    if not any(story.trials for story in stories):
        axes.text(0.5, 0.5, "no window was measured", transform=axes.transAxes, ha="center", va="center", color=SOFT)


def _most(panel: Panel, stories: Sequence[Story]) -> int:
    """The largest number of agents, predictors or trainers that has to fit in."""
    if panel.knob is None:
        return 0
    trials = [trial for story in stories for trial in story.trials]
    return max([2, *(panel.knob(each) for t in trials for each in (t.before, t.proposed, t.measurement.setting))])


def _draw_alone(axes: Axes, panel: Panel, story: Story, unit: float) -> None:
    """What ran as a line, the setting in force as a pale one, and every trial marked."""
    if panel.knob:
        axes.plot(*_held(story, panel.knob, unit), color=PALE, linewidth=5, solid_capstyle="butt", alpha=0.7)
    axes.plot(*_ran(story, panel.value, unit), color=INK, linewidth=1.0)
    if panel is LAG:
        axes.plot(*_ran(story, _lag_max, unit), color="#999999", linewidth=0.9, linestyle=":")
        if limit := story.trace.plan.lag_limit:
            axes.axhline(limit, color=WARNING, linewidth=1, linestyle="--")
            axes.annotate(
                "limit",
                (1, limit),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                fontsize=8,
                color=WARNING,
            )
    for trial in story.trials:
        if trial.number in story.simulated:
            axes.axvspan(began(trial) / unit, trial.seconds / unit, color="#f1e3b5", alpha=0.6, linewidth=0, zorder=0)
    # Marks of a long run would cover each other: those that changed nothing become small, the others are on top.
    small = min(1.0, max(0.4, 150 / max(1, len(story.trials))))
    for order, (verdict, style) in enumerate(MARKS.items()):
        marked = [trial for trial in story.trials if trial.decision.verdict == verdict and _is_marked(panel, trial)]
        sized = {**style, "markersize": style["markersize"] * (small if verdict in QUIET else 1)}
        axes.plot(
            [_middle(each) / unit for each in marked],
            [_marked_at(panel, each) for each in marked],
            linestyle="",
            zorder=3 + 0.01 * order,
            clip_on=False,
            **sized,
        )


def _draw_beside(
    axes: Axes, panel: Panel, story: Story, unit: float, style: dict[str, Any], place: float, most: float
) -> None:
    """One of several runs: the line of what it held or measured, and marks where it changed its mind.

    Whole numbers are moved a little by the run's place among the others, or the last run would hide the ones before.
    """
    shift = 0.012 * most * place if panel.knob else 0.0
    line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.5, "alpha": 0.9}
    times, values = _held(story, panel.knob, unit) if panel.knob else _ran(story, panel.value, unit)
    axes.plot(times, [value + shift for value in values], **line)
    if not panel.knob and panel is not TPS:
        return
    for verdict, filled in (("accepted", True), ("reopened", True), ("failed", False)):
        marked = [trial for trial in story.trials if trial.decision.verdict == verdict and _is_marked(panel, trial)]
        axes.plot(
            [_middle(each) / unit for each in marked],
            [_marked_at(panel, each) + shift for each in marked],
            linestyle="",
            clip_on=False,
            marker=style["marker"],
            markersize=8 if verdict == "reopened" else 5,
            color=style["color"],
            markerfacecolor=style["color"] if filled else "white",
        )


def _is_marked(panel: Panel, trial: Trial) -> bool:
    """TPS has a mark for each trial; the three numbers where the trial was about them, or about all of them."""
    if panel is TPS:
        return True
    if panel.knob is None:
        return False
    if trial.decision.verdict == "reopened":
        return True
    return panel.knob(trial.proposed) != panel.knob(trial.before)


def _marked_at(panel: Panel, trial: Trial) -> float:
    return float(panel.knob(trial.proposed)) if panel.knob else tps_of(trial) or 0.0


def _middle(trial: Trial) -> float:
    return trial.seconds - trial.window / 2


def _ran(story: Story, value: Callable[[Trial], float | None], unit: float) -> tuple[list[float], list[float]]:
    """A step for each window. What is not known leaves a gap, as does a break in the run."""
    times, values, last = [], [], None
    for trial in story.trials:
        start = began(trial)
        if last is not None and start > last + trial.window:
            times.append(last / unit)
            values.append(math.nan)
        known = value(trial)
        if trial.number in story.simulated and value in (LAG.value, _lag_max):
            known = None
        times += [start / unit, trial.seconds / unit]
        values += [math.nan if known is None else known] * 2
        last = trial.seconds
    return times, values


def _held(story: Story, knob: Callable[[Any], int], unit: float) -> tuple[list[float], list[float]]:
    """The incumbent's number over time."""
    times, values = [], []
    for trial in story.trials:
        times += [began(trial) / unit, trial.seconds / unit]
        values += [float(knob(trial.before))] * 2
    if story.trials:
        times.append(times[-1])
        values.append(float(knob(story.final)))
    return times, values


def _lag_max(trial: Trial) -> float | None:
    return None if trial.measurement.problem else trial.measurement.lag_max


def _legend(stories: Sequence[Story]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if len(stories) > 1:
        for index, story in enumerate(stories):
            handles.append(Line2D([], [], label=_plain(story.name), linewidth=1.5, **RUNS[index % len(RUNS)]))
        handles.append(
            Line2D(
                [],
                [],
                label="mark: accepted (large: reopened, hollow: failed)",
                linestyle="",
                marker="o",
                color=SOFT,
            )
        )
    else:
        (story,) = stories
        found = {trial.decision.verdict for trial in story.trials}
        for verdict, style in MARKS.items():
            if verdict in found:
                handles.append(Line2D([], [], label=VERDICTS[verdict], linestyle="", **style))
        handles.append(Line2D([], [], label="what ran (lag: mean, dotted: largest)", color=INK, linewidth=1))
        handles.append(Line2D([], [], label="the setting in force", color=PALE, linewidth=5, alpha=0.7))
        if story.simulated:
            handles.append(Patch(facecolor="#f1e3b5", label="simulated: the run never measured this setting"))
    return handles


def _draw_legend(figure: Figure, handles: list[Any], head: float) -> None:
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.07, 1 - (head - 0.05) / figure.get_figheight()),
        ncols=LEGEND_COLUMNS,
        fontsize=8.5,
        frameon=False,
        borderaxespad=0,
    )


def _draw_heat(axes: Axes, figure: Figure, heat: Heat, story: Story, *, alone: bool) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    shades = Normalize(0, max(max(cell.tps for cell in heat.cells), 1e-9))
    colours = colormaps["viridis"]
    for cell in heat.cells:
        _draw_cell(axes, cell, colours(shades(cell.tps)))
    for setting, line in ((story.start, ":"), (story.final, "-")):
        if place := heat.place(setting):
            corner = (place[0] - 0.5, place[1] - 0.5)
            axes.add_patch(
                Rectangle(corner, 1, 1, fill=False, edgecolor="#d4006a", linewidth=2.2, linestyle=line, zorder=4)
            )
    axes.set_xlim(-0.5, len(heat.columns) - 0.5)
    axes.set_ylim(len(heat.rows) - 0.5, -0.5)
    axes.set_xticks(
        range(len(heat.columns)), [span(*column) for column in heat.columns], fontsize=8, rotation=0 if alone else 90
    )
    axes.set_yticks(range(len(heat.rows)), [f"{np} / {nt}" for np, nt in heat.rows], fontsize=8)
    axes.tick_params(length=0)
    axes.set_xlabel("agents NA", fontsize=9)
    axes.set_ylabel("NP / NT", fontsize=9)
    explained = "number: windows measured; hatched: simulated; outlined: start (dotted) and end"
    axes.set_title(
        f"TPS by setting ({explained})" if alone else f"{_plain(story.name)}: TPS by setting",
        fontsize=9.5,
        loc="left",
    )
    bar = figure.colorbar(ScalarMappable(shades, colours), ax=axes, fraction=0.03, pad=0.015)
    bar.ax.tick_params(labelsize=8)


def _draw_cell(axes: Axes, cell: Cell, colour: tuple[float, float, float, float]) -> None:
    from matplotlib.patches import Rectangle

    corner = (cell.column - 0.5, cell.row - 0.5)
    if not cell.windows:
        pale = (*colour[:3], 0.3)
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=pale, edgecolor="#ffffff", hatch="////", linewidth=0))
        return
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor="white", linewidth=0.8, zorder=3))
    dark = 0.3 * colour[0] + 0.6 * colour[1] + 0.1 * colour[2] < 0.5
    axes.text(
        cell.column,
        cell.row,
        number_of(cell.windows),
        ha="center",
        va="center",
        fontsize=7.5,
        zorder=5,
        color="white" if dark else "black",
    )


def number_of(windows: int) -> str:
    return f"{windows}" if windows < 1000 else f"{number(windows / 1000)}k"


def span(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least}–{most}"
