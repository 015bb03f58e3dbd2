"""What a reader of a replay gets to see: the words, the heat map, the page and the picture."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.pages import assert_picture, assert_self_contained, parse
from tests.helpers.traces import HOSTILE, Known, make_trace, plan_of
from tuner.heat import COLUMNS_MOST, heat_of
from tuner.page import make_page
from tuner.plots import draw
from tuner.space import Setting, Space
from tuner.story import Story, closing_sentence
from tuner.strategy import Decision, Measurement
from tuner.table import WIDTH, trial_table
from tuner.trace import Trace, Trial

# --- the words -------------------------------------------------------------------------------------------------------


def test_the_table_has_a_line_for_each_trial_and_fits():
    trace = make_trace(20, problems={4: "refused: " + "no memory " * 30})
    lines = trial_table(Story("run", trace)).splitlines()
    assert len(lines) == 21
    assert max(map(len, lines)) <= WIDTH
    assert re.match(r" +0\.2  1/1/1 +[\d.]+ +start +[\d.]+ TPS to compare with", lines[1])
    assert "failed" in lines[4]
    assert lines[4].endswith("…")


def test_a_long_table_has_what_changed_and_a_count():
    trace = make_trace(120)
    lines = trial_table(Story("run", trace)).splitlines()
    changes = sum(trial.decision.verdict in ("start", "accepted") for trial in trace.trials)
    assert len(lines) == changes + 2
    assert lines[-1] == f"and {120 - changes} trials that changed nothing: {120 - changes} refused"


def test_a_reason_cannot_steer_the_terminal():
    assert "\x1b" not in trial_table(Story("run", make_trace(5, problems={2: HOSTILE})))


def test_the_closing_sentence_tells_start_end_and_gain():
    start = Trial(
        1, 12.0, 2.0, 10.0, Setting(1, 1, 1), Setting(1, 1, 1), Measurement(Setting(1, 1, 1), (4.0,), 80.0),
        Decision("start", Setting(1, 1, 1), "first"),
    )  # fmt: skip
    better = replace(
        start,
        number=2,
        proposed=Setting(4, 2, 1),
        measurement=Measurement(Setting(4, 2, 1), (6.0,), 120.0),
        decision=Decision("accepted", Setting(4, 2, 1), "more"),
    )
    again = replace(better, number=3, measurement=replace(better.measurement, tps=(5.0, 5.0)))
    story = Story("pong", Trace(plan_of(), (start, better, again)))
    assert closing_sentence(story) == "pong: 1/1/1 → 4/2/1, 4.00 → 5.50 TPS (+38 %) in 3 windows of 10 s."
    one = Story("pong", Trace(plan_of(), (start,)))
    assert closing_sentence(one) == "pong: stayed at 1/1/1, 4.00 TPS, over 1 window of 10 s."


def test_without_training_no_gain_is_told():
    trace = make_trace(1)
    still = replace(trace.trials[0], measurement=replace(trace.trials[0].measurement, tps=(0.0, 0.0)))
    moved = replace(still, number=2, decision=replace(still.decision, incumbent=Setting(2, 1, 1)))
    story = Story("run", replace(trace, trials=(still, moved)))
    assert story.gain is None
    assert "no gain can be told" in closing_sentence(story)


# --- the heat map ----------------------------------------------------------------------------------------------------


def test_cells_are_means_of_measured_windows_with_their_number():
    trace = make_trace(30)
    known = Known(trace)
    heat = heat_of(known)
    assert len(heat.columns) <= COLUMNS_MOST
    assert sum(cell.windows for cell in heat.cells) == 30
    for setting, windows in known.measured.items():
        (cell,) = [cell for cell in heat.cells if (cell.column, cell.row) == heat.place(setting)]
        assert (cell.windows, cell.settings) == (len(windows), (setting,))
        assert cell.tps == pytest.approx(np.mean(windows))
    assert {cell.tps for cell in heat.cells if not cell.windows} == {Known.SIMULATED}


def test_numbers_of_agents_share_a_column_only_where_none_was_measured():
    trace = make_trace(40)
    known = Known(replace(trace, plan=replace(trace.plan, space=Space(500, 4, 4))))
    heat = heat_of(known)
    assert len(heat.columns) == COLUMNS_MOST
    measured = {setting.agents for setting in known.measured}
    assert all((number, number) in heat.columns for number in measured)
    assert heat.columns[-1][1] == 500


# --- the page and the picture ----------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else_and_says_what_it_shows():
    trace = make_trace(30)
    html = make_page([Story("pong-1", trace)], [heat_of(Known(trace))])
    assert_self_contained(html)
    page = parse(html)
    for words in (
        "Tuner: pong-1",
        "Best setting found",
        "agents",
        "predictors",
        "trainers",
        "model updates per second",
    ):
        assert words in page.text
    assert page.text.count("TPS, not above") == sum(trial.decision.verdict == "refused" for trial in trace.trials)
    assert len(page.data["runs"][0]["trials"]) == 30
    assert page.data["runs"][0]["heat"]["final"]
    assert page.elements.count(("tr", {"class": "accepted"})) == Story("", trace).count("accepted")


def test_the_page_shows_a_hostile_text_as_text():
    trace = make_trace(6, problems={3: HOSTILE})
    hostile = replace(trace.trials[4], decision=replace(trace.trials[4].decision, verdict=HOSTILE))
    trace = replace(trace, trials=(*trace.trials[:4], hostile), plan=replace(trace.plan, strategy=HOSTILE))
    html = make_page([Story(HOSTILE, trace, notes=(HOSTILE,))], [heat_of(Known(trace))])
    assert_self_contained(html)
    page = parse(html)
    assert page.text.count(HOSTILE) == 6  # title, heading, note, strategy, reason and verdict
    assert page.data["runs"][0]["trials"][2]["reason"] == HOSTILE
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert_picture(draw([Story("$" + HOSTILE, trace, notes=("$\\frac{",))], [None]))


@pytest.mark.parametrize("windows", [0, 1, 2, 1000])
def test_runs_of_any_length_can_be_shown(windows):
    trace = make_trace(windows)
    story, heat = Story("run", trace), heat_of(Known(trace)) if windows else None
    assert_picture(draw([story], [heat]))
    html = make_page([story], [heat])
    assert_self_contained(html)
    assert len(html) < 1_000_000
    assert len(parse(html).data["runs"][0]["trials"]) == windows


def test_windows_without_training_or_sense_can_be_shown():
    trace = make_trace(4, problems={2: "the server refused"})
    still = replace(trace.trials[2], measurement=replace(trace.trials[2].measurement, tps=(0.0,) * 4, pps=0.0))
    odd = replace(
        trace.trials[3], measurement=replace(trace.trials[3].measurement, tps=(float("nan"),), training_queue=())
    )
    story = Story("run", replace(trace, trials=(*trace.trials[:2], still, odd)))
    assert_picture(draw([story], [None]))
    page = parse(make_page([story], [None]))  # NaN is no JSON: a browser would refuse all of it
    assert [trial["tps"] is None for trial in page.data["runs"][0]["trials"]] == [False, True, False, True]
    assert page.data["runs"][0]["trials"][2]["tps"] == 0


def test_several_runs_share_a_page_and_a_picture():
    traces = [make_trace(20 + 5 * seed, plan=plan_of(seed=seed)) for seed in range(3)]
    stories = [Story(f"run-{index}", trace) for index, trace in enumerate(traces)]
    heats = [heat_of(Known(trace)) for trace in traces]
    html = make_page(stories, heats)
    assert_self_contained(html)
    page = parse(html)
    assert [run["name"] for run in page.data["runs"]] == ["run-0", "run-1", "run-2"]
    assert "all 30 windows" in page.text
    assert_picture(draw(stories, heats))
