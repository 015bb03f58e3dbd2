"""``check``: plays an environment by chance and says what is wrong with it, and which settings fit it.

The environment plays in a process of its own, whose prints are caught: it may raise, hang or end, and is told of then.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ga3c.games import gym
from ga3c.games.checked_game import GameFault
from ga3c.games.inspection import MIND, OK, WRONG, Broken, Finding, Inspection, raised
from ga3c.games.make import backend_of
from ga3c.games.measuring import Advice, measure
from ga3c.settings.commands import CheckOptions
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, read_words
from ga3c.system.signals import follow_parent

START_SECONDS = 60.0  # that imports may take beside what the environment may
BEATS = 1.0  # seconds between two signs of life, at least
MEASURED = 4  # steps that are measured, for each that is looked at
WIDTH = 120
SUBJECT = 12


def main(words: list[str]) -> int:
    options = CheckOptions(**read_words(CheckOptions, words))
    return 1 if check(options, lambda finding: print(line_of(finding), flush=True)) else 0


def check(options: CheckOptions, tell: Callable[[Finding], None]) -> int:
    """Tell each finding as it is found; returns how many of them are wrong."""
    config = Config(game=options.game, env_args=options.env_args, color=options.color, seed=options.seed)
    print(f"GAME={config.game}" + (f" ENV_ARGS={config.env_args}" if config.env_args else ""), flush=True)
    count: Counter[str] = Counter()
    settings: dict[str, str] = {}
    for found in _watch(options, config):
        if isinstance(found, dict):
            settings = found
        else:
            count[found.kind] += 1
            tell(found)
    print(_closing(config, count, settings))
    return count[WRONG]


def line_of(finding: Finding) -> str:
    head = f"  {finding.kind:<6}{finding.subject:<{SUBJECT}}"
    return textwrap.fill(finding.text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def _closing(config: Config, count: Counter[str], settings: dict[str, str]) -> str:
    if count[WRONG]:
        things = "One thing is" if count[WRONG] == 1 else f"{count[WRONG]} things are"
        return f"{things} wrong: training would fail, or learn something else than is meant."
    given = {"GAME": config.game, "ENV_ARGS": config.env_args, "COLOR": "1" if config.color else ""}
    words = [f"{key}={shlex.quote(value)}" for key, value in (given | settings).items() if value]
    mind = f", {count[MIND]} to keep in mind" if count[MIND] else ""
    return f"Nothing is wrong{mind}. To begin with:\n  ./run.sh {' '.join(words)}"


def _watch(options: CheckOptions, config: Config) -> Iterator[Finding | dict[str, str]]:
    """What the other process finds; a process that hangs is ended."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="ga3c-check-") as folder:
        printed = Path(folder) / "printed"
        process = context.Process(target=_play, args=(config, options.steps, options.seconds, there, printed))
        process.start()
        there.close()
        try:
            yield from _listen(here, process, options.stall_seconds)
        finally:
            process.kill()
            process.join()
        lines = printed.read_text(errors="replace").splitlines() if printed.exists() else []
        if lines:
            text = f"{len(lines)} line(s), which many agents would print together; the first: {lines[0]:.200}"
            yield Finding(MIND, "prints", text)


def _listen(here: Connection, process: Any, stall: float) -> Iterator[Finding | dict[str, str]]:
    doing, patience = "its module is imported", stall + START_SECONDS
    while here.poll(patience):
        try:
            said = here.recv()
        except EOFError:  # it ended
            process.join()
            yield Finding(WRONG, "process", f"it ended with exit code {process.exitcode} in: {doing}")
            return
        if said is None:
            return
        if isinstance(said, str):
            doing, patience = said, stall + BEATS
        else:
            yield said
    yield Finding(WRONG, "hangs", f"nothing happened for {patience:.0f} s in: {doing}. STALL_SECONDS can be larger")


def _play(config: Config, steps: int, seconds: float, there: Connection, printed: Path) -> None:
    """The body of the process."""
    follow_parent()
    descriptor = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    beat = _Beat(there)
    try:
        inspection = Inspection(config, there.send, beat)
        if backend_of(config.game) is gym:
            inspection.run(steps, seconds / 2)
        else:
            there.send(Finding(OK, "game", "one of ALE, which is only measured"))
        advice = Advice(config, measure(config, MEASURED * steps, seconds / 2, beat), inspection.limit)
        for finding in advice.findings():
            there.send(finding)
        there.send(advice.settings)
    except Broken:
        pass  # it was told why
    except ConfigError as error:
        there.send(Finding(WRONG, "game", str(error)))
    except GameFault as error:
        there.send(Finding(WRONG, "play", str(error)))
    except Exception as error:
        there.send(Finding(WRONG, "game", raised(error)))
    there.send(None)
    os._exit(0)  # threads of the environment may not want to end


class _Beat:
    """Says what is done, when something else is done than before and now and then."""

    def __init__(self, there: Connection) -> None:
        self._there = there
        self._last, self._when = "", 0.0

    def __call__(self, doing: str) -> None:
        now = time.monotonic()
        if doing != self._last or now - self._when > BEATS:
            self._there.send(doing)
            self._last, self._when = doing, now
