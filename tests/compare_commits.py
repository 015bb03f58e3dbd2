"""By hand: ``python -m tests.compare_commits``. Is the code here slower or larger than that of an older commit?

Its words are those of WORDS: ``OLD=5392fc6 PAIRS=6 ONLY=pong-8x1 OUT=file.json``; NEW= names a commit instead of here.

Both are measured in turn, in pairs that begin with the one and the other alternately, by the same interpreter with the
same settings: what else the machine does meets both. A rate is that of SECONDS after a start of WARM seconds. Each
line tells how many cores others took meanwhile: where that is much, rates say little, and the CPU of a step says more.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

from experiments.papers.usage import cpu_seconds
from ga3c.system.limits import resident_memory
from tests.helpers.command_line import children_of, rows_of
from tests.helpers.commits import Running, code_of

WORDS = {"PAIRS": "6", "ONLY": "", "OLD": "5392fc6", "NEW": "", "SECONDS": "20", "OUT": ""}
WARM = 5.0  # seconds from the first prediction to the beginning of the measurement
START_LIMIT = 120.0  # seconds to the first prediction, at most
END_LIMIT = 30.0  # seconds to the end of the processes, at most; then they are killed
COMMON = ["DEVICE=cpu", "TENSORBOARD=0", "LOG_SECONDS=1", "CHECKPOINT_SECONDS=100000"]
RUNS = {
    "pong-3x32": ["GAME=Pong", "AGENTS=3", "ENVS_PER_AGENT=32", "TUNER=off"],
    "pong-8x1": ["GAME=Pong", "AGENTS=8", "ENVS_PER_AGENT=1", "TUNER=off"],
    "serial-pong": ["GAME=Pong", "SERIAL=1", "AGENTS=3", "ENVS_PER_AGENT=8"],
    "serial-cartpole": ["GAME=CartPole-v1", "SERIAL=1", "AGENTS=3", "ENVS_PER_AGENT=4"],
}
FIRST = re.compile(r"first prediction after ([\d.]+) s")


@dataclass(frozen=True)
class Figures:
    """What one run shows."""

    pps: float
    cpu: float  # microseconds of a step, of all processes together
    first_prediction: float  # seconds
    server_mb: float
    agent_mb: float | None  # on average; None where there are none
    others: float  # cores that other processes of the machine took meanwhile


UNITS = {"pps": "steps/s", "cpu": "us/step", "first_prediction": "s", "server_mb": "MB", "agent_mb": "MB"}


def measure(code, words, seconds, directory):
    """Start a run, let it warm up, measure, and end it."""
    process = Running(code, *words, *COMMON, f"RUN={directory}", start_new_session=True)
    try:
        first = _wait(process, lambda: _first_prediction(directory), START_LIMIT)
        begin = _wait(process, lambda: _row_at(directory, first + WARM), 3 * WARM + 10)
        before = _Cpu.of(process.pid)
        end = _wait(process, lambda: _row_at(directory, begin["seconds"] + seconds), 3 * seconds + 10)
        used = _Cpu.of(process.pid).since(before)
        agents = [resident_memory(pid) for pid in children_of(process.pid) if _plays(pid)]
        server = resident_memory(process.pid)
    finally:
        _end(process)
    pps = (end["steps"] - begin["steps"]) / (end["seconds"] - begin["seconds"])
    return Figures(
        pps=pps,
        cpu=1e6 * used.own / used.seconds / pps,
        first_prediction=first,
        server_mb=server / 1e6,
        agent_mb=sum(agents) / len(agents) / 1e6 if agents else None,
        others=max(used.all - used.own, 0.0) / used.seconds,
    )


class _Cpu(NamedTuple):
    """Seconds, and those of CPU up to now: of a run and of the whole machine."""

    seconds: float
    own: float
    all: float

    @classmethod
    def of(cls, pid):
        user, nice, system, _, _, irq, soft_irq, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
        ticks = user + nice + system + irq + soft_irq
        return cls(time.monotonic(), cpu_seconds(pid), ticks / os.sysconf("SC_CLK_TCK"))

    def since(self, before):
        return _Cpu(*(now - then for now, then in zip(self, before, strict=True)))


def _wait(process, look, seconds):
    until = time.monotonic() + seconds
    while (found := look()) is None:
        if process.poll() is not None:
            raise RuntimeError(f"{process} ended:\n{process.printed}")
        if time.monotonic() > until:
            raise RuntimeError(f"{process} did not come so far within {seconds:.0f} s")
        time.sleep(0.1)
    return found


def _first_prediction(directory):
    log = directory / "log.txt"
    found = FIRST.search(log.read_text()) if log.exists() else None
    return float(found[1]) if found else None


def _row_at(directory, seconds):
    return next((row for row in rows_of(directory) if row["seconds"] >= seconds), None)


def _plays(pid):
    """Not the process that tidies up behind the others."""
    return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def _end(process):
    """As Ctrl-C does."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(END_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def compare(names, codes, pairs, seconds, directory):
    """The figures of all runs of both, by name and side; told as they come."""
    numbers = count()
    found = {name: {side: [] for side in codes} for name in names}
    for pair in range(pairs):
        for name in names:
            for side in list(codes) if pair % 2 == 0 else reversed(codes):
                figures = measure(codes[side], RUNS[name], seconds, directory / str(next(numbers)))
                found[name][side].append(figures)
                print(f"pair {pair + 1}  {name:<16} {side:<4} {_line(figures)}", flush=True)
    return found


def _line(figures):
    shown = [f"{getattr(figures, key) or 0:8.1f} {unit}" for key, unit in UNITS.items()]
    return "   ".join([*shown, f"others: {figures.others:.2f} cores"])


def summary(found):
    """A row for each figure of each run: medians, and how far the ratios of single pairs lie apart."""
    rows = []
    for name, sides in found.items():
        for key in UNITS:
            old, new = ([getattr(figures, key) for figures in sides[side]] for side in ("old", "new"))
            if None not in old + new:
                ratios = [b / a for a, b in zip(old, new, strict=True)]
                rows.append(
                    {
                        "run": name,
                        "figure": key,
                        "old": median(old),
                        "new": median(new),
                        "ratio": median(ratios),
                        "lowest": min(ratios),
                        "highest": max(ratios),
                    }
                )
    return rows


def table(rows):
    lines = [
        "| run | figure | old | new | new/old, median of the pairs | lowest … highest |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['run']} | {row['figure']}, {UNITS[row['figure']]} | {row['old']:.1f} | {row['new']:.1f} "
        f"| {row['ratio']:.3f} | {row['lowest']:.2f} … {row['highest']:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main(words):
    given = WORDS | dict(word.split("=", 1) for word in words)
    names = given["ONLY"].split(",") if given["ONLY"] else list(RUNS)
    if set(given) != set(WORDS) or not set(names) <= set(RUNS):
        print(f"words are {', '.join(WORDS)}; ONLY= takes {', '.join(RUNS)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ga3c-compare-") as place:
        directory = Path(place)
        codes = {side: code_of(given[side.upper()], directory / side) for side in ("old", "new")}
        found = compare(names, codes, int(given["PAIRS"]), float(given["SECONDS"]), directory)
    rows = summary(found)
    print(table(rows))
    if given["OUT"]:
        runs = {name: {side: [vars(figures) for figures in of_side] for side, of_side in sides.items()}
                for name, sides in found.items()}  # fmt: skip
        Path(given["OUT"]).write_text(json.dumps({"words": given, "table": rows, "runs": runs}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
