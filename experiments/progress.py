"""How far a long measurement is: a bar with the time left on a terminal, a line per finished part elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from experiments.text import clock


@dataclass(frozen=True)
class Part:
    """One thing to do, the seconds that it is expected to take, and what cannot be had where it fails.

    ``run`` returns what it found, in words. A part that nothing is said to need must not fail.
    """

    name: str
    seconds: float
    run: Callable[[], str]
    needed_by: tuple[str, ...] = ()


class TimeLeft(ProgressColumn):
    """Counts down between two parts, which can be many seconds apart."""

    def render(self, task: Task) -> Text:
        left = task.fields["until"] - time.monotonic()
        return Text(f"{clock(max(left, 0.0))} left", style="cyan")


class Progress:
    """Parts with the seconds that each is expected to take; what they took so far corrects what is left."""

    def __init__(self, expected: float) -> None:
        self._expected = expected
        self._done = 0.0
        self._start = time.monotonic()
        self._bar: Bar | None = None
        console = Console(stderr=True)
        if console.is_terminal:
            columns = (
                BarColumn(),
                TextColumn("{task.percentage:3.0f} %"),
                TimeLeft(),
                TextColumn("{task.description}"),
            )
            self._bar = Bar(*columns, console=console, transient=True, refresh_per_second=4)
            self._task = self._bar.add_task("", total=expected, until=time.monotonic() + expected)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def left(self) -> float:
        """Seconds until the end, at the pace so far."""
        pace = (time.monotonic() - self._start) / self._done if self._done else 1.0
        return max(self._expected - self._done, 0.0) * pace

    def begin(self, part: Part) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=part.name)

    def say(self, text: str) -> None:
        """What a long part is doing now."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        else:
            print(text, file=sys.stderr, flush=True)

    def finish(self, part: Part, found: str) -> None:
        self._done += part.seconds
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, until=time.monotonic() + self.left)
        elif found:
            share = min(self._done / self._expected, 1.0)
            print(f"{share:>4.0%}  {clock(self.left)} left  {part.name}: {found}", file=sys.stderr, flush=True)
