"""``watch``: the live panel of a run that is at work elsewhere, by its ``metrics.jsonl``; without a terminal, lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ga3c.algorithms.rule import rule_figures
from ga3c.memory.figures import FIGURES
from ga3c.runs.display import MISSING, PanelDisplay, make_display, short
from ga3c.runs.recorded import TAIL, Recorded, find_runs, rows_in
from ga3c.settings.commands import WatchOptions
from ga3c.settings.declare import ConfigError, read_words

LOOK_SECONDS = 0.25
FIRST_LINES = 10  # of what was before, where there is no panel
FOOTER = "Ctrl-C ends the watching, not the run"


def main(words: list[str]) -> int:
    options = WatchOptions(**read_words(WatchOptions, words))
    run = Recorded.at(Path(options.run).expanduser()) if options.run else newest(Path("runs"))
    watch(run)
    ended = Recorded(run.path)  # as it is now
    last = ended.last
    score, steps = (short(name, last.get(name)) for name in ("score", "steps"))
    print(f"{run.path}: {ended.state}, score {score} after {steps} steps")
    return 0


def newest(directory: Path) -> Recorded:
    """The run that began to write last, of those at work if there are any."""
    runs = find_runs(directory)
    if not runs:
        raise ConfigError(f"there are no runs in {directory}: name one as RUN=…")
    return next((run for run in runs if run.at_work), runs[0])


def watch(run: Recorded) -> None:
    """Show what the run writes until it has ended; raises KeyboardInterrupt before that where the viewer has enough."""
    while not run.settings:
        if run.summary:
            return  # it ended before it began
        if not run.at_work:
            raise ConfigError(f"{run.path} is not a run directory: there is no config.json in it")
        time.sleep(LOOK_SECONDS)
        run = Recorded(run.path)
    config = run.config()
    figures = (*FIGURES, *rule_figures(config))
    blank = dict.fromkeys([figure.name for figure in figures]) | {"limit": MISSING}  # of a row of another version
    display = make_display(config, str(run.path), sys.stdout, figures, FOOTER)
    try:
        row, size = None, None
        for rows in follow(run, 1 if isinstance(display, PanelDisplay) else FIRST_LINES):
            if isinstance(display, PanelDisplay):
                changed, size = size != display.console.size, display.console.size
                row = rows[-1] if rows else row
                rows = [row] if row and (rows or changed) else []
            for some in rows:
                display.update(blank | some)
    finally:
        display.close()


def follow(run: Recorded, first: int) -> Iterator[list[dict[str, Any]]]:
    """The last rows that there are, then again and again those that came since, until the run has ended."""
    place = max(_size(run.metrics) - TAIL, 0)
    while True:
        at_work = run.at_work  # before the file is read, so that what a run writes at its end is seen
        whole = _lines_from(run.metrics, place)
        place += len(whole)
        yield rows_in(whole)[-first:]
        if not at_work:
            return
        first = 0  # all
        time.sleep(LOOK_SECONDS)


def _lines_from(path: Path, place: int) -> bytes:
    """What stands there, without a line that is just being written."""
    if _size(path) <= place:
        return b""
    with path.open("rb") as file:
        file.seek(place)
        content = file.read()
    return content[: content.rfind(b"\n") + 1]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
