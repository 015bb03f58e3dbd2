"""Replay: the same decisions row by row or an error with the row, other strategies, and what a reader gets to see."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from ga3c.__main__ import main
from tuner.heat import COLUMNS_MOST, heat_of
from tuner.page import make_page
from tuner.plots import draw
from tuner.replay import ReplayError, check_trace, replay_other
from tuner.space import Setting, Space
from tuner.story import Story, closing_sentence
from tuner.strategies import make_strategy
from tuner.strategy import Decision, Measurement, Plan, System
from tuner.table import WIDTH, trial_table
from tuner.trace import FILE, Trace, Trial, header_line, read_trace, trial_line

WINDOW, SETTLING = 10.0, 2.0
HOSTILE = '</script><img src=x onerror=alert(1)> & "quotes" \'n \x1b[31m'


def true_tps(setting):
    """Best at 6/2/2."""
    agents, predictors, trainers = setting
    return 12.0 - 0.3 * (agents - 6) ** 2 - 0.5 * (predictors - 2) ** 2 - 0.5 * (trainers - 2) ** 2


def plan_of(strategy="paper", seed=3):
    return Plan(strategy, Setting(1, 1, 1), Space(12, 4, 4), System(cores=4), seed, WINDOW, lag_limit=30.0)


def measure(setting, random, problem=""):
    if problem:
        return Measurement(setting, (0.0,), 0.0, problem=problem)
    tps = tuple(float(true_tps(setting) * (1 + 0.03 * random.normal())) for _ in range(4))
    return Measurement(setting, tps, sum(tps) * 5, 0.5, (1.0, 2.0), 4.0 + setting.agents, 12.0)


def make_trace(windows=30, *, plan=None, problems=None, seed=0):
    """A run of a strategy on a made-up machine; ``problems`` are windows that fail, with their reasons."""
    plan = plan or plan_of()
    strategy, random, incumbent, trials = make_strategy(plan), np.random.default_rng(seed), plan.start, []
    for number in range(1, windows + 1):
        proposed = strategy.propose()
        measurement = measure(proposed, random, (problems or {}).get(number, ""))
        decision = strategy.observe(measurement)
        ended = number * (WINDOW + SETTLING)
        trial = Trial(
            number, ended, SETTLING, WINDOW, incumbent, proposed, measurement, decision, strategy.random_state()
        )
        trials.append(trial)
        incumbent = decision.incumbent
    return Trace(plan, tuple(trials))


def write(path, trace, end=""):
    path.mkdir(parents=True, exist_ok=True)
    text = header_line(trace.plan) + "".join(map(trial_line, trace.trials)) + end
    (path / FILE).write_text(text, encoding="utf-8")
    return path


class Known:
    """A landscape of what a trace measured; settings that it did not have a TPS that shows it."""

    SIMULATED = 1.25

    def __init__(self, trace):
        self.measured = {}
        for trial in trace.trials:
            if not trial.measurement.problem:
                self.measured.setdefault(trial.measurement.setting, []).append(trial.measurement.mean_tps)
        self.settings = trace.plan.space.settings()

    def tps(self, setting):
        return float(np.mean(self.measured[setting])) if setting in self.measured else self.SIMULATED

    def is_measured(self, setting):
        return setting in self.measured


# --- the check -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["paper", "anneal", "off"])
def test_a_trace_from_a_file_comes_to_the_same_decisions(tmp_path, strategy):
    write(tmp_path, make_trace(40, plan=plan_of(strategy), problems={5: "refused", 6: "refused"}))
    check_trace(read_trace(tmp_path))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda trial: replace(trial, proposed=Setting(9, 3, 1)), "proposed is 9/3/1"),
        (lambda trial: replace(trial, decision=replace(trial.decision, verdict="kept")), "decision is 'kept'"),
        (lambda trial: replace(trial, decision=replace(trial.decision, reason="luck")), "reason is 'luck'"),
        (lambda trial: replace(trial, decision=replace(trial.decision, temperature=0.5)), "temperature is 0.5"),
        (
            lambda trial: replace(trial, decision=replace(trial.decision, incumbent=Setting(7, 1, 4))),
            "after it is 7/1/4",
        ),
        (lambda trial: replace(trial, random_state={"state": 1, "inc": 2}), "random state is {'state': 1, 'inc': 2}"),
    ],
)
def test_a_changed_row_is_found_with_its_number_and_both_values(change, named):
    trace = make_trace(20)
    assert trace.trials[11].decision.verdict != "kept"
    changed = replace(trace, trials=(*trace.trials[:11], change(trace.trials[11]), *trace.trials[12:]))
    with pytest.raises(ReplayError, match=r"trial 12 \(line 13\)") as caught:
        check_trace(changed)
    assert named in str(caught.value)
    assert "but the strategy now says" in str(caught.value)


def test_a_changed_measurement_changes_what_follows():
    trace = make_trace(20)
    better = replace(trace.trials[7].measurement, tps=(99.0,))
    changed = replace(trace, trials=(*trace.trials[:7], replace(trace.trials[7], measurement=better)))
    with pytest.raises(ReplayError, match="trial 8 "):
        check_trace(changed)


def test_a_strategy_that_breaks_is_a_difference(monkeypatch):
    trace = make_trace(3)
    monkeypatch.setattr("tuner.strategy.Paper.observe", lambda self, measurement: 1 / 0)
    with pytest.raises(ReplayError, match=r"trial 1 \(line 2\): the strategy fails here with ZeroDivisionError"):
        check_trace(trace)


# --- another strategy ------------------------------------------------------------------------------------------------


def test_another_strategy_runs_over_what_was_measured_and_marks_the_rest():
    trace = make_trace(30)
    replayed = replay_other(replace(trace, plan=replace(trace.plan, seed=8)), "paper", Known(trace))
    measured = Known(trace).measured
    assert len(replayed.trace.trials) == 30
    assert [trial.seconds for trial in replayed.trace.trials] == [trial.seconds for trial in trace.trials]
    marked = {trial.number for trial in replayed.trace.trials if trial.proposed not in measured}
    assert marked  # or the test shows nothing
    assert replayed.simulated == marked
    for trial in replayed.trace.trials:
        wanted = Known.SIMULATED if trial.number in marked else np.mean(measured[trial.proposed])
        assert trial.measurement.mean_tps == pytest.approx(wanted)
        assert len(trial.measurement.tps) == 4  # as uneven as the recorded window, so that noise can be judged
        assert len(set(trial.measurement.tps)) == 4
    check_trace(replayed.trace)  # it is a trace like any other


def test_a_replay_chains_the_incumbents():
    trials = replay_other(make_trace(30), "paper", Known(make_trace(30))).trace.trials
    assert trials[0].before == Setting(1, 1, 1)
    assert all(b.before == a.decision.incumbent for a, b in pairwise(trials))


def test_the_strategy_off_stays_at_the_start():
    replayed = replay_other(make_trace(10), "off", Known(make_trace(10)))
    assert {trial.proposed for trial in replayed.trace.trials} == {Setting(1, 1, 1)}
    assert not replayed.simulated


def test_simulated_windows_are_marked_wherever_they_are_shown():
    trace = make_trace(30)
    replayed = replay_other(replace(trace, plan=replace(trace.plan, seed=8)), "paper", Known(trace))
    story = Story("other", replayed.trace, replayed.simulated)
    assert f"{len(replayed.simulated)} of 30 windows simulated" in trial_table(story)
    assert sum("* " in line for line in trial_table(story).splitlines()[1:-1]) == len(replayed.simulated)
    page = parse(make_page([story], [None]))
    assert {t["number"] for t in page.data["runs"][0]["trials"] if t["simulated"]} == replayed.simulated
    assert {t["lag"] for t in page.data["runs"][0]["trials"] if t["simulated"]} == {None}  # nobody knows it
    assert page.text.count("~") == 2 * len(replayed.simulated) + 1  # TPS and PPS, and what ~ means
    plain = draw([Story("other", replayed.trace)], [None])
    assert draw([story], [None]) != plain


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


class Parsed(HTMLParser):
    """What a browser would make of a page: elements, texts outside of scripts, and the data."""

    def __init__(self):
        super().__init__()
        self.elements, self.texts, self.scripts, self._inside = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data):
        (self.scripts if self._inside else self.texts).append(data)

    @property
    def text(self):
        return "".join(self.texts)

    @property
    def data(self):
        return json.loads(next(script for script in self.scripts if script.startswith('{"unit"')))


def parse(html):
    page = Parsed()
    page.feed(html)
    page.close()
    return page


def assert_self_contained(html):
    page = parse(html)
    assert not re.search(r"https?://|url\((?!#)|@import|\bfetch\(|XMLHttpRequest|import\(", html)
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "href", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]


def assert_picture(content):
    image = Image.open(io.BytesIO(content))
    assert image.format == "PNG"
    assert image.width == 1200
    assert 800 < image.height < 4000
    assert len(set(np.asarray(image.convert("L")).ravel())) > 20  # something is drawn


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


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_and_writes(tmp_path, capsys):
    run = write(tmp_path / "pong", make_trace(12))
    assert main(["replay", f"RUN={run}"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines()[:13])) <= WIDTH
    assert "pong: 1/1/1 → " in printed
    assert "same decision in every window" in printed
    assert str(run / "replay.html") in printed
    assert_picture((run / "replay.png").read_bytes())
    assert_self_contained((run / "replay.html").read_text(encoding="utf-8"))


def test_the_command_shows_another_strategy_and_several_runs(tmp_path, capsys):
    runs = [write(tmp_path / name, make_trace(10, plan=plan_of(seed=seed))) for seed, name in enumerate("abc")]
    out = tmp_path / "out"
    assert main(["replay", f"RUN={runs[0]}", "STRATEGY=anneal", f"OUT={out}"]) == 0
    printed = capsys.readouterr().out
    assert "no recorded run" in printed
    assert sorted(path.name for path in out.iterdir()) == ["replay-anneal.html", "replay-anneal.png"]
    marked = [t["simulated"] for t in parse((out / "replay-anneal.html").read_text()).data["runs"][0]["trials"]]
    assert any(marked)
    assert f"{sum(marked)} of 10 windows are simulated" in printed
    assert main(["replay", f"RUN={','.join(map(str, runs))}", f"OUT={out}"]) == 0
    assert [run["name"] for run in parse((out / "replay.html").read_text()).data["runs"]] == ["a", "b", "c"]


def test_a_difference_fails_and_can_still_be_looked_at(tmp_path, capsys):
    trace = make_trace(8)
    luck = replace(trace.trials[5], decision=replace(trace.trials[5].decision, reason="luck"))
    run = write(tmp_path / "run", replace(trace, trials=(*trace.trials[:5], luck, *trace.trials[6:])))
    assert main(["replay", f"RUN={run}"]) == 1
    assert "ga3c: run: trial 6 (line 7): reason is 'luck' in the trace" in capsys.readouterr().err
    assert "no longer decides as it did" in parse((run / "replay.html").read_text()).text


def test_a_killed_run_replays_with_a_note(tmp_path, capsys):
    run = write(tmp_path / "run", make_trace(8), end='{"trial": 9, "seco')
    assert main(["replay", f"RUN={run}"]) == 0
    assert "last line of the trace is broken" in capsys.readouterr().out
    assert "last line of the trace is broken" in parse((run / "replay.html").read_text()).text


def test_a_trace_without_trials_is_no_error(tmp_path, capsys):
    assert main(["replay", f"RUN={write(tmp_path / 'run', make_trace(0))}"]) == 0
    assert "nothing was decided" in capsys.readouterr().out


def test_one_trial_only(tmp_path, capsys):
    assert main(["replay", f"RUN={write(tmp_path / 'run', make_trace(1))}"]) == 0
    assert "over 1 window" in capsys.readouterr().out


def test_a_run_that_never_trained(tmp_path, capsys):
    assert main(["replay", f"RUN={write(tmp_path / 'run', make_still_trace(5))}"]) == 0
    assert "0.00 TPS" in capsys.readouterr().out


def make_still_trace(windows):
    plan, trials = plan_of("off"), []
    strategy = make_strategy(plan)
    for number in range(1, windows + 1):
        measurement = Measurement(strategy.propose(), (0.0, 0.0), 0.0)
        decision = strategy.observe(measurement)
        trials.append(Trial(number, 12.0 * number, 2.0, 10.0, plan.start, plan.start, measurement, decision))
    return Trace(plan, tuple(trials))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ('{"version": 99}\n', "is of version 99; this program reads version 1"),
        ("nonsense\nnonsense\n", "line 1 is broken"),
        (header_line(replace(plan_of(), strategy="guess")), "strategy 'guess'; this program has anneal"),
        (None, f"has no {FILE}"),
    ],
)
def test_what_is_no_trace_is_told_in_a_sentence(tmp_path, capsys, content, told):
    if content is not None:
        (tmp_path / FILE).write_text(content)
    assert main(["replay", f"RUN={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "RUN is missing"),
        (["RUN=,"], "RUN is missing"),
        (["RUNS=a"], "Did you mean RUN?"),
        (["RUN=a", "STRATEGY=papr"], "Did you mean paper?"),
        (["RUN=a", "OUT=/nowhere/at/all"], "does not exist"),
        (["RUN=a", f"OUT={__file__}"], "is a file"),
    ],
)
def test_wrong_words_are_refused(capsys, words, told):
    assert main(["replay", *words]) == 2
    assert told in capsys.readouterr().err
