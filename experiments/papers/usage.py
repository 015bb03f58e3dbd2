"""What a run takes of the machine, seen from outside: CPU of all its processes, memory, and the device.

A line of ``usage.jsonl`` belongs to each row that the run adds to its ``metrics.jsonl``, so that both can leave out the
same warm-up.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from experiments.processes import family, memory
from ga3c.system.files import append_whole
from ga3c.system.signals import ready_to_end_with_parent

FILE = "usage.jsonl"
TAIL = 8192  # bytes at the end of a file that hold its last whole row
DEVICE_SECONDS = 1  # between two looks at the device

# Of /proc/<pid>/stat, counted from the state on: its own time, and that of children that have ended.
CPU_FIELDS = slice(11, 15)


class Usage:
    """Watches a run while it is entered; ``look`` is called several times a second."""

    def __init__(self, pid: int, run: Path, device: str) -> None:
        self._pid = pid
        self._run = run
        self._size = _size(run / "metrics.jsonl")  # what was there before is of an earlier session
        self._then = time.monotonic()
        self._cpu = 0.0
        self._device = Device(run / "device.txt", device)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._device.close()

    def look(self) -> None:
        """Add a line if the run has added a row."""
        size = _size(self._run / "metrics.jsonl")
        if size == self._size:
            return
        self._size = size
        last = last_row(self._run)
        now, cpu = time.monotonic(), cpu_seconds(self._pid)
        if last is None or cpu is None:
            return
        row = {
            "seconds": last["seconds"],  # of the run: those of the row
            "elapsed": now - self._then,  # since the line before, or since the start
            "cpu_seconds": max(cpu - self._cpu, 0.0),  # used in them
            "memory": memory(self._pid)["pss"],
            "device": self._device.share(),
        }
        self._then, self._cpu = now, max(cpu, self._cpu)
        append_whole(self._run / FILE, (json.dumps(row) + "\n").encode())


class Device:
    """The utilisation of an NVIDIA GPU, by its own tool, which writes a number per second to a file."""

    def __init__(self, path: Path, device: str) -> None:
        self._path = path
        self._read = 0  # numbers of the file that were read
        self._process: subprocess.Popen[bytes] | None = None
        tool = shutil.which("nvidia-smi")
        if tool is None or device in ("cpu", "mps"):
            return
        number = device.partition(":")[2] or "0"
        query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        with path.open("wb") as file:
            self._process = subprocess.Popen(
                [tool, f"--id={number}", *query, f"--loop={DEVICE_SECONDS}"],
                stdout=file,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=ready_to_end_with_parent(signal.SIGKILL),  # or it would outlive a killed experiment
            )

    def share(self) -> float | None:
        """The mean since the last call, 0 to 1; None where there is no such device, or no number yet."""
        if self._process is None:
            return None
        lines = self._path.read_text().split("\n")[:-1]
        new, self._read = lines[self._read :], len(lines)
        shares = [float(line) / 100 for line in new if line.strip().isdigit()]
        return fmean(shares) if shares else None

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def cpu_seconds(pid: int) -> float | None:
    """CPU seconds of a process, its children, and those of its children that have ended; None without /proc.

    A child that ends moves its time to its parent once that takes note of it. Should that happen while this looks from
    one to the other, it is in neither for once or in both: whoever takes differences has to expect that.
    """
    members = family(pid)
    if pid not in members:
        return None
    ticks = sum(sum(map(int, fields[CPU_FIELDS])) for fields in members.values())
    return ticks / os.sysconf("SC_CLK_TCK")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def last_row(run: Path) -> dict[str, Any] | None:
    """Of the run's log; None where there is none yet, or it is cut, since the run is just writing it."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(_size(path) - TAIL, 0))
        last = file.read().split(b"\n")[-2:]
    if len(last) < 2 or last[1]:
        return None
    row: dict[str, Any] = json.loads(last[0])
    return row
