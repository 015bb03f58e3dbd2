"""Replay: the same decisions row by row or an error with the row, other strategies, and the command."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ga3c.__main__ import main
from tests.helpers.pages import assert_picture, assert_self_contained, parse
from tests.helpers.traces import Known, make_trace, plan_of, write
from tuner.page import make_page
from tuner.plots import draw
from tuner.retrace import ReplayError, check_trace, replay_other
from tuner.space import Setting
from tuner.story import Story
from tuner.strategies import make_strategy
from tuner.strategy import Measurement
from tuner.table import WIDTH, trial_table
from tuner.trace import FILE, Trace, Trial, header_line, read_trace

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
