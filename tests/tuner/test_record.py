"""A tuner that goes on with the trace of a run that was ended, or sets it aside."""

import resource
from dataclasses import replace

import pytest

from tests.helpers.fake_server import PLAN, FakeServer, wait_for_trials
from tests.helpers.waiting import wait_until
from tuner.controller import Controller
from tuner.record import Record, restore
from tuner.space import Setting, Space
from tuner.strategies import STRATEGIES, make_strategy
from tuner.strategy import Measurement, Paper
from tuner.trace import VERSION, Trial, header_line, read_trace, trial_line


def trace_of(path, count, plan=PLAN, seed=7):
    """A trace of the paper's walk, as a run that was ended left it; returns its strategy."""
    strategy = Paper(plan)
    lines = [header_line(plan)]
    incumbent = plan.start
    for number in range(1, count + 1):
        proposed = strategy.propose()
        tps = (100.0 + (37 * number * seed) % 50,) * 6
        measured = Measurement(proposed, tps, 1.0, training_queue=(1.0,) * 6)
        decision = strategy.observe(measured)
        state = strategy.random_state()
        trial = Trial(number, 60.0 * number, 1.0, 60.0, incumbent, proposed, measured, decision, state)
        lines.append(trial_line(trial))
        incumbent = decision.incumbent
    (path / "tuner.jsonl").write_text("".join(lines))
    return strategy


def resume(path, plan=PLAN):
    return Record(path).resumable(plan)


def test_a_resumed_tuner_goes_on_as_if_it_had_not_stopped(tmp_path, tune):
    strategy = trace_of(tmp_path, 9)
    before = (tmp_path / "tuner.jsonl").read_text()
    # Start and bounds are those of the trace: what is free on a machine differs from start to start.
    trace = resume(tmp_path, replace(PLAN, start=Setting(1, 1, 1), space=Space(9, 4, 4)))
    tune(FakeServer(), resumed=trace)
    tenth = wait_for_trials(tmp_path, 10)[9]
    assert tenth.number == 10
    assert tenth.before == trace.trials[-1].decision.incumbent
    assert tenth.proposed == strategy.propose()
    assert (tmp_path / "tuner.jsonl").read_text().startswith(before)
    assert read_trace(tmp_path).plan == PLAN


def test_a_trace_without_trials_is_gone_on_with(tmp_path, tune):
    trace_of(tmp_path, 0)
    tune(FakeServer(), resumed=resume(tmp_path))
    assert wait_for_trials(tmp_path, 1)[0].decision.verdict == "start"


@pytest.mark.parametrize("end", ['{"trial": 5, "seco', "\n", "garbage\n"])
def test_a_broken_last_line_is_cut_off(tmp_path, tune, end):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    whole = file.read_text()
    file.write_text(whole + end)
    tune(FakeServer(), resumed=resume(tmp_path))
    assert wait_for_trials(tmp_path, 5)[4].number == 5
    assert file.read_text().startswith(whole)


def test_a_last_line_without_its_end_is_completed(tmp_path, tune):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    whole = file.read_text()
    file.write_text(whole.removesuffix("\n"))
    tune(FakeServer(), resumed=resume(tmp_path))
    assert [trial.number for trial in wait_for_trials(tmp_path, 5)[:5]] == [1, 2, 3, 4, 5]
    assert file.read_text().startswith(whole)


def break_version(text):
    return text.replace(f'"version": {VERSION}', '"version": 99')


def break_middle(text):
    return text.replace('"trial": 2,', '"trial": 2', 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (break_version, "is of version 99"),
        (break_middle, "line 3 is broken"),
        (lambda text: "", "is empty"),
        (lambda text: text.replace('"min_batch": 1', '"min_batch": 7'), "another plan"),
        (lambda text: text.replace('"window": 0.06', '"window": 20.0', 1), "another plan"),
    ],
)
def test_a_trace_that_does_not_fit_is_moved_aside(tmp_path, tune, caplog, change, reason):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    changed = change(file.read_text())
    file.write_text(changed)
    assert resume(tmp_path) is None
    assert "begins anew" in caplog.text
    assert reason in caplog.text
    assert (tmp_path / "tuner-1.jsonl").read_text() == changed
    tune(FakeServer())
    assert wait_for_trials(tmp_path, 1)[0].number == 1
    trace_of(tmp_path, 4)
    file.write_text(changed)
    assert resume(tmp_path) is None
    assert (tmp_path / "tuner-2.jsonl").read_text() == changed


def test_a_trace_whose_decisions_are_no_longer_made_is_moved_aside(tmp_path, tune, caplog):
    trace_of(tmp_path, 4)
    file = tmp_path / "tuner.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + lines[1] + lines[3])  # as if the walk had taken another way
    fresh = replace(PLAN, start=Setting(4, 2, 2))
    tune(FakeServer(), plan=fresh, resumed=resume(tmp_path))
    wait_until((tmp_path / "tuner-1.jsonl").exists)
    first = wait_for_trials(tmp_path, 1)[0]
    assert (first.number, first.proposed) == (1, fresh.start)
    assert read_trace(tmp_path).plan == fresh
    assert "trial 3 was" in caplog.text


def test_every_strategy_is_restored_from_its_own_trace(tmp_path, tune):
    for name in STRATEGIES:
        directory = tmp_path / name
        directory.mkdir()
        plan = replace(PLAN, strategy=name)
        thread = Controller(FakeServer(), plan, Record(directory), make_strategy)
        thread.start()
        trials = wait_for_trials(directory, 5)
        thread.stop(5)
        strategy = make_strategy(plan)
        restore(strategy, replace(read_trace(directory), trials=trials))
        assert strategy.random_state() == trials[-1].random_state or name == "off", name


def test_trials_that_a_full_disk_did_not_take_are_written_at_the_end_as_far_as_there_is_room(tmp_path):
    trace_of(tmp_path, 5)
    lines = (tmp_path / "tuner.jsonl").read_text().splitlines(keepends=True)
    trials = read_trace(tmp_path).trials
    (tmp_path / "tuner.jsonl").unlink()
    record = Record(tmp_path)
    record.begin(PLAN)
    (tmp_path / "tuner.jsonl").rename(tmp_path / "aside")
    (tmp_path / "tuner.jsonl").mkdir()  # so it cannot be written
    for trial in trials:
        record.add(trial)
    (tmp_path / "tuner.jsonl").rmdir()
    (tmp_path / "aside").rename(tmp_path / "tuner.jsonl")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = len("".join(lines[:3])) + 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        record.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "tuner.jsonl").read_text() == "".join(lines[:3])
    record.close()
    assert (tmp_path / "tuner.jsonl").read_text() == "".join(lines)
