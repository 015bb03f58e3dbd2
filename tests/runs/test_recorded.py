"""``list`` and ``watch``: runs as their directories tell of them, those at work and those that ended somehow."""

import json
import os
import re
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from rich.cells import cell_len

from ga3c.runs import list_runs, watch
from ga3c.runs.display import PanelDisplay
from ga3c.runs.recorded import AT_WORK, KILLED, STARTING, TAIL, Recorded, find_runs, last_rows
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from ga3c.system.files import is_locked, lock_directory
from tests.helpers.command_line import QUICK, finish, rows_of, start
from tests.helpers.waiting import wait_until
from tests.runs.test_display import Terminal, make_row

NOW = time.time()


def make_run(path, *, game="Pong", algo="ga3c", steps=1000, score=20.5, reason="max_steps", ago=60.0, **settings):
    path.mkdir(parents=True)
    config = Config(game=game, algo=algo, **settings)
    (path / "config.json").write_text(json.dumps(config.to_dict()))
    add_row(path, steps=steps, score=score)
    if reason:
        (path / "summary.json").write_text(json.dumps({"steps": steps, "score": score, "exit_reason": reason}))
    for file in path.iterdir():
        os.utime(file, (NOW - ago, NOW - ago))
    return path


def add_row(path, **changes):
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(make_row(**changes)) + "\n")


@pytest.fixture
def at_work():
    """Lets a directory be that of a run at work; all are given back at the end."""
    locks = []

    def take(path):
        locks.append(lock_directory(path))
        return path

    yield take
    for number in locks:
        os.close(number)


def lines(*runs, width=200):
    return [line.plain for line in list_runs.table([Recorded(run) for run in runs], width)]


# What a directory tells


def test_a_lock_tells_that_it_is_at_work_and_can_still_be_taken(tmp_path, at_work):
    assert not is_locked(tmp_path)
    assert not is_locked(tmp_path)
    at_work(tmp_path)
    assert is_locked(tmp_path)


@pytest.mark.parametrize("reason", ["max_steps", "interrupted", "callback", "failed: no room"])
def test_a_run_that_ended_says_how(tmp_path, reason):
    assert Recorded(make_run(tmp_path / "run", reason=reason)).state == reason


def test_a_run_without_an_end_was_killed(tmp_path):
    """The kernel gives locks back, so a machine that went down counts as well."""
    assert Recorded(make_run(tmp_path / "run", reason="")).state == KILLED


def test_a_resumed_run_without_an_end_was_killed_too(tmp_path):
    run = make_run(tmp_path / "run")
    os.utime(run / "metrics.jsonl", (NOW - 30, NOW - 30))
    assert Recorded(run).state == KILLED


def test_a_run_at_work_is_so_whatever_it_ended_with_before(tmp_path, at_work):
    run = at_work(make_run(tmp_path / "run"))
    assert Recorded(run).state == AT_WORK
    (run / "metrics.jsonl").unlink()
    assert Recorded(run).state == STARTING


def test_the_last_row_is_found_in_a_long_file_that_just_grows(tmp_path):
    path = tmp_path / "metrics.jsonl"
    row = json.dumps(make_row(steps=1)) + "\n"
    path.write_text(row * (3 * TAIL // len(row)) + json.dumps(make_row(steps=77)) + '\n{"steps": 78, "sco')
    rows = last_rows(path)
    assert rows[-1]["steps"] == 77
    assert len(rows) < 2 * TAIL // len(row)
    assert last_rows(tmp_path / "none") == []


# list


def test_the_newest_stands_first_and_what_is_no_run_is_left_out(tmp_path, at_work, monkeypatch):
    monkeypatch.setattr(list_runs, "time", SimpleNamespace(time=lambda: NOW))
    make_run(tmp_path / "old", ago=90_000)
    make_run(
        tmp_path / "new", game="CartPole-v1", algo="a3c", steps=1_234_567, score=-20.13, ago=600, reason="failed: x"
    )
    at_work(make_run(tmp_path / "busy", ago=5, reason=""))
    (tmp_path / "nothing").mkdir()
    (tmp_path / "file").write_text("")
    at_work(tmp_path / "nothing")
    names = [run.path.name for run in find_runs(tmp_path)]
    assert names == ["nothing", "busy", "new", "old"]
    _, starting, busy, new, old = (line.split() for line in lines(*(tmp_path / name for name in names)))
    assert starting == ["nothing", "–", "–", "–", "–", *starting[5:-1], "starting"]
    assert busy == ["busy", "Pong", "ga3c", "20.5", "1,000", busy[5], "s", "at", "work"]
    assert new == ["new", "CartPole-v1", "a3c", "-20.1", "1,234,567", "10", "min", "failed"]
    assert old == ["old", "Pong", "ga3c", "20.5", "1,000", "1", "days", "max_steps"]


@pytest.mark.parametrize("width", [100, 80, 60, 40, 25])
def test_the_table_fits(tmp_path, width):
    runs = [
        make_run(tmp_path / f"a-long-name-of-a-run-{number}", game="CartPole-v1", steps=10**9, reason=reason)
        for number, reason in enumerate(["max_steps", "interrupted"])
    ]
    table = lines(*runs, width=width)
    assert max(map(cell_len, table)) <= width
    head, *rows = table
    assert head.split()[0] == "run"
    assert head.split()[-1] == "state"
    assert ("game" in head, "steps" in head) == (width >= 80, width >= 60)
    for number, row in enumerate(rows):
        assert f"run-{number} " in row  # the end of the name
        assert row.endswith(["max_steps", "interrupted"][number])


def test_list_prints_the_table_or_that_there_is_none(tmp_path, capsys):
    assert list_runs.main([f"RUNS={tmp_path}"]) == 0
    assert capsys.readouterr().out == f"there are no runs in {tmp_path}\n"
    make_run(tmp_path / ("a" * 200))
    assert list_runs.main([f"RUNS={tmp_path}"]) == 0
    _, row = capsys.readouterr().out.splitlines()
    assert row.startswith("a" * 200)  # a pipe has no width
    with pytest.raises(ConfigError, match="there are no runs in nowhere"):
        list_runs.main(["RUNS=nowhere"])


# watch


def test_rows_are_followed_until_the_run_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.001)
    run, looks = make_run(tmp_path / "run", reason=""), []
    for steps in range(1001, 1020):
        add_row(run, steps=steps)
    lock = lock_directory(run)
    thread = threading.Thread(target=lambda: looks.extend(watch.follow(Recorded(run), 3)))
    thread.start()
    wait_until(lambda: looks)
    half = json.dumps(make_row(steps=1020))
    with (run / "metrics.jsonl").open("a") as file:
        file.write(half[:50])
        file.flush()
        before = len(looks)
        wait_until(lambda: len(looks) > before + 2)
        file.write(half[50:] + "\n" + json.dumps(make_row(steps=1021)) + "\n")
    add_row(run, steps=1022)
    os.close(lock)
    thread.join(10)
    assert [row["steps"] for rows in looks for row in rows] == [1017, 1018, 1019, 1020, 1021, 1022]


def test_a_run_that_ended_is_shown_once(tmp_path, capsys):
    run = make_run(tmp_path / "run", steps=1000)
    assert watch.main([f"RUN={run}"]) == 0
    row, end = capsys.readouterr().out.splitlines()
    assert "steps       1,000" in row
    assert end == f"{run}: max_steps, score 20.5 after 1,000 steps"


def test_a_run_that_ended_before_it_began_is_told_and_listed(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "summary.json").write_text(json.dumps({"steps": 0, "score": None, "exit_reason": "interrupted"}))
    assert watch.main([f"RUN={run}"]) == 0
    assert capsys.readouterr().out == f"{run}: interrupted, score – after 0 steps\n"
    assert [found.path for found in find_runs(tmp_path)] == [run]


def test_on_a_terminal_it_is_the_panel(tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    shown = []
    update = PanelDisplay.update
    monkeypatch.setattr(PanelDisplay, "update", lambda display, row: shown.append(row["steps"]) or update(display, row))
    run = make_run(tmp_path / "run", max_steps=2000)
    add_row(run, steps=1500)
    watch.watch(Recorded(run))
    assert shown == [1500]  # the newest one alone
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "75% of steps" in text
    assert watch.FOOTER in text
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is there again


def test_rows_and_settings_of_another_version_are_shown(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    settings = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**settings, "colour": "blue"}))
    (run / "metrics.jsonl").write_text('{"seconds": 3.0, "steps": 12, "hue": 7}\n')
    watch.watch(Recorded(run))
    assert "steps          12" in capsys.readouterr().out


def test_the_newest_at_work_is_watched_where_none_is_named(tmp_path, monkeypatch, at_work):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="there are no runs in runs"):
        watch.main([])
    make_run(tmp_path / "runs/older", ago=100)
    busy = make_run(tmp_path / "runs/busy", ago=50, reason="")
    make_run(tmp_path / "runs/newest", ago=2)
    assert watch.newest(tmp_path / "runs").path.name == "newest"
    at_work(busy)
    assert watch.newest(tmp_path / "runs").path.name == "busy"
    with pytest.raises(ConfigError, match="nowhere is not a run directory"):
        watch.main(["RUN=nowhere"])
    with pytest.raises(ConfigError, match=r"there is no config\.json in it"):
        watch.main([f"RUN={tmp_path}"])


@pytest.mark.processes
def test_a_run_is_watched_from_its_first_row_to_its_end_and_listed_as_killed(tmp_path):
    run = start(tmp_path, *QUICK, "SERIAL=1", "RUN=runs/here", "LOG_SECONDS=0.2", "MAX_SECONDS=200")
    wait_until(lambda: rows_of(tmp_path / "runs/here"))
    watching, left = (start(tmp_path, "watch") for _ in range(2))
    wait_until(lambda: "at work" in finish(start(tmp_path, "list"))[1])
    line = watching.stdout.readline()
    assert "steps" in line
    left.stdout.readline()
    left.send_signal(signal.SIGINT)
    assert finish(left)[0] == 0
    assert run.poll() is None
    run.kill()
    run.wait(20)
    code, output = finish(watching)
    assert code == 0
    assert re.search(r"runs/here: killed, score [\d.–]+ after [\d,]+ steps\n$", output)
    assert finish(start(tmp_path, "list"))[1].splitlines()[1].endswith("killed")
