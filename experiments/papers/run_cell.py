"""One cell of an experiment: a training run as a user starts it, watched from outside, and the record of what it gave.

``cell.json``, in the directory of the run, is written when all is there. Until then a cell is not done: one that learns
goes on from its checkpoint, another is run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.hardware import device_name, hardware
from experiments.papers import readings
from experiments.papers.grid import GridCell
from experiments.papers.usage import Usage
from ga3c.settings.declare import ConfigError
from ga3c.system.files import lock_directory, write_json
from ga3c.system.signals import ready_to_end_with_parent

RECORD = "cell.json"
EVALUATION = "evaluation.json"
OUTPUT = "output.txt"  # what the run prints
LOOK_SECONDS = 0.1
END_SECONDS = 10.0  # for a run that was told to end, and for one whose experiment was killed
COMPLETE = ("max_seconds", "max_steps")  # exit reasons of a run that came to its end


class CellFailed(RuntimeError):
    """A cell gave no figures; the message says why."""


def record_of(directory: Path) -> dict[str, Any] | None:
    """What became of a cell; None where it has not been run to its end."""
    path = directory / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def run_cell(cell: GridCell, directory: Path) -> dict[str, Any]:
    """Run the cell, or what is left of it, and record what it gave, or why it failed."""
    started = time.monotonic()
    spent = readings.summary_of(directory).get("seconds", 0.0)  # in sessions before this one
    found: dict[str, Any] = {"figures": {}, "curve": None, "trials": None, "evaluation": None, "error": None}
    try:
        _wait_for_orphan(directory)
        if not cell.learning and record_of(directory) is not None:
            shutil.rmtree(directory)  # it failed
        if readings.summary_of(directory).get("exit_reason") not in COMPLETE:
            _train(cell, directory)
        if cell.evaluate:
            found["evaluation"] = _evaluate(cell, directory)
        found["figures"] = readings.figures(directory, cell)
        found["curve"] = readings.curve(directory, cell) if cell.learning else None
        found["trials"] = readings.trials(directory)
    except (CellFailed, readings.NothingMeasured, ConfigError) as error:
        found["error"] = str(error)
    except Exception as error:  # whatever a file of the run holds: the other cells are worth more
        found["error"] = f"{type(error).__name__}: {error}"
    machine = {**hardware(), "device": device_name()}
    record = {
        "id": cell.id,
        "settings": cell.settings,
        "seed": cell.seed,
        **found,
        "words": list(cell.words),
        "date": machine["date"],
        "commit": machine["commit"] or None,
        "hardware": {key: value for key, value in machine.items() if key not in ("date", "commit")},
        "spent": spent + time.monotonic() - started,
    }
    write_json(directory / RECORD, record)
    return record


def _train(cell: GridCell, directory: Path) -> None:
    """Train until the end that its settings say."""
    (directory / "summary.json").unlink(missing_ok=True)  # of a session before, whose end is not that of this one
    if (
        cell.learning
        and (directory / "config.json").exists()
        and any((directory / "checkpoints").glob("*.safetensors"))
    ):
        words = [f"RESUME={directory}"]  # which has all its settings
        (directory / RECORD).unlink(missing_ok=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        words = [*cell.words, f"RUN={directory}"]
    device = next((word.partition("=")[2] for word in cell.words if word.startswith("DEVICE=")), "auto")
    with _process(words, directory) as process, Usage(process.pid, directory, device) as usage:
        while process.poll() is None:
            usage.look()
            time.sleep(LOOK_SECONDS)
        code = process.returncode
    reason = readings.summary_of(directory).get("exit_reason", "")
    if code or reason not in COMPLETE:
        raise CellFailed(reason.removeprefix("failed: ") or f"{_last_line(directory)} (exit code {code})")


def _evaluate(cell: GridCell, directory: Path) -> dict[str, Any]:
    out = directory / EVALUATION
    if not out.exists():
        words = ["eval", f"RUN={directory}", f"EPISODES={cell.evaluate}", f"OUT={out}"]
        with _process(words, directory) as process:
            code = process.wait()
        if code:
            raise CellFailed(f"its evaluation failed: {_last_line(directory)} (exit code {code})")
    evaluation: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return evaluation


@contextlib.contextmanager
def _process(words: list[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command line of the project with these words; it is ended where it is left early."""
    with (directory / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ga3c", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C ends the experiment, and that ends the run
            # An experiment that is killed takes its cell with it, which has the time to save.
            preexec_fn=ready_to_end_with_parent(signal.SIGTERM),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_orphan(directory: Path) -> None:
    """The run of an experiment that was killed may still be ending."""
    until = time.monotonic() + END_SECONDS
    while directory.exists():
        try:
            number = lock_directory(directory)
        except ConfigError:
            if time.monotonic() > until:
                raise
            time.sleep(LOOK_SECONDS)
        else:
            if number is not None:
                os.close(number)
            return


def _last_line(directory: Path) -> str:
    """What the run said last."""
    lines = (directory / OUTPUT).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
