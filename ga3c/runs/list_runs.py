"""``list``: the runs of a directory as a table, the newest first."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ga3c.runs.display import LABEL_STYLE, LIMIT_STYLE, MISSING, NAME_STYLE, short
from ga3c.runs.recorded import AT_WORK, STARTING, Recorded, find_runs
from ga3c.settings.commands import ListOptions
from ga3c.settings.declare import read_words

HEAD = {
    "run": "run",
    "game": "game",
    "algo": "algo",
    "score": "score",
    "steps": "steps",
    "ago": "ago",
    "state": "state",
}
NUMBERS = ("score", "steps", "ago")  # stand at the right of their columns
LEFT_OUT = ("algo", "game", "ago", "steps", "score")  # where there is no room, the first one first
GAP = 2
LEAST = 8  # letters of a name that is cut
UNITS = (("s", 60), ("min", 60), ("h", 24), ("days", math.inf))


def main(words: list[str]) -> int:
    options = ListOptions(**read_words(ListOptions, words))
    runs = find_runs(Path(options.runs).expanduser())
    console = Console(highlight=False, soft_wrap=True)
    for line in table(runs, console.width if sys.stdout.isatty() else 10_000):
        console.print(line)
    if not runs:
        print(f"there are no runs in {options.runs}")
    return 0


def table(runs: list[Recorded], width: int) -> list[Text]:
    """Lines of at most so many columns, as far as that is possible."""
    rows = [HEAD, *map(_row, runs)]
    columns = list(HEAD)
    for least in LEFT_OUT:
        if _width(rows, columns) > width:
            columns.remove(least)
    too_wide = _width(rows, columns) - width
    if too_wide > 0:
        most = max(max(len(row["run"]) for row in rows) - too_wide, LEAST)
        rows = [row | {"run": _end_of(row["run"], most)} for row in rows]
    return [_line(row, columns, _widths(rows, columns)) for row in rows] if runs else []


def _row(run: Recorded) -> dict[str, str]:
    settings, last = run.settings, run.last
    return {
        "run": run.path.name,
        "game": str(settings.get("game", MISSING)),
        "algo": str(settings.get("algo", MISSING)),
        "score": short("score", last.get("score")),
        "steps": short("steps", last.get("steps")),
        "ago": _ago(time.time() - run.when),
        "state": run.state.partition(":")[0],  # of a failure, not what it was
    }


def _ago(seconds: float) -> str:
    left = max(seconds, 0.0)
    for unit, size in UNITS:
        if left < size:
            return f"{left:.0f} {unit}"
        left /= size
    return MISSING


def _widths(rows: list[dict[str, str]], columns: list[str]) -> dict[str, int]:
    return {column: max(len(row[column]) for row in rows) for column in columns}


def _width(rows: list[dict[str, str]], columns: list[str]) -> int:
    return sum(_widths(rows, columns).values()) + GAP * (len(columns) - 1)


def _end_of(name: str, most: int) -> str:
    """A name's end tells runs apart."""
    return name if len(name) <= most else "…" + name[len(name) - most + 1 :]


def _line(row: dict[str, Any], columns: list[str], widths: dict[str, int]) -> Text:
    cells = []
    for column in columns:
        text = row[column].rjust(widths[column]) if column in NUMBERS else row[column].ljust(widths[column])
        style = NAME_STYLE if row is HEAD else ""
        if column == "state" and row[column] in (AT_WORK, STARTING):
            style = LIMIT_STYLE
        elif column == "run" and row is not HEAD:
            style = LABEL_STYLE
        cells.append(Text(text, style))
    line = Text(" " * GAP, no_wrap=True).join(cells)
    line.rstrip()
    return line
