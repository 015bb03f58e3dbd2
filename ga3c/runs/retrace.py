"""``replay``: what the tuner of a run did, checked against its strategy, as a table, a picture and a page."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from ga3c.settings.commands import ReplayOptions
from ga3c.settings.declare import ConfigError, read_words
from ga3c.system.files import write_atomically
from tuner.heat import Heat, heat_of
from tuner.page import make_page
from tuner.plots import draw
from tuner.retrace import ReplayError, check_trace, replay_other
from tuner.story import Story, closing_sentence, names_of, printable
from tuner.table import WIDTH, trial_table
from tuner.trace import Trace, TraceError, read_trace

CUT = "The last line of the trace is broken, as when a run is killed while it writes; it is left out."


def main(words: list[str]) -> int:
    options = ReplayOptions(**read_words(ReplayOptions, words))
    try:
        return replay(options)
    except TraceError as error:
        raise ConfigError(str(error)) from None


def replay(options: ReplayOptions) -> int:
    """Show each run; 1 if the strategy of one now decides differently than the trace says."""
    paths = [Path(path).expanduser() for path in options.runs]
    traces = [read_trace(path) for path in paths]
    stories, differ = [], False
    for trace, name in zip(traces, names_of(paths), strict=True):
        if options.strategy:
            story = _other_story(trace, name, options.strategy)
        else:
            difference = _difference(trace)
            story = _story(trace, name, difference)
            differ = differ or bool(difference)
        stories.append(story)
        _print(story)
        if not options.strategy and not difference:
            print(f"Replayed: '{trace.plan.strategy}' comes to the same decision in every window.\n")
    folder = Path(options.out).expanduser() if options.out else _directory(paths[0])
    stem = f"replay-{options.strategy}" if options.strategy else "replay"
    _write(folder, stem, stories, [_heat(trace) for trace in traces])
    return 1 if differ else 0


def _difference(trace: Trace) -> str:
    try:
        check_trace(trace)
    except ReplayError as error:
        return str(error)
    return ""


def _story(trace: Trace, name: str, difference: str) -> Story:
    """The run as it was. Also one that this program would decide differently can be looked at: the note says so."""
    notes = [CUT] if trace.cut else []
    if difference:
        notes.append(f"The strategy no longer decides as it did in this run: {difference}")
        print(printable(f"ga3c: {name}: {difference}"), file=sys.stderr)
    return Story(name, trace, notes=tuple(notes))


def _other_story(trace: Trace, name: str, strategy: str) -> Story:
    replayed = replay_other(trace, strategy)
    notes = [
        f"This is no recorded run: it is what the strategy '{strategy}' would have done in the place of "
        f"'{trace.plan.strategy}'. The recorded run: {closing_sentence(Story(name, trace))}"
    ]
    if replayed.simulated:
        notes.append(
            f"{len(replayed.simulated)} of {len(replayed.trace.trials)} windows are simulated, since the recorded run "
            "never measured their settings. Their lag and queues are not known."
        )
    return Story(f"{name}, {strategy}", replayed.trace, replayed.simulated, tuple(notes + [CUT] * trace.cut))


def _heat(trace: Trace) -> Heat | None:
    if not any(not trial.measurement.problem for trial in trace.trials):
        return None
    from tuner.landscape import landscape_of

    return heat_of(landscape_of(trace))


def _print(story: Story) -> None:
    if story.trials:
        print(trial_table(story))
    for line in (*story.notes, closing_sentence(story)):
        print(textwrap.fill(printable(line), WIDTH))


def _directory(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _write(folder: Path, stem: str, stories: list[Story], heats: list[Heat | None]) -> None:
    picture, page = folder / f"{stem}.png", folder / f"{stem}.html"
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(picture, draw(stories, heats))
        write_atomically(page, make_page(stories, heats).encode())
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror or error}. OUT=… names another folder"
        ) from None
    print(f"picture {picture}\npage    {page}")
