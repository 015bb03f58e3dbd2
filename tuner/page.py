"""The page of a replay: one HTML file that needs nothing else, for a reader who knows neither the paper nor the tuner.

``page.css`` and ``page.js`` are put into it, with the data as JSON. The words and the table are there without scripts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from statistics import fmean
from typing import Any

from tuner.heat import Heat
from tuner.panels import PANELS
from tuner.story import VERDICTS, Story, began, in_words, time_unit, tps_of
from tuner.strategies import STRATEGIES
from tuner.style import MARKS, QUIET, RUNS
from tuner.text import gain_in_words, number
from tuner.trace import Trial

OPEN_TABLE = 60  # trials; a longer table is folded up at first
# The marks of the picture as the page draws them.
SHAPES = {
    "o": "circle",
    ".": "circle",
    "s": "square",
    "^": "up",
    "v": "down",
    "D": "diamond",
    "x": "cross",
    "P": "cross",
}
COLUMNS = ("window", "minute", "tried", "TPS", "PPS", "lag", "queues", "decision", "then", "reason")


def make_page(stories: Sequence[Story], heats: Sequence[Heat | None]) -> str:
    """HTML of one run with all its trials, or of several runs over each other."""
    title = f"Tuner: {', '.join(story.name for story in stories)}"
    unit, unit_name = time_unit(stories)
    data = {
        "unit": unit,
        "unitName": unit_name,
        "panels": [
            {"name": panel.title, "unit": panel.unit, "key": panel.key, "height": panel.height} for panel in PANELS
        ],
        "shapes": {verdict: SHAPES[mark["marker"]] for verdict, mark in MARKS.items()},
        "quiet": QUIET,
        "runShapes": [SHAPES[style["marker"]] for style in RUNS],
        "runs": [_run_data(story, heat) for story, heat in zip(stories, heats, strict=True)],
    }
    body = [
        f"<header><h1>{escape(title)}</h1>{_result(stories)}{_notes(stories)}</header>",
        _explanation(stories),
        _charts(stories, heats),
        *(_trial_table(story, alone=len(stories) == 1) for story in stories),
    ]
    return PAGE.format(
        title=escape(title),
        style=_asset("page.css"),
        body="\n".join(body),
        data=_inline_json(data),
        script=_asset("page.js"),
    )


# Nothing may be loaded from anywhere, also if a text that should have been escaped was not.
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<svg id="blank" width="0" height="0" hidden></svg>
<script type="application/json" id="data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (files("tuner") / name).read_text(encoding="utf-8")


def _inline_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever its texts say."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _run_data(story: Story, heat: Heat | None) -> dict[str, Any]:
    return {
        "name": story.name,
        "start": story.start,
        "final": story.final,
        "lagLimit": story.trace.plan.lag_limit,
        "trials": [_trial_data(trial, trial.number in story.simulated) for trial in story.trials],
        "heat": _heat_data(heat, story) if heat and heat.cells else None,
    }


def _trial_data(trial: Trial, simulated: bool) -> dict[str, Any]:
    measured, failed = trial.measurement, bool(trial.measurement.problem)
    unknown = failed or simulated
    return {
        "number": trial.number,
        "from": _rounded(began(trial)),
        "middle": _rounded(trial.seconds - trial.window / 2),
        "to": _rounded(trial.seconds),
        "before": trial.before,
        "tried": trial.proposed,
        "ran": measured.setting,
        "after": trial.decision.incumbent,
        "tps": _rounded(tps_of(trial)),
        "pps": None if failed else _rounded(measured.pps),
        "lag": None if unknown else _rounded(measured.lag_mean),
        "lagMax": None if unknown else _rounded(measured.lag_max),
        "queues": _queues(trial, unknown),
        "verdict": trial.decision.verdict,
        "reason": trial.decision.reason,
        "simulated": simulated,
    }


def _heat_data(heat: Heat, story: Story) -> dict[str, Any]:
    return {
        "columns": heat.columns,
        "rows": heat.rows,
        "cells": [
            [cell.column, cell.row, _rounded(cell.tps), cell.windows, ", ".join(map(str, cell.settings))]
            for cell in heat.cells
        ],
        "start": heat.place(story.start),
        "final": heat.place(story.final),
    }


def _rounded(value: float | None) -> float | None:
    """Five digits: more than a window can tell, and JSON has no way to write what is not finite."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def _queues(trial: Trial, unknown: bool) -> str:
    training = trial.measurement.training_queue
    if unknown or not training:
        return "–"
    return f"{number(trial.measurement.prediction_queue)} / {number(fmean(training))}"


def _result(stories: Sequence[Story]) -> str:
    if len(stories) > 1:
        return _comparison(stories)
    (story,) = stories
    if not story.trials:
        return "<p class=lead>The run ended before its first window did, so the tuner has decided nothing.</p>"
    return f"<p class=lead>{_sentence(story)}</p>{_facts(story)}"


def _sentence(story: Story) -> str:
    count = f"{len(story.trials)} window{'' if len(story.trials) == 1 else 's'}"
    counts = ", ".join(
        f"{story.count(verdict)} {verdict}" for verdict in VERDICTS if verdict != "start" and story.count(verdict)
    )
    end = f" It measured {count}{f': {counts}' if counts else ''}."
    first, last = number(story.start_tps), number(story.final_tps)
    if story.final == story.start:
        return f"The run stayed at <b>{in_words(story.start)}</b>, with {first} model updates per second.{end}"
    return (
        f"The run began with {in_words(story.start)} and {first} model updates per second. The tuner ended with "
        f"<b>{in_words(story.final)}</b> and <b>{last}</b> updates per second.{end}"
    )


def _facts(story: Story) -> str:
    since = story.held_since
    facts = [
        ("Best setting found", str(story.final), "agents / predictors / trainers"),
        ("TPS there", number(story.final_tps), "model updates per second, mean of its windows"),
        (
            "Gain",
            gain_in_words(story.gain),
            f"over {story.start}, where it began{', before speed changed' if story.count('reopened') else ''}",
        ),
        (
            "Held since",
            "the start" if since == story.trials[0].seconds else f"{since / 60:.1f} min" if since is not None else "–",
            f"of {story.trials[-1].seconds / 60:.1f} min",
        ),
    ]
    items = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd><dd class=small>{more}</dd></div>" for name, value, more in facts
    )
    return f"<dl class=facts>{items}</dl>"


def _comparison(stories: Sequence[Story]) -> str:
    rows = []
    for index, story in enumerate(stories):
        since = f"{story.held_since / 60:.1f}" if story.held_since is not None else "–"
        cells = [
            f'<th scope=row><span data-run="{index}"></span> {escape(story.name)}</th>',
            f"<td>{escape(story.trace.plan.strategy)}</td>",
            *(f"<td class=number>{text}</td>" for text in (story.start, story.final)),
            *(f"<td class=number>{text}</td>" for text in (number(story.start_tps), number(story.final_tps))),
            f"<td class=number>{gain_in_words(story.gain) if story.gain is not None else '–'}</td>",
            f"<td class=number>{len(story.trials)}</td><td class=number>{since}</td>",
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    names = ("run", "strategy", "start", "end", "TPS at start", "TPS at end", "gain", "windows", "held since minute")
    head = "".join(f"<th scope=col>{name}</th>" for name in names)
    return (
        "<p class=lead>Where each run began and ended. Settings are agents / predictors / trainers.</p>"
        f"<div class=scroll tabindex=0><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _notes(stories: Sequence[Story]) -> str:
    alone = len(stories) == 1
    notes = [note if alone else f"{story.name}: {note}" for story in stories for note in story.notes]
    return "".join(f"<p class=note>{escape(note)}</p>" for note in notes)


def _explanation(stories: Sequence[Story]) -> str:
    windows = sorted({f"{story.trace.plan.window:g}" for story in stories})
    names = dict.fromkeys(story.trace.plan.strategy for story in stories)
    strategies = "; ".join(
        f"<i>{escape(name)}</i>" + (f": {STRATEGIES[name].words}" if name in STRATEGIES else "") for name in names
    )
    return f"""<section><h2>What you see</h2>
<p>Three kinds of workers train the model together. Too few of one kind, and the others wait for them; too many, and
they take the processor from each other. Which numbers are best depends on machine and game, so the tuner tries them
while training goes on: it changes the numbers, lets that settle, measures for a window of {" or ".join(windows)} s, and
keeps the change or takes it back. Strategy {strategies}.</p>
<dl class=terms>
<div><dt>Agents, NA</dt><dd>processes that play the game</dd></div>
<div><dt>Predictors, NP</dt><dd>threads that let the model choose the agents’ next actions</dd></div>
<div><dt>Trainers, NT</dt><dd>threads that improve the model with what was played</dd></div>
<div><dt>TPS</dt><dd>trainings: model updates per second. This is what the tuner makes large</dd></div>
<div><dt>PPS</dt><dd>predictions: steps of the game per second</dd></div>
<div><dt>Policy lag</dt><dd>updates between choosing an action and learning from it; a large lag spoils
learning</dd></div>
</dl></section>"""


def _charts(stories: Sequence[Story], heats: Sequence[Heat | None]) -> str:
    if not any(story.trials for story in stories):
        return ""
    parts = [
        "<section><h2>The run over time</h2>",
        _legend(stories),
        '<div class=chart id=time tabindex=0 role=group aria-label="Settings, speed and lag over time. '
        'Arrow keys go from window to window; the table below has the same."></div>',
        '<p class="hint small">Point at or tap a window to read its decision; by keyboard, left and right.</p>',
        "<p class=unseen id=spoken aria-live=polite></p><noscript><p class=note>The charts need JavaScript; the table "
        "below has the same figures.</p></noscript></section>",
    ]
    shown = [index for index, heat in enumerate(heats) if heat and heat.cells]
    if shown:
        parts.append(_heat_words())
    for index in shown:
        if len(stories) > 1:
            parts.append(f'<h3><span data-run="{index}"></span> {escape(stories[index].name)}</h3>')
        parts.append(
            f'<div class="chart heat" data-heat="{index}" tabindex=0 role=group '
            'aria-label="TPS by setting. Arrow keys go from cell to cell."></div>'
        )
    return "\n".join([*parts, "</section>" if shown else ""])


def _heat_words() -> str:
    return (
        "<section><h2>What is known of the settings</h2><p>Each cell is a setting: agents to the right, predictors "
        "and trainers downwards. Its colour is its TPS, its number how many windows were measured there. Hatched cells "
        "were never measured: their TPS comes from a simulator that was fitted to the run.</p>"
        "<p class=legend><span><i class=outline-start></i> where it began</span> "
        "<span><i class=outline-final></i> where it ended</span> <span><i class=hatched></i> simulated</span></p>"
    )


def _legend(stories: Sequence[Story]) -> str:
    if len(stories) > 1:
        items = [
            f'<span><span data-run="{index}"></span> {escape(story.name)}</span>' for index, story in enumerate(stories)
        ]
        items.append("<span>Marks: accepted; large: reopened; hollow: failed</span>")
    else:
        (story,) = stories
        items = [
            f'<span><span data-mark="{verdict}"></span> {words}</span>'
            for verdict, words in VERDICTS.items()
            if story.count(verdict)
        ]
        items.append("<span><i class=ran></i> what ran</span> <span><i class=held></i> the setting in force</span>")
    if any(story.simulated for story in stories):
        items.append("<span><i class=simulated></i> simulated: the run never measured this setting</span>")
    return f"<p class=legend>{' '.join(items)}</p>"


def _trial_table(story: Story, *, alone: bool) -> str:
    if not story.trials:
        return ""
    head = "".join(f"<th scope=col>{name}</th>" for name in COLUMNS)
    rows = "\n".join(_table_row(trial, trial.number in story.simulated) for trial in story.trials)
    opened = " open" if len(story.trials) <= OPEN_TABLE and alone else ""
    name = "All" if alone else f"{escape(story.name)}: all"
    return f"""<section><details{opened}><summary>{name} {len(story.trials):,} windows and their decisions</summary>
<div class=scroll tabindex=0><table class=trials><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></div>
<p class=small>tried and then: agents / predictors / trainers; minute: when the window ended; lag: mean / largest;
queues: waiting predictions / experiences to train on{"; ~: simulated" if story.simulated else ""}</p>
</details></section>"""


def _table_row(trial: Trial, simulated: bool) -> str:
    measured = trial.measurement
    unknown = bool(measured.problem) or simulated
    figures = [
        trial.number,
        f"{trial.seconds / 60:.1f}",
        trial.proposed,
        ("~" if simulated else "") + number(tps_of(trial)),
        "–" if measured.problem else ("~" if simulated else "") + number(measured.pps),
        "–" if unknown else f"{number(measured.lag_mean)} / {number(measured.lag_max)}",
        _queues(trial, unknown),
    ]
    cells = "".join(f"<td class=number>{escape(str(figure))}</td>" for figure in figures)
    verdict = trial.decision.verdict
    known = verdict if verdict in VERDICTS else "kept"
    return (
        f"<tr class={known}>{cells}<td>{escape(verdict)}</td><td class=number>{trial.decision.incumbent}</td>"
        f"<td class=reason>{escape(trial.decision.reason)}</td></tr>"
    )
