"""The trace of a run while it is written: begun, taken up again, and added to.

Neither training nor tuning is lost because the file cannot be written: that is logged once, and what did not get there
is kept for when it can be written again.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tuner.strategy import Plan, Strategy
from tuner.trace import FILE, Trace, TraceError, Trial, header_line, read_trace, trial_line

log = logging.getLogger(__name__)


class Record:
    """``tuner.jsonl`` in the directory of a run."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE
        self._waiting: list[str] = []  # lines that could not be written yet
        self._failed = False

    def resumable(self, plan: Plan) -> Trace | None:
        """The trace to go on with, if there is one of the same plan; start and bounds may differ, the trace's count.

        What is there and cannot be gone on with is moved aside.
        """
        if not self._file.exists():
            return None
        try:
            trace = read_trace(self._file)
        except TraceError as error:
            self.set_aside(str(error))
            return None
        if replace(plan, start=trace.plan.start, space=trace.plan.space) != trace.plan:
            self.set_aside("it was made for another plan: strategy, window, limits, seed or machine differ")
            return None
        return trace

    def set_aside(self, why: str) -> None:
        """Give the file another name: what it tells stays to be read."""
        number = 1
        while (aside := self._file.with_stem(f"{self._file.stem}-{number}")).exists():
            number += 1
        log.warning("the tuner begins anew, and its old trace is now %s: %s", aside.name, why)
        self._try(lambda: self._file.replace(aside))

    def begin(self, plan: Plan) -> None:
        self._waiting = [header_line(plan)]
        self._try(self._write_anew)

    def mend(self, trace: Trace) -> None:
        """Leave whole lines alone, so that the next one can follow."""
        self._try(lambda: self._mend(1 + len(trace.trials)))

    def add(self, trial: Trial) -> None:
        self._waiting.append(trial_line(trial))
        self._try(self._write)

    def close(self) -> None:
        """Write what still waits."""
        if self._waiting:
            self._try(self._write)

    def _mend(self, count: int) -> None:
        text = self._file.read_text(encoding="utf-8", errors="replace")
        whole = "\n".join(text.splitlines()[:count]) + "\n"
        if text != whole:
            mended = self._file.with_suffix(".tmp")
            mended.write_text(whole, encoding="utf-8")
            mended.replace(self._file)

    def _write_anew(self) -> None:
        self._file.unlink(missing_ok=True)
        self._write()

    def _write(self) -> None:
        """Add what waits, as far as there is room: half of a line would spoil the next one."""
        with self._file.open("ab", buffering=0) as file:
            while self._waiting:
                before, line = file.tell(), self._waiting[0].encode()
                try:
                    if file.write(line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                except OSError:
                    file.truncate(before)
                    raise
                self._waiting.pop(0)

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            if not self._failed:
                self._failed = True
                log.warning("%s cannot be written (%s); the tuner goes on without", self._file.name, error)
        else:
            self._failed = False


def restore(strategy: Strategy, trace: Trace) -> None:
    """Bring a new strategy to where the trace ends, by telling it all again. Raises where it decides differently."""
    for trial in trace.trials:
        proposed, decision = strategy.propose(), strategy.observe(trial.measurement)
        now = (proposed, decision.verdict, decision.incumbent)
        if now != (trial.proposed, trial.decision.verdict, trial.decision.incumbent):
            raise TraceError(
                f"trial {trial.number} was {trial.proposed} {trial.decision.verdict}, and would now be "
                f"{proposed} {decision.verdict}"
            )
