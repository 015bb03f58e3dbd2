"""Other systems that train the same network on the same game, to be measured beside ours.

Each peer lives in an environment of its own, so that no requirement of it meets one of ours, and is called by one
small script beside this file, which trains for ever and reports its steps. What is the same for all: the game, frames
(every 4th, the maximum of the last two, gray, 84×84, 4 stacked), no-op starts, clipped rewards, whole games, the small
network, the cores, and one pass over the data; of those that replay, the Nature network and 8 draws of each step
(batches of 32, an update for 4 steps). What each is best at is its own: its environments, its batches, its
threads. Each script says what was measured for its settings.

    python -m experiments.bench.peers sb3 sample-factory     # install and measure by hand
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ga3c.system.openmp import HOW_TO_WAIT

SCRIPTS = Path(__file__).parent
INSTALL_SECONDS = 1800.0
START_SECONDS = 180.0  # until a peer reports its first steps, at most
SILENT_SECONDS = 60.0  # between two reports, at most
WARM_UP_SECONDS = 5.0  # after the first report: first batches, buffers that fill up
# Threads of torch that wait sleep, instead of taking a core from the environments. PPO on EnvPool had 997 instead of
# 821 steps/s on two nearly idle cores, and 230 instead of 87 beside much other work.
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE"}
TORCH = "torch==2.13.0"
ENVPOOL = ("envpool==1.2.5", "gymnasium==1.4.0", "numpy==2.4.6")
SB3 = (
    TORCH,
    "stable-baselines3==2.9.2",
    "ale-py==0.12.1",
    "gymnasium==1.4.0",
    "numpy==2.4.6",
    "opencv-python-headless==5.0.0.93",
)


class PeerError(RuntimeError):
    """Why a peer has no figure, in one line."""


@dataclass(frozen=True)
class Peer:
    """What a peer is, what it needs, and the script that calls it."""

    title: str
    requirements: tuple[str, ...]
    script: str
    replays: bool = False  # it learns from a replay memory, and so is measured beside DQN

    @property
    def path(self) -> Path:
        return SCRIPTS / self.script


PEERS: dict[str, Peer] = {
    "sb3": Peer("Stable-Baselines3 A2C", SB3, "run_sb3.py"),
    "cleanrl-style": Peer("PPO in CleanRL's manner on EnvPool", (TORCH, *ENVPOOL), "run_cleanrl_style.py"),
    "sample-factory": Peer(
        "Sample Factory APPO on EnvPool",
        (TORCH, "sample-factory==2.1.1", "envpool==1.2.5", "gymnasium==0.29.1", "numpy==1.26.4"),
        "run_sample_factory.py",
    ),
    "envpool": Peer("A2C on asynchronous EnvPool", (TORCH, *ENVPOOL), "run_envpool.py"),
    "tianshou": Peer("Tianshou A2C on EnvPool", (TORCH, "tianshou==2.0.1", *ENVPOOL), "run_tianshou.py"),
    "sb3-dqn": Peer("Stable-Baselines3 DQN", SB3, "run_sb3_dqn.py", replays=True),
    "cleanrl-style-dqn": Peer(
        "DQN in CleanRL's manner on EnvPool", (TORCH, *ENVPOOL), "run_cleanrl_style_dqn.py", replays=True
    ),
}
# Peers that one would ask for but that cannot be installed from a package index (looked up in November 2026).
UNAVAILABLE = {
    "torchbeast": "it is not on the package index",
    "ga3c-original": "it is not on the package index",
    "cleanrl": "its package is of 2021 and has nothing for EnvPool; cleanrl-style stands for it",
    "pufferlib": "its current release (3.0.0) has no wheel, and its build does not succeed",
}


@dataclass(frozen=True)
class Report:
    """What a script said: steps trained on since its start, at this time of its clock."""

    steps: int
    seconds: float
    parameters: int


def install(name: str, root: Path, say: Callable[[str], None]) -> Path:
    """The Python of the peer's environment under ``root``, made unless this very list is installed there."""
    return install_packages(
        (root / name).absolute(), _peer(name).requirements, say
    )  # peers run in directories of their own


def install_packages(directory: Path, requirements: tuple[str, ...], say: Callable[[str], None]) -> Path:
    """The Python of an environment in this directory that has these packages."""
    python, mark = directory / "bin" / "python", directory / "installed"
    wanted = "\n".join([sys.version, *requirements])
    if mark.exists() and mark.read_text() == wanted:
        return python
    say(f"installing {' '.join(requirements)} in {directory}")
    shutil.rmtree(directory, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(directory)])
    # Wheels only: a build takes long, needs a compiler, and may fetch another torch with gigabytes of CUDA.
    _call(
        [str(python), "-m", "pip", "install", "--quiet", "--progress-bar", "off", "--only-binary", ":all:"],
        requirements,
    )
    mark.write_text(wanted)
    return python


def _environment(peer: Peer) -> dict[str, str]:
    """Those that replay wait as ours do: nobody plays beside an update, and two threads that sleep are no quicker."""
    others = {key: value for key, value in os.environ.items() if key not in HOW_TO_WAIT}
    return others | (HOW_TO_WAIT if peer.replays else ENVIRONMENT)


def measure(name: str, python: Path, *, game: str, cores: int, seconds: float, settings: Iterable[str] = ()) -> float:
    """Steps per second in steady state, training included. ``settings`` (KEY=VALUE) replace the script's own."""
    command = [str(python), "-u", str(_peer(name).path), game, str(cores), *settings]
    with tempfile.TemporaryDirectory(prefix="ga3c-peer-") as directory, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=_environment(_peer(name)),
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
        except OSError as error:
            raise PeerError(f"{name} cannot be started: {error}") from None
        assert process.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            return _steady_rate(name, lines, seconds, errors)
        finally:
            _end(process)
            reader.join()
            process.stdout.close()


def parse(line: str) -> Report | None:
    """The report of a line of output; None for anything else that a peer prints."""
    try:
        row = json.loads(line)
        return Report(int(row["steps"]), float(row["seconds"]), int(row["parameters"]))
    except (ValueError, TypeError, KeyError):
        return None


def _peer(name: str) -> Peer:
    if name in UNAVAILABLE:
        raise PeerError(f"cannot be installed: {UNAVAILABLE[name]}")
    if name not in PEERS:
        raise PeerError(f"there is no peer {name}: {', '.join(PEERS)}")
    return PEERS[name]


def _call(command: list[str], requirements: Iterable[str] = ()) -> None:
    """Run an installer to its end, or say in one line why it failed."""
    try:
        done = subprocess.run([*command, *requirements], capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerError(f"cannot be installed: not done after {INSTALL_SECONDS:.0f} s") from None
    if done.returncode:
        raise PeerError(f"cannot be installed: {_last_line(done.stderr or done.stdout)}")


def _last_line(text: str) -> str:
    """The last line that says something; pip's has a prefix that says nothing, and may be followed by hints."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    failures = [line for line in lines if line.startswith("ERROR:")]
    return (failures or lines or ["no reason given"])[-1].removeprefix("ERROR:").strip()


def _read(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _steady_rate(name: str, lines: queue.Queue[str | None], seconds: float, errors: IO[bytes]) -> float:
    """The rate between two reports: the first after the warm-up, and the first that is ``seconds`` later."""
    first: Report | None = None
    begin: Report | None = None
    silent_since = time.monotonic()
    while True:
        patience = SILENT_SECONDS + seconds if first else START_SECONDS
        try:
            line = lines.get(timeout=max(0.0, silent_since + patience - time.monotonic()))
        except queue.Empty:
            raise PeerError(f"{name} was ended: no steps reported for {patience:.0f} s") from None
        if line is None:
            errors.seek(0)
            raise PeerError(f"{name} ended early: {_last_line(errors.read().decode(errors='replace'))}")
        report = parse(line)
        if report is None or report.steps <= 0:
            continue
        silent_since = time.monotonic()
        first = first or report
        if begin is None:
            begin = report if report.seconds - first.seconds >= WARM_UP_SECONDS else None
        elif report.seconds - begin.seconds >= seconds:
            return (report.steps - begin.steps) / (report.seconds - begin.seconds)


def _end(process: subprocess.Popen[str]) -> None:
    """End a peer and whatever it started: all are of its session's process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(words: list[str]) -> int:
    """Install and measure peers by hand: names, and KEY=VALUE words that replace the settings of their scripts."""
    settings = [word for word in words if "=" in word]
    for name in [word for word in words if "=" not in word] or PEERS:
        try:
            python = install(name, Path(".bench"), print)
            rate = measure(name, python, game="Pong", cores=os.cpu_count() or 1, seconds=20.0, settings=settings)
            print(f"{name} {' '.join(settings)}: {rate:,.0f} steps/s", flush=True)
        except PeerError as error:
            print(f"{name}: {error}", flush=True)
    return 0
