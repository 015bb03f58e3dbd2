"""Figures of a cell against numbers derived by hand from a run directory written by hand."""

import json
import subprocess
import sys

import pytest

from experiments.papers.grid import GridCell
from experiments.papers.readings import CURVE_POINTS, MEANS, OF_UPDATES, NothingMeasured, curve, figures, trials
from experiments.papers.usage import Device, Usage, cpu_seconds
from ga3c.system.limits import available_cores
from tests.helpers.waiting import wait_until
from tuner.space import Setting, Space
from tuner.strategy import Decision, Measurement, Plan, System
from tuner.trace import Trial, header_line, trial_line

SUMMARY = {
    "score": 12.5,
    "steps": 900,
    "updates": 90,
    "seconds": 60.0,
    "agents": 3,
    "predictors": 2,
    "trainers": 1,
    "exit_reason": "max_seconds",
}


def row(seconds, window, **values):
    return {
        "seconds": seconds,
        "window": window,
        "lag_max": 0,
        "limit": "agents",
        **dict.fromkeys((*MEANS, *OF_UPDATES), 0.0),
        **values,
    }


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def cell(warm_up=0.0):
    return GridCell("id", {}, 0, (), True, warm_up, 0, 1.0)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    return tmp_path


def test_rows_after_the_warm_up_are_weighted_by_their_window(run):
    write_lines(
        run / "metrics.jsonl",
        [
            row(5.0, 2.0, pps=9999.0, lag_max=99, limit="predictors"),
            row(12.0, 7.0, pps=9999.0, lag_max=99, limit="predictors"),  # begins within the warm-up
            row(14.0, 2.0, pps=100.0, tps=5.0, lag_mean=1.0, lag_max=4, limit="trainers"),
            row(15.0, 1.0, pps=400.0, tps=8.0, lag_mean=4.0, lag_max=7, limit="agents"),
        ],
    )
    found = figures(run, cell(warm_up=10.0))
    assert found["pps"] == pytest.approx((100 * 2 + 400 * 1) / 3)
    assert found["tps"] == pytest.approx(6.0)
    assert found["lag_mean"] == pytest.approx(2.0)
    assert (found["lag_max"], found["limit"]) == (7, "trainers")  # two of three seconds
    assert {name: found[name] for name in SUMMARY if name != "exit_reason"} == {
        name: value for name, value in SUMMARY.items() if name != "exit_reason"
    }
    assert (found["cpu"], found["device"], found["memory"]) == (None, None, None)


def test_a_row_without_an_update_knows_no_lag(run):
    rows = [row(10.0, 5.0, tps=2.0, lag_mean=6.0, training_batch=40.0), row(15.0, 5.0, tps=0.0)]
    write_lines(run / "metrics.jsonl", rows)
    found = figures(run, cell())
    assert (found["tps"], found["lag_mean"], found["training_batch"]) == (1.0, 6.0, 40.0)


def test_a_run_that_did_not_play_after_the_warm_up_has_no_figures(run):
    write_lines(run / "metrics.jsonl", [row(9.0, 5.0)])
    assert figures(run, cell(warm_up=4.0))
    with pytest.raises(NothingMeasured, match="first 5 s"):
        figures(run, cell(warm_up=5.0))


def test_a_row_that_was_cut_by_a_kill_is_left_out(run):
    write_lines(run / "metrics.jsonl", [row(1.0, 1.0, pps=7.0)])
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"seconds": 2.0, "win')
    assert figures(run, cell())["pps"] == 7.0


def test_cpu_is_a_share_of_all_cores_over_the_measured_time(run):
    write_lines(run / "metrics.jsonl", [row(20.0, 5.0)])
    lines = [
        (5.0, 8.0, 100.0, 1e9, 0.9),
        (12.0, 7.0, 100.0, 9e9, 0.9),
        (14.0, 2.0, 3.0, 2e9, 0.2),
        (18.0, 4.0, 1.0, 1e9, None),
    ]
    write_lines(
        run / "usage.jsonl",
        [dict(zip(("seconds", "elapsed", "cpu_seconds", "memory", "device"), line, strict=True)) for line in lines],
    )
    found = figures(run, cell(warm_up=10.0))
    assert found["cpu"] == pytest.approx((3 + 1) / (2 + 4) / available_cores())
    assert (found["memory"], found["device"]) == (2e9, 0.2)
    # Without a warm-up the first line, which began before the run's clock, counts as well.
    assert figures(run, cell())["cpu"] == pytest.approx(204 / 21 / available_cores())


def test_the_curve_has_the_mean_of_the_games_that_ended_in_each_interval(run):
    interval = SUMMARY["seconds"] / CURVE_POINTS
    assert interval == 1.0
    (run / "episodes.csv").write_text(
        "seconds,steps,episode,score,length\n0.2,10,1,3,10\n0.9,20,2,5,10\n3.5,50,3,9,30\n60.0,900,4,12,30\n"
    )
    assert curve(run, cell()) == [[1.0, 20.0, 4.0], [4.0, 50.0, 9.0], [60.0, 900.0, 12.0]]


def test_games_of_a_training_that_was_lost_are_in_no_curve(run):
    (run / "episodes.csv").write_text(
        "seconds,steps,episode,score,length\n0.2,10,1,3,10\n"
        "1.5,20,2,100,10\n2.5,30,3,100,10\n"  # killed; the checkpoint was of the first game
        "1.1,15,2,7,5\n2.2,25,3,9,10\n"
    )
    assert curve(run, cell()) == [[1.0, 10.0, 3.0], [2.0, 15.0, 7.0], [3.0, 25.0, 9.0]]


def test_a_run_without_a_game_has_an_empty_curve(run):
    assert curve(run, cell()) == []


def test_the_final_setting_is_what_the_tuner_chose_not_what_it_was_trying(run):
    start, better, worse = Setting(1, 1, 1), Setting(4, 1, 2), Setting(9, 1, 2)
    plan = Plan("anneal", start, Space(16, 4, 4), System(2))
    rows = [row(at, 5.0, prediction_batch=batch) for at, batch in ((39.0, 1.0), (46.0, 4.0), (60.0, 6.0), (63.0, 9.0))]
    write_lines(run / "metrics.jsonl", rows)
    assert trials(run) is None
    assert figures(run, cell())["agents"] == SUMMARY["agents"]
    tried = [(start, "start", start, 2.0), (better, "accepted", better, 6.0), (worse, "refused", better, 3.0)]
    lines = [
        trial_line(
            Trial(
                number,
                20.0 * number,
                1.0,
                20.0,
                start,
                proposed,
                Measurement(proposed, (tps, tps), 5 * tps, training_queue=(6.0, 8.0)),
                Decision(verdict, incumbent, "", 0.0),
            )
        )
        for number, (proposed, verdict, incumbent, tps) in enumerate(tried, start=1)
    ]
    (run / "tuner.jsonl").write_text(header_line(plan) + "".join(lines))
    found = figures(run, cell())
    assert (found["agents"], found["predictors"], found["trainers"]) == better
    assert trials(run)[2] == {
        "seconds": 60.0,
        "agents": 9,
        "predictors": 1,
        "trainers": 2,
        "tps": 3.0,
        "pps": 15.0,
        "training_queue": 7.0,
        "prediction_batch": 5.0,  # of the two rows that lie in its window, from 40 to 60 s
        "decision": "refused",
    }


PARENT = r"""
import subprocess, sys
subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"])
print("ended", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent():
    """A process that starts a child which works and ends."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.communicate()


@pytest.mark.processes
def test_the_work_of_a_child_that_has_ended_still_counts(parent):
    seen = [0.0]

    def watch():
        seen.append(cpu_seconds(parent.pid))
        return seen[-1] > 0.3

    wait_until(watch, 60, "the work of the child")
    assert parent.stdout.readline() == "ended\n"
    assert cpu_seconds(parent.pid) >= max(seen)


@pytest.mark.processes
def test_nothing_is_known_of_a_process_that_is_not_there(parent):
    parent.communicate()
    assert cpu_seconds(parent.pid) is None


@pytest.mark.processes
def test_usage_has_a_line_for_each_row_of_the_run(parent, tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    write_lines(metrics, [row(1.0, 1.0)])  # of an earlier session
    with Usage(parent.pid, tmp_path, "cpu") as usage:
        usage.look()
        assert not (tmp_path / "usage.jsonl").exists()
        assert parent.stdout.readline() == "ended\n"
        for seconds in (7.0, 8.0):
            with metrics.open("a") as file:
                file.write(json.dumps(row(seconds, 1.0)) + "\n")
            usage.look()
            usage.look()
    first, second = map(json.loads, (tmp_path / "usage.jsonl").read_text().splitlines())
    assert (first["seconds"], second["seconds"]) == (7.0, 8.0)
    assert first["cpu_seconds"] > 0.4  # all since the start
    assert 0 <= second["cpu_seconds"] < 0.1
    assert first["elapsed"] > 0.1
    assert second["memory"] > 1e6
    assert second["device"] is None


def test_the_device_is_asked_by_its_own_tool(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho $1 >&2\necho 50\necho 70\necho '[N/A]'\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert Device(tmp_path / "none.txt", "cpu").share() is None
    device = Device(tmp_path / "device.txt", "auto")
    wait_until(lambda: "N/A" in (tmp_path / "device.txt").read_text(), 20, "the tool's numbers")
    assert device.share() == pytest.approx(0.6)
    assert device.share() is None  # nothing new
    device.close()
