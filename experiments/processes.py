"""Processes that an experiment measures in: started, asked, paused and ended by the one that runs the experiment.

They do as they are told over a pipe, end with the experiment however that ends, and keep their temporary files in a
directory that the experiment removes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from ga3c.system.limits import resident_memory
from ga3c.system.malloc import keep_freed_memory
from ga3c.system.signals import follow_parent, undisturbed

ANSWER_SECONDS = 60.0  # for an answer, at most, where nothing else is said
LEAVE_SECONDS = 0.8  # a process that was told to end and has not by then is killed
# What a killed process leaves is cleaned up by multiprocessing's tracker, whose warning of it would help nobody.
QUIET_TRACKER = "ignore::UserWarning:multiprocessing.resource_tracker"


class ProcessFailed(RuntimeError):
    """A process ended or did not answer; the message says which, and why as far as it is known."""


class Orders:
    """The pipe as the process sees it: what it is told, and its answers."""

    def __init__(self, link: Connection) -> None:
        self._link = link

    def waiting(self) -> bool:
        return self._link.poll()

    def next(self) -> tuple[Any, ...]:
        """What to do; ``("end",)`` also where nobody is left to say it."""
        try:
            order: tuple[Any, ...] = self._link.recv()
        except (EOFError, ConnectionError):
            return ("end",)
        return order

    def answer(self, value: Any = None) -> None:
        self._link.send((True, value))

    def fail(self, why: str) -> None:
        self._link.send((False, why))


class Processes:
    """Those of an experiment, which end with the ``with`` that this is used in. Their temporary files are in there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._running: list[Process] = []  # all that were started and not ended yet
        self._warnings = os.environ.get("PYTHONWARNINGS")  # before they are used

    def __enter__(self) -> Self:
        os.environ.setdefault("PYTHONWARNINGS", QUIET_TRACKER)
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self._warnings is None:
            del os.environ["PYTHONWARNINGS"]

    def start(self, name: str, body: Callable[..., None], *arguments: Any) -> Process:
        # A Ctrl-C goes to the whole group, also to a process that cannot ignore it yet: it inherits that it waits.
        with undisturbed():
            process = Process(name, self.directory, body, arguments)
            self._running.append(process)
        return process

    def end(self, some: Iterable[Process] | None = None) -> None:
        """End these, or all that run. They are told first, so that they end at the same time."""
        leaving = list(self._running if some is None else some)
        with undisturbed():
            for process in leaving:
                process.ask_to_end()
            until = time.monotonic() + LEAVE_SECONDS
            for process in leaving:
                process.leave(until)
            for process in leaving:
                process.join()
                self._running.remove(process)


class Process:
    """A process whose body takes orders. Its failure is told as an exception to whoever asks it next."""

    def __init__(self, name: str, directory: Path, body: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.name = name
        spawn = multiprocessing.get_context("spawn")
        self._link, theirs = spawn.Pipe()
        # Not a daemon: those may not have processes of their own, and a server has its agents.
        self._process = spawn.Process(target=_run, args=(body, theirs, directory, arguments), name=name)
        self._process.start()
        theirs.close()  # so that its end is seen here

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def tell(self, *order: Any) -> None:
        try:
            self._link.send(order)
        except ConnectionError:
            raise self._failure() from None

    def answer(self, seconds: float = ANSWER_SECONDS) -> Any:
        if not self._link.poll(seconds):
            raise ProcessFailed(f"{self.name} did not answer within {seconds:.0f} s")
        try:
            good, value = self._link.recv()
        except (EOFError, ConnectionError):
            raise self._failure() from None
        if not good:
            raise ProcessFailed(f"{self.name} failed: {value}")
        return value

    def ask(self, *order: Any, seconds: float = ANSWER_SECONDS) -> Any:
        self.tell(*order)
        return self.answer(seconds)

    def pause(self) -> None:
        """Take it off the cores, with everything that it holds, until it is resumed."""
        if self._process.exitcode is None:
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self._process.exitcode is not None:
            raise self._failure()
        os.kill(self.pid, signal.SIGCONT)

    def _failure(self) -> ProcessFailed:
        """Why it is gone: what it said last, or else how it ended."""
        while self._link.poll():
            try:
                good, value = self._link.recv()
            except (EOFError, ConnectionError):
                break
            if not good:
                return ProcessFailed(f"{self.name} failed: {value}")
        self._process.join(1.0)
        return ProcessFailed(f"{self.name} ended with code {self._process.exitcode}")

    def ask_to_end(self) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, signal.SIGCONT)
            with contextlib.suppress(ConnectionError):  # it ends already
                self._link.send(("end",))

    def leave(self, until: float) -> None:
        """Wait for the end until this time (monotonic); then it is killed, and its own processes die with it."""
        self._process.join(max(until - time.monotonic(), 0.0))
        if self._process.exitcode is None:
            self._process.kill()

    def join(self) -> None:
        self._process.join()
        self._link.close()


def _run(body: Callable[..., None], link: Connection, directory: Path, arguments: tuple[Any, ...]) -> None:
    """The first thing that a process does: set itself up, then follow its orders."""
    follow_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    tempfile.tempdir = str(directory)
    keep_freed_memory()  # as a run from the command line does: so what is compared with one has the same
    orders = Orders(link)
    try:
        body(orders, *arguments)
    except Exception as error:
        with contextlib.suppress(ConnectionError):
            orders.fail(f"{type(error).__name__}: {error}")


def family(pid: int) -> dict[int, list[str]]:
    """A process and its children: the fields of their ``/proc/<pid>/stat`` from the state on. Empty without /proc."""
    members = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(directory.name) == pid or int(fields[1]) == pid:
            members[int(directory.name)] = fields
    return members


def memory(pid: int) -> dict[str, float]:
    """Bytes of a process with its children: resident (``rss``), and with shared pages counted once (``pss``)."""
    pids = list(family(pid))
    return {"rss": sum(map(resident_memory, pids)), "pss": sum(map(_proportional_memory, pids))}


def _proportional_memory(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1]) * 1024  # it is in kB
    except OSError:
        pass
    return 0.0
