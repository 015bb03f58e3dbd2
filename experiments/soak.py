"""A long run that is disturbed all the time: agents are killed and settings changed, and nothing may grow or get lost.

The run is started as a user starts it, with a tuner that changes NA, NP and NT every window. Every few seconds one of
its agents is killed, and what the run holds is noted: memory, threads, open files and processes. How these grow is
fitted beside how they depend on the numbers of agents, predictors and trainers, which the tuner changes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.hardware import hardware
from experiments.options import SoakOptions
from experiments.papers.usage import last_row
from experiments.processes import family
from experiments.progress import Part, Progress
from experiments.style import SOFT
from ga3c.settings.declare import read_words
from ga3c.system.files import write_json
from ga3c.system.limits import resident_memory
from ga3c.system.signals import interruptible

SAMPLE_SECONDS = 5.0
WARM_UP = 0.2  # of the time, in which memory still grows to what it needs
GROWN_UP = 1.5  # CPU seconds of an agent before it is killed: three that never played would rightly stop the run
END_SECONDS = 10.0
LEAVE_SECONDS = 2.0  # for the last children, after the run itself
JUDGED_SECONDS = 600.0  # a shorter soak says nothing of growth
BOUNDS = {"server_memory": 20e6, "agent_memory": 5e6, "threads": 1.0, "files": 1.0, "processes": 1.0}  # growth per hour

# Of /proc/<pid>/stat, counted from the state on.
STAT_USER, STAT_SYSTEM, STAT_THREADS = 11, 12, 17

LEGEND: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 2, "frameon": False}


@dataclass(frozen=True)
class Sample:
    """What a run holds at one moment."""

    seconds: float
    agents: int  # processes
    workers: int  # predictors and trainers, by the last row of the log
    server_memory: float  # bytes
    agent_memory: float  # of the largest agent
    threads: int  # of the server
    files: int  # that the server has open
    processes: int  # children of the server that are no agents


@dataclass(frozen=True)
class Trend:
    """How fast something grows, with the standard error of that, per hour."""

    per_hour: float
    error: float
    mean: float

    def exceeds(self, bound: float) -> bool:
        """Beyond the bound, and not by chance."""
        return self.per_hour - 2 * self.error > bound


class Victim:
    """The run, seen and disturbed from outside."""

    def __init__(self, options: SoakOptions, directory: Path) -> None:
        self.run = directory / "run"
        self._temporary = directory / "tmp"
        self._temporary.mkdir()
        self._random = random.Random(options.seed)
        self.kills = 0
        words = [
            f"GAME={options.game}",
            f"ENVS_PER_AGENT={options.envs_per_agent}",
            f"SEED={options.seed}",
            "LOG_SECONDS=1",  # each row tells how many predictors and trainers there are
            "TUNER=sweep",
            f"TUNER_WINDOW={options.window}",
            f"RUN={self.run}",
            *options.also.split(),
        ]
        self._log = (directory / "output.txt").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ga3c", *words],
            env={**os.environ, "TMPDIR": str(self._temporary)},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C ends the soak, and that ends the run
        )
        self._started = time.monotonic()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def sample(self) -> Sample:
        children = self._children()
        agents = [pid for pid, (_, is_agent) in children.items() if is_agent]
        server = family(self._process.pid).get(self._process.pid, [])
        row = last_row(self.run) or {}
        return Sample(
            seconds=time.monotonic() - self._started,
            agents=len(agents),
            workers=row.get("predictors", 1) + row.get("trainers", 1),
            server_memory=resident_memory(self._process.pid),
            agent_memory=max(map(resident_memory, agents), default=0.0),
            threads=int(server[STAT_THREADS]) if server else 0,
            files=len(os.listdir(f"/proc/{self._process.pid}/fd")) if server else 0,
            processes=len(children) - len(agents),
        )

    def kill_an_agent(self) -> None:
        agents = [pid for pid, (used, is_agent) in self._children().items() if is_agent and used > GROWN_UP]
        if agents:
            os.kill(self._random.choice(agents), signal.SIGKILL)
            self.kills += 1

    def end(self) -> tuple[int | None, float, list[str]]:
        """Stop the run as Ctrl-C does; returns its exit code, the seconds that it took, and what it left behind."""
        children = list(self._children())
        started = time.monotonic()
        if self.alive:
            self._process.send_signal(signal.SIGINT)
        try:
            code: int | None = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            code = None
        took = time.monotonic() - started
        self._log.close()
        until = time.monotonic() + LEAVE_SECONDS
        while (alive := [pid for pid in children if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until:
            time.sleep(0.05)
        left = [f"process {pid}" for pid in alive]
        return code, took, left + [str(path.name) for path in self._temporary.iterdir()]

    def _children(self) -> dict[int, tuple[float, bool]]:
        """The CPU seconds of each child, and whether it is an agent."""
        children = {}
        for pid, fields in family(self._process.pid).items():
            if pid != self._process.pid and fields[0] != "Z":
                try:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                used = (int(fields[STAT_USER]) + int(fields[STAT_SYSTEM])) / os.sysconf("SC_CLK_TCK")
                children[pid] = (used, b"spawn_main" in command)
        return children


def growth(samples: list[Sample], name: str) -> Trend:
    """The slope over time of what also depends on the numbers of agents and of threads, by least squares."""
    values = np.array([float(getattr(sample, name)) for sample in samples])
    hours = np.array([sample.seconds for sample in samples]) / 3600
    sizes = np.array([(float(sample.agents), float(sample.workers)) for sample in samples])
    columns = np.column_stack([np.ones_like(hours), hours - hours.mean(), sizes - sizes.mean(axis=0)])
    inverse = np.linalg.pinv(columns.T @ columns)
    fitted = inverse @ columns.T @ values
    variance = np.square(values - columns @ fitted).sum() / max(len(values) - len(fitted), 1)
    return Trend(per_hour=float(fitted[1]), error=float(np.sqrt(variance * inverse[1, 1])), mean=float(fitted[0]))


def soak(options: SoakOptions, directory: Path) -> dict[str, Any]:
    """Run, disturb, look, end; returns all that was seen."""
    victim = Victim(options, directory)
    samples: list[Sample] = []
    seconds = options.minutes * 60
    started = time.monotonic()
    next_kill, next_sample = started + options.kill, started + SAMPLE_SECONDS
    part = Part("soak", seconds, lambda: "")
    try:
        with interruptible(), Progress(seconds) as progress:
            progress.begin(part)
            while (now := time.monotonic()) - started < seconds and victim.alive:
                if now >= next_kill:
                    victim.kill_an_agent()
                    next_kill += options.kill
                if now >= next_sample:
                    samples.append(victim.sample())
                    next_sample += SAMPLE_SECONDS
                    if len(samples) % 12 == 0:
                        progress.say(_describe(samples[-1], victim.kills))
                time.sleep(max(min(next_kill, next_sample) - time.monotonic(), 0.0))
    except KeyboardInterrupt:
        print("stopped early: what was seen until now", file=sys.stderr)
    code, took, left = victim.end()
    summary_path = victim.run / "summary.json"
    summary = json.loads(summary_path.read_text()) if summary_path.exists() else {}
    warm = [sample for sample in samples if sample.seconds > WARM_UP * seconds]
    trace = victim.run / "tuner.jsonl"
    return {
        "seconds": samples[-1].seconds if samples else 0.0,
        "kills": victim.kills,
        "windows": max(len(trace.read_text().splitlines()) - 1, 0) if trace.exists() else 0,
        "exit_code": code,
        "end_seconds": took,
        "left_behind": left,
        "summary": {name: value for name, value in summary.items() if name != "run"},
        "growth": {name: asdict(growth(warm, name)) for name in BOUNDS} if len(warm) > 3 else {},
        "hardware": hardware(),
        "samples": [asdict(sample) for sample in samples],
    }


def faults(result: dict[str, Any]) -> list[str]:
    """What must not be, in words."""
    found = []
    if result["exit_code"] != 0:
        found.append(f"the run ended with exit code {result['exit_code']}")
    if result["summary"].get("exit_reason") != "interrupted":
        found.append(f"the run ended by itself: {result['summary'].get('exit_reason', 'there is no summary')}")
    if result["summary"].get("unaccounted_steps", 1):
        found.append(f"{result['summary'].get('unaccounted_steps', 'unknown')} steps are unaccounted for")
    found += [f"left behind: {name}" for name in result["left_behind"]]
    for name, bound in BOUNDS.items():
        judged = name in result["growth"] and result["seconds"] > JUDGED_SECONDS
        if judged and Trend(**result["growth"][name]).exceeds(bound):
            found.append(f"{name} grows by {result['growth'][name]['per_hour']:.3g} per hour")
    return found


def report(result: dict[str, Any]) -> str:
    summary = result["summary"]
    lines = [
        f"{result['seconds'] / 60:.1f} minutes, {result['kills']} agents killed, {result['windows']} windows tuned",
        f"{summary.get('steps', 0):,} steps, {summary.get('updates', 0):,} updates; thrown away and counted: "
        f"{summary.get('lost_steps', 0):,} lost, {summary.get('stale_steps', 0):,} stale; "
        f"unaccounted for: {summary.get('unaccounted_steps', 'unknown')}",
        f"ended in {result['end_seconds']:.1f} s",
        "",
        f"{'':<16}{'mean':>12}{'growth per hour':>18}{'± 2 deviations':>16}",
    ]
    for name, found in result["growth"].items():
        scale, unit = (1e-6, " MB") if name.endswith("memory") else (1.0, "")
        mean, slope, error = (found[key] * scale for key in ("mean", "per_hour", "error"))
        lines.append(
            f"{name.replace('_', ' '):<16}{mean:>9.1f}{unit:<3}{slope:>+15.2f}{unit:<3}{2 * error:>13.2f}{unit:<3}"
        )
    return "\n".join(lines)


def draw(result: dict[str, Any], path: Path) -> None:
    """Memory, threads, files and processes over the time, with the number of agents under them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    samples = result["samples"]
    minutes = [sample["seconds"] / 60 for sample in samples]
    figure, (memory, counts, agents) = pyplot.subplots(3, 1, figsize=(9, 7), sharex=True, layout="constrained")
    memory.plot(minutes, [sample["server_memory"] / 1e6 for sample in samples], label="server")
    memory.plot(minutes, [sample["agent_memory"] / 1e6 for sample in samples], label="largest agent")
    memory.set_ylabel("resident memory, MB")
    memory.set_ylim(bottom=0)
    memory.legend(**LEGEND)
    for name, label in (("files", "open files of the server"), ("threads", "threads of the server")):
        counts.plot(minutes, [sample[name] for sample in samples], label=label)
    counts.set_ylim(bottom=0)
    counts.set_ylabel("number")
    counts.legend(**LEGEND)
    agents.plot(minutes, [sample["agents"] for sample in samples], color=SOFT)
    agents.set_ylim(bottom=0)
    agents.set_ylabel("agents (the tuner's)")
    agents.set_xlabel("minutes")
    figure.suptitle(f"An agent killed every few seconds ({result['kills']} in all), settings changed all the time")
    figure.savefig(path, dpi=110)


def main(words: list[str]) -> int:
    options = SoakOptions(**read_words(SoakOptions, words))
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        result = soak(options, Path(directory))
        found = faults(result)
        print(report(result))
        if found:
            print("\n" + "\n".join(f"FAULT: {fault}" for fault in found))
            print("\nthe end of the run's output:\n" + (Path(directory) / "output.txt").read_text()[-3000:])
    if options.out:
        out = Path(options.out).expanduser()
        write_json(out, result)
        draw(result, out.with_suffix(".png"))
        print(f"\nwritten to {out} and {out.with_suffix('.png').name}")
    return 1 if found else 0


def _describe(sample: Sample, kills: int) -> str:
    return (
        f"{sample.seconds / 60:.0f} min: {kills} killed, {sample.agents} agents, "
        f"server {sample.server_memory / 1e6:.0f} MB, {sample.threads} threads, {sample.files} files"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
