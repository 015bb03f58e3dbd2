"""The soak: what it says of made-up runs, and a short one for real."""

import json
import signal

import pytest

from experiments.soak import Sample, Trend, faults, growth
from tests.helpers.command_line import finish, run, start
from tests.helpers.waiting import wait_until

GOOD = {
    "seconds": 3600.0,
    "exit_code": 0,
    "left_behind": [],
    "summary": {"exit_reason": "interrupted", "unaccounted_steps": 0},
    "growth": {},
}


def samples(value, agents=lambda hour: 3, workers=lambda hour: 2):
    """An hour of samples of which the memory is given by the time and the number of agents."""
    hours = [step / 200 for step in range(200)]
    return [Sample(h * 3600, agents(h), workers(h), value(h, agents(h)), 0.0, workers(h) + 9, 0, 0) for h in hours]


def test_threads_that_predictors_and_trainers_need_are_no_growth():
    """A tuner that has more of them in the second half of the hour."""
    found = growth(samples(lambda hour, n: 4e8, workers=lambda hour: 2 + 6 * (hour > 0.5)), "threads")
    assert abs(found.per_hour) < 1e-6


def test_growth_is_told_apart_from_what_more_agents_need():
    number = [1, 5, 2, 9, 4, 7, 3]
    found = growth(
        samples(lambda hour, n: 4e8 + 7e6 * hour + 1e6 * n, lambda hour: number[int(hour * 200) % 7]), "server_memory"
    )
    assert found.per_hour == pytest.approx(7e6)
    assert found.error < 1


def test_growth_within_its_error_is_no_growth():
    found = growth(samples(lambda hour, n: 4e8 + 5e7 * (hash(hour) % 1000 / 1000)), "server_memory")
    assert abs(found.per_hour) < 3 * found.error
    assert found.exceeds(-1e12)
    assert not found.exceeds(3 * found.error)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"exit_code": 1}, "exit code 1"),
        ({"exit_code": None}, "exit code None"),
        ({"summary": {}}, "no summary"),
        ({"summary": {**GOOD["summary"], "unaccounted_steps": 7}}, "7 steps are unaccounted"),
        ({"left_behind": ["ga3c-x"]}, "left behind: ga3c-x"),
        ({"growth": {"threads": {"per_hour": 4.0, "error": 1.0, "mean": 20.0}}}, "threads grows"),
        ({"growth": {"threads": {"per_hour": 4.0, "error": 2.0, "mean": 20.0}}}, None),
        ({"growth": {"threads": {"per_hour": 4.0, "error": 1.0, "mean": 20.0}}, "seconds": 60.0}, None),
    ],
)
def test_faults_are_told(change, fault):
    found = faults({**GOOD, **change})
    assert bool(found) == bool(fault)
    assert fault is None or any(fault in one for one in found)


def test_growth_can_be_read_again():
    assert Trend(**json.loads(json.dumps(Trend(1.0, 2.0, 3.0).__dict__))) == Trend(1.0, 2.0, 3.0)


def check(path, code, output):
    assert code == 0, output
    result = json.loads((path / "soak.json").read_text())
    assert result["summary"]["unaccounted_steps"] == 0
    assert result["summary"]["lost_steps"] > 0
    assert (path / "soak.png").stat().st_size > 10_000
    return result


IMPATIENT = """
from experiments import soak
soak.SAMPLE_SECONDS = 0.5
soak.GROWN_UP = 1.0
"""


@pytest.mark.processes
def test_a_short_soak_of_a_real_run(tmp_path, temporary):
    """Until an agent was killed and a window was tuned, however long that takes."""

    def text_of(name):
        return "".join(path.read_text() for path in temporary.glob(f"soak-*/{name}"))

    words = ["MINUTES=10", "GAME=CartPole-v1", "KILL=3", "WINDOW=0.5", "ALSO=HIDDEN=16 MIN_BATCH=20", "OUT=soak.json"]
    process = start(tmp_path, "soak", *words, patch=IMPATIENT)
    wait_until(
        lambda: "was killed by signal 9" in text_of("output.txt") and text_of("run/tuner.jsonl").count("\n") > 1, 120
    )
    process.send_signal(signal.SIGINT)
    code, output = finish(process)
    result = check(tmp_path, code, output)
    assert "stopped early" in output
    assert result["kills"] >= 1
    assert result["windows"] >= 1
    assert result["samples"]


@pytest.mark.long
def test_an_hour_of_soaking(tmp_path):
    result = check(tmp_path, *run(tmp_path, "soak", "MINUTES=60", "OUT=soak.json", seconds=3900))
    assert result["kills"] >= 250
    assert result["windows"] >= 200
