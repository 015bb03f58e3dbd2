"""Disks that are full, cannot be written or are gone: training goes on, and what is lost is told."""

import json
import re
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from ga3c.runs.checkpoint import load_newest
from ga3c.settings.config import Config
from ga3c.system.files import Appender, append_whole
from tests.helpers.command_line import QUICK, finish, rows_of, run, start, summary_of, trains
from tests.helpers.needed import lacks
from tests.helpers.waiting import wait_until

CHECKPOINTS = ["CHECKPOINT_SECONDS=0.5", "TENSORBOARD=1"]


def can_mount():
    return not lacks("unshare") and not subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode


needs_mount = pytest.mark.skipif(not can_mount(), reason="file systems cannot be mounted in a namespace here")


def limit_file_size(size, pid=0):
    """Writing beyond it fails as on a full disk, for this process or another one and those that it starts."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def text_of(path):
    return path.read_text() if path.exists() else ""


def told_rows(output):
    """Rows of the log on the screen."""
    return len(re.findall(r"  steps +[\d,]+ ", output))


def steps_said(output):
    return [int(number.replace(",", "")) for number in re.findall(r"  steps +([\d,]+)", output)]


def unwritable(output):
    """Each file that the log says to be so, as often as it says it."""
    return sorted(re.findall(r"WARNING (\S+) cannot be written", output))


@pytest.mark.processes
def test_a_disk_that_was_full_is_used_again(tmp_path):
    process = start(tmp_path, *QUICK, *CHECKPOINTS, "RUN=here", preexec_fn=lambda: limit_file_size(1500))
    path = tmp_path / "here"
    wait_until(lambda: "metrics.jsonl cannot be written" in text_of(path / "log.txt"), 120)
    wait_until(lambda: "no checkpoint can be written" in text_of(path / "log.txt"), 120)
    limit_file_size(resource.RLIM_INFINITY, process.pid)
    wait_until(lambda: list(path.glob("checkpoints/*.safetensors")), 120)
    process.send_signal(signal.SIGINT)
    code, output = finish(process)
    assert code == 0, output
    told = unwritable(output)
    assert "metrics.jsonl" in told
    assert len(told) == len(set(told))
    assert output.count("no checkpoint can be written ([Errno 27]") == 1
    assert output.count("checkpoints can be written again") == 1
    # What could not be written at first was kept, and no line is broken.
    assert len(rows_of(path)) == told_rows(output)
    summary = summary_of(path)
    lines = (path / "episodes.csv").read_text().splitlines()
    assert [int(line.split(",")[2]) for line in lines[1:]] == list(range(1, summary["episodes"] + 1))
    assert load_newest(path)[2]["updates"] == summary["updates"]
    assert json.loads((path / "config.json").read_text())["game"] == "CartPole-v1"


@pytest.mark.processes
@needs_mount
def test_a_run_that_cannot_save_its_last_checkpoint_says_so_and_fails(tmp_path):
    (tmp_path / "here").mkdir()
    # With the summary copied to where it can be seen: what is mounted is gone with the run.
    script = 'mount -t tmpfs -o size=256k none here; "$@"; code=$?; cp here/summary.json .; exit $code'
    code, output = run(
        *(tmp_path, *QUICK, *CHECKPOINTS, "RUN=here", "HIDDEN=256", "MAX_STEPS=1000"),
        through=["unshare", "-rm", "sh", "-c", script, "sh"],
    )
    assert code == 1, output
    assert output.count("no checkpoint can be written ([Errno 28] No space left on device)") == 1
    reason = summary_of(tmp_path)["exit_reason"]
    assert reason.startswith("failed: max_steps, and its last checkpoint could not be written ([Errno 28]")
    assert output.rstrip().endswith(reason.removeprefix("failed: "))


@pytest.mark.processes
@needs_mount
def test_a_run_directory_that_becomes_read_only(tmp_path):
    path = tmp_path / "here"
    path.mkdir()
    script = (
        'mount --bind here here; "$@" & run=$!\n'
        "until [ -e lock ]; do sleep 0.1; done; until mount -o remount,ro,bind here; do sleep 0.05; done\n"
        "until [ -e end ]; do sleep 0.1; done; kill -INT $run; wait $run"
    )
    said = tmp_path / "said.txt"
    with said.open("w") as output:
        words = (*QUICK, *CHECKPOINTS, "RUN=here")
        process = start(tmp_path, *words, through=["unshare", "-rm", "sh", "-c", script, "sh"], output=output)
    wait_until(lambda: trains(path)() and list(path.glob("checkpoints/*.safetensors")), 120)
    (tmp_path / "lock").touch()
    wait_until(lambda: "metrics.jsonl" in unwritable(said.read_text()))
    rows = rows_of(path)
    wait_until(lambda: steps_said(said.read_text())[-1] > rows[-1]["steps"])  # it goes on
    (tmp_path / "end").touch()
    code, _ = finish(process)
    output = said.read_text()
    assert code == 1, output
    events = next(path.glob("events.out.tfevents*")).name
    files = sorted({events, "episodes.csv", "log.txt", "metrics.jsonl", "summary.json"})
    assert unwritable(output) == files
    assert re.search(
        r"interrupted, and its last checkpoint could not be written .*: the newest is of update \d+$", output
    )
    assert "there is no summary of it" in output
    assert "summary in" not in output
    assert steps_said(output)[-1] > rows[-1]["steps"]
    assert load_newest(path)[2]["updates"] > 0


@pytest.mark.processes
def test_a_run_directory_that_is_moved_away_is_made_again(tmp_path):
    process = start(tmp_path, *QUICK, *CHECKPOINTS, "RUN=here")
    path = tmp_path / "here"
    wait_until(trains(path), 120)
    path.rename(tmp_path / "elsewhere")
    wait_until(trains(path), 30)
    process.send_signal(signal.SIGINT)
    code, output = finish(process)
    assert code == 0, output
    assert load_newest(path)[2]["updates"] == summary_of(path)["updates"]
    assert Config.from_mapping({"resume": str(path)}).game == "CartPole-v1"  # it can be gone on with


@pytest.mark.processes
@needs_mount
def test_a_run_directory_that_can_never_be_written_is_refused(tmp_path):
    (tmp_path / "here").mkdir()
    code, output = run(
        *(tmp_path, *QUICK, "RUN=here"),
        through=["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o ro none here; "$@"', "sh"],
    )
    assert code == 2, output
    assert "the run directory here cannot be written: Read-only file system" in output


@pytest.mark.processes
@needs_mount
def test_a_disk_that_is_full_from_the_start_is_refused(tmp_path):
    (tmp_path / "here").mkdir()
    script = 'mount -t tmpfs -o size=64k none here; cat /dev/zero > here/filled; "$@"'
    code, output = run(
        *(tmp_path, *QUICK, "RUN=here", "MAX_STEPS=500"), through=["unshare", "-rm", "sh", "-c", script, "sh"]
    )
    assert code == 2, output
    assert "the run directory here cannot be written: No space left on device" in output


@pytest.mark.processes
@needs_mount
def test_what_a_full_disk_did_not_take_is_written_when_there_is_room_at_the_end(tmp_path):
    (tmp_path / "here").mkdir()
    script = (
        'mount -t tmpfs -o size=512k none here; "$@" & run=$!\n'
        "until [ -e fill ]; do sleep 0.05; done; cat /dev/zero > here/filled\n"
        "until [ -e end ]; do sleep 0.05; done; rm here/filled; kill -INT $run; wait $run; code=$?\n"
        "cp -r here saved; exit $code"
    )
    with (tmp_path / "said").open("w") as said:
        process = start(
            *(tmp_path, *QUICK, "RUN=here"), through=["unshare", "-rm", "sh", "-c", script, "sh"], output=said
        )
    wait_until(lambda: "first prediction" in text_of(tmp_path / "said"), 120)
    (tmp_path / "fill").touch()
    wait_until(lambda: "metrics.jsonl cannot be written" in text_of(tmp_path / "said"), 60)
    before = told_rows(text_of(tmp_path / "said"))
    wait_until(lambda: told_rows(text_of(tmp_path / "said")) > before + 2, 60)
    (tmp_path / "end").touch()
    code, _ = finish(process)
    output, path = text_of(tmp_path / "said"), tmp_path / "saved"
    assert code == 0, output
    assert len(rows_of(path)) == told_rows(output)
    assert f"summary in {Path('here', 'summary.json')}" in output
    for line in ("first prediction after", "metrics.jsonl cannot be written", "metrics.jsonl can be written again"):
        assert text_of(path / "log.txt").count(line) == 1
    lines = (path / "episodes.csv").read_text().splitlines()
    assert [int(line.split(",")[2]) for line in lines[1:]] == list(range(1, summary_of(path)["episodes"] + 1))


def test_what_there_is_no_room_for_is_kept_and_the_rest_is_written(tmp_path):
    path = tmp_path / "lines"
    file = Appender(path, header=b"header\n")
    file.add(b"")
    assert path.read_bytes() == b"header\n"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    limit_file_size(12)
    try:
        for line in (b"a line that is too long\n", b"two\n", b"", b"three\n"):
            with pytest.raises(OSError, match="too large"):
                file.add(line)
        assert path.read_bytes() == b"header\n"
        limit_file_size(36)
        with pytest.raises(OSError, match="too large"):
            file.flush()
        assert path.read_bytes() == b"header\na line that is too long\ntwo\n"
    finally:
        limit_file_size(before)
    file.flush()
    file.flush()
    assert path.read_bytes() == b"header\na line that is too long\ntwo\nthree\n"


def test_lines_are_added_whole_or_not_at_all(tmp_path):
    path = tmp_path / "lines"
    append_whole(path, b"one\n", header=b"header\n")
    append_whole(path, b"two\n", header=b"header\n")
    assert path.read_bytes() == b"header\none\ntwo\n"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    limit_file_size(20)
    try:
        with pytest.raises(OSError, match="too large"):
            append_whole(path, b"a long line\n")
    finally:
        limit_file_size(before)
    assert path.read_bytes() == b"header\none\ntwo\n"
