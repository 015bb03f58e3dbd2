"""The live log: one line per interval for files and pipes, or a panel with the same figures on a terminal.

A terminal that went away is no error.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Sequence
from typing import IO, Any, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from ga3c.memory.figures import DROPPED, FIGURES, NETWORK, Figure
from ga3c.settings.config import Config

MISSING = "–"
FOOTER = "Ctrl-C stops: checkpoint and summary are written"
NAME_STYLE, VALUE_STYLE, LABEL_STYLE, LIMIT_STYLE = "bright_black", "bold", "cyan", "bold yellow"

# Columns of the panel; wider, the eye would lose the line between a name and its figure.
PANEL_WIDTH, FRAME, GAP = 80, 4, 2
LABEL_WIDTH, FIGURE_WIDTH, STAGE_WIDTH = 10, 20, 7  # a figure holds "steps 1,000,000,000"

LEFT = Figure("seconds_left", lambda window: None, "until the nearest maximum", ("Time", "left"), style="clock")
STYLES = {figure.name: figure.style for figure in FIGURES}
NOT_THERE = object()
STAGES = {
    "agents": ("NA", "agents"),
    "predictors": ("NP", "predictors", "prediction_queue", "prediction_batch", "predictor_busy"),
    "trainers": ("NT", "trainers", "training_queue", "training_batch", "trainer_busy"),
}
# What a small terminal does without, the first one first.
EXTRAS = (
    "gap",
    "bar gap",
    "Loss",
    NETWORK,
    DROPPED,
    "Policy lag",
    "Stage",
    "Limit",
    "bar",
    "Time",
    "Speed",
    "Progress",
)


def make_display(
    config: Config, where: str, stream: TextIO, figures: Sequence[Figure] = FIGURES, footer: str = FOOTER
) -> PanelDisplay | PlainDisplay:
    """A panel if ``stream`` is a terminal that a person looks at, else plain lines. ``where``: the run directory."""
    console = Console(file=stream, highlight=False)
    # FORCE_COLOR makes rich call a pipe a terminal, so the stream is asked as well.
    is_terminal = _is_tty(stream) and console.is_terminal and not console.is_dumb_terminal
    if is_terminal and console.encoding.startswith("utf") and not os.environ.get("CI"):
        return PanelDisplay(config, where, console, figures, footer)
    return PlainDisplay(stream)


def format_line(row: dict[str, Any]) -> str:
    """The figures of a row in columns that stay where they are from line to line."""
    text = {key: short(key, value) for key, value in row.items()} | {"agents": _agents(row)}
    workers = "{agents}/{predictors}/{trainers}".format(**text)
    queues = "{prediction_queue}/{training_queue}".format(**text)
    batches = "{prediction_batch}/{training_batch}".format(**text)
    lag = "{lag_mean}/{lag_max}".format(**text)
    network = f"  network {row['network_in'] / 1e6:.2f} MB/s" if row.get("network_in") else ""
    return (
        "{seconds}  steps {steps:>11}  games {episodes:>6}  score {score:>7} (last {score_last:>7})"
        "  PPS {pps:>6}  TPS {tps:>5}  trained {trained_per_second:>6}/s".format(**text)
        + f"  NA/NP/NT {workers:<7}  queues {queues:<9}  batches {batches:<9}  lag {lag:<7}{network}"
        + f"  limit {row['limit']}"
    )


class PlainDisplay:
    """One line per update."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = cast(TextIO, _SafeStream(stream))

    def update(self, row: dict[str, Any]) -> None:
        print(format_line(row), file=self.stream, flush=True)

    def close(self) -> None:
        self.stream.flush()


class PanelDisplay:
    """A panel at the bottom of the terminal; what is logged or printed appears above it."""

    def __init__(
        self,
        config: Config,
        where: str,
        console: Console,
        figures: Sequence[Figure] = FIGURES,
        footer: str = FOOTER,
    ) -> None:
        self.console = console
        # Inside rich an error would leave the cursor hidden, and a broken pipe would end the program.
        console.file = cast(IO[str], _SafeStream(console.file))
        self.stream = cast(TextIO, FileProxy(console, console.file))  # for lines that do not disturb the panel
        self._config, self._where, self._figures, self._footer = config, where, figures, footer
        self._panel: Panel | None = None
        self._closed = False
        # A stream that goes to a file is not the panel's, even while the other one is a terminal.
        out, err = _is_tty(sys.stdout), _is_tty(sys.stderr)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=out, redirect_stderr=err)

    def update(self, row: dict[str, Any]) -> None:
        """Show a row of ``ga3c.memory.figures.window_row``."""
        if self._closed:
            return
        self._panel = make_panel(row, self._config, self._where, *self.console.size, self._figures, self._footer)
        self._live.start()  # does nothing from the second time on
        self._live.update(self._panel, refresh=True)

    def close(self) -> None:
        """Leave the terminal as it was found, with the last figures on it; may be called twice."""
        self._closed = True
        if self._panel is not None:
            self._panel.subtitle = None  # there is nothing left to stop
        self._live.stop()


def make_panel(
    row: dict[str, Any],
    config: Config,
    where: str,
    width: int,
    height: int,
    figures: Sequence[Figure] = FIGURES,
    footer: str = FOOTER,
) -> Panel:
    """The figures of a row for a terminal of this size; what matters least is left out if they do not fit."""
    width = min(width, PANEL_WIDTH)
    sections = _sections(row, config, width - FRAME, figures)
    for least in EXTRAS:
        if sum(map(len, sections.values())) + 3 > height:  # two lines of border, and one for the log above
            sections.pop(least, None)
    start = f"GA3C · {config.game} · "
    room = max(width - 6 - len(start), 1)
    end = where if len(where) <= room else "…" + where[len(where) - room + 1 :]  # a path's end tells runs apart
    title, below = Text(start + end, "bold", overflow="ellipsis"), Text(footer, NAME_STYLE, overflow="ellipsis")
    lines = Group(*itertools.chain.from_iterable(sections.values()))
    return Panel(lines, title=title, subtitle=below, border_style=LABEL_STYLE, width=width)


def _sections(
    row: dict[str, Any], config: Config, width: int, figures: Sequence[Figure]
) -> dict[str, list[RenderableType]]:
    """The lines of the panel by what they tell."""
    done, of_what = _progress(row, config)
    if of_what:
        # At the mean speed so far: the speed of one window would make it jump.
        row = row | {"seconds_left": row["seconds"] * (1 - done) / done if done else None}
    shown: dict[str, list[Figure]] = {}
    for figure in (*figures, LEFT):
        if figure.panel[0]:
            shown.setdefault(figure.panel[0], []).append(figure)
    sections = {label: _figure_lines(label, some, row, width) for label, some in shown.items()}
    it = "it" if row["limit"] == "network" else "them"
    limit = Text(row["limit"], LIMIT_STYLE).append(f": the others wait for {it}", NAME_STYLE)
    sections |= {"gap": [""], "Stage": _stage_lines(row, width), "Limit": [_line("Limit", [limit])]}
    if of_what:
        bar = Table.grid(Column(ratio=1), Column(no_wrap=True), padding=(0, GAP), expand=True)
        bar.add_row(ProgressBar(total=1.0, completed=done), f"{int(100 * done)}% of {of_what}")
        sections |= {"bar gap": [""], "bar": [bar]}
    return sections


def _progress(row: dict[str, Any], config: Config) -> tuple[float, str]:
    """How much is done (0 to 1) of which maximum, the one that is nearest; without any: ``""``."""
    maxima = (
        (row["steps"], config.max_steps, "steps"),
        (row["seconds"], config.max_seconds, "time"),
        (row["episodes"], config.max_episodes, "games"),
    )
    return max(((min(now / end, 1.0), name) for now, end, name in maxima if end), default=(0.0, ""))


def _figure_lines(label: str, figures: list[Figure], row: dict[str, Any], width: int) -> list[RenderableType]:
    """Named figures behind a label, as many beside each other as fit."""
    cells = []
    room = min(FIGURE_WIDTH, width - LABEL_WIDTH - GAP)
    for figure in figures:
        name, value = figure.panel[1], row.get(figure.name, NOT_THERE)
        if value is not NOT_THERE and (value or label not in (DROPPED, NETWORK)):  # nothing dropped is nothing to tell
            value = short(figure.name, value, figure.style).rjust(room - 1 - len(name))
            cells.append(Text.assemble((name, NAME_STYLE), " ", (value, VALUE_STYLE)))
    across = max((width - LABEL_WIDTH) // (GAP + FIGURE_WIDTH), 1)
    return [_line("" if at else label, cells[at : at + across]) for at in range(0, len(cells), across)]


def _stage_lines(row: dict[str, Any], width: int) -> list[RenderableType]:
    """A line for each stage that the data goes through, the limiting one highlighted."""
    across = max((width - LABEL_WIDTH) // (GAP + STAGE_WIDTH), 1)
    heads = [Text(head.rjust(STAGE_WIDTH), NAME_STYLE) for head in ("number", "queue", "batch", "busy")]
    lines: list[RenderableType] = [_line("Stage", heads[:across], NAME_STYLE)]
    for stage, (letters, *keys) in STAGES.items():
        number, *rest = (_agents(row) if key == "agents" else short(key, row[key]) for key in keys)
        label_style, style = (LIMIT_STYLE,) * 2 if stage == row["limit"] else (LABEL_STYLE, VALUE_STYLE)
        cells = [Text(text.rjust(STAGE_WIDTH), style) for text in (f"{letters} {number:>4}", *rest)]
        lines.append(_line(stage.capitalize(), cells[:across], label_style))
    return lines


def _line(label: str, cells: list[Text], style: str = LABEL_STYLE) -> Text:
    """A line that is cut rather than wrapped where it does not fit."""
    return Text(" " * GAP, no_wrap=True, overflow="ellipsis").join([Text(label.ljust(LABEL_WIDTH), style), *cells])


class _SafeStream:
    """A stream whose writes never fail: training is not lost because a line could not be written."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream is closed
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = getattr(self._stream, "encoding", None) or "ascii"
                self._stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _is_tty(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _agents(row: dict[str, Any]) -> str:
    """NA, and behind it how many of other machines play."""
    local, remote = short("agents", row["agents"]), row.get("remote_agents")
    return f"{local}+{short('remote_agents', remote)}" if remote else local


def short(key: str, value: Any, style: str = "") -> str:
    """A value of a row as line, panel and table show it, with as many digits as say something."""
    if not isinstance(value, (int, float)):
        return MISSING if value is None else str(value)
    style = style or STYLES.get(key, "number")
    if style == "clock":
        return f"{int(value) // 3600:02}:{int(value) // 60 % 60:02}:{int(value) % 60:02}"
    if style == "share":
        return f"{value:.0%}"
    if style == "digits":
        return f"{value:.3g}"
    if isinstance(value, int) or abs(value) >= 999.5:
        return f"{value:,.0f}"
    if style == "score":
        return f"{value:.0f}" if float(value).is_integer() else f"{value:.{1 + (abs(value) < 10)}f}"
    return f"{value:.{int(abs(value) < 99.95)}f}"
