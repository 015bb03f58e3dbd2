"""Processes that an experiment measures in: started, asked, paused and ended by the one that runs the experiment.

They do as they are told over a pipe, end with the experiment however that ends, and keep their temporary files in a
directory that the experiment removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from ga3c.agents.process import PR_SET_PDEATHSIG
from ga3c.system.limits import resident_memory

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


class Process:
    """A process whose body takes orders. Its failure is told as an exception to whoever asks it next."""

    def __init__(self, name: str, directory: Path, body: Callable[..., None], *arguments: Any) -> None:
        self.name = name
        os.environ.setdefault("PYTHONWARNINGS", QUIET_TRACKER)
        spawn = multiprocessing.get_context("spawn")
        self._link, theirs = spawn.Pipe()
        # Not a daemon: those may not have processes of their own, and a server has its agents.
        self._process = spawn.Process(target=_run, args=(body, theirs, directory, arguments), name=name)
        # A Ctrl-C goes to the whole group, also to a process that cannot ignore it yet: it inherits this mask.
        with _undisturbed():
            self._process.start()
            _running.append(self)
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


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before a fork, which must not load anything
_running: list[Process] = []  # all that were started and not ended yet


def end_all(processes: Iterable[Process] | None = None) -> None:
    """End these, or all that run. They are told first, so that they end at the same time."""
    processes = list(_running if processes is None else processes)
    with _undisturbed():
        for process in processes:
            process.ask_to_end()
        until = time.monotonic() + LEAVE_SECONDS
        for process in processes:
            process.leave(until)
        for process in processes:
            process.join()
            _running.remove(process)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait meanwhile."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run(body: Callable[..., None], link: Connection, directory: Path, arguments: tuple[Any, ...]) -> None:
    """The first thing that a process does: set itself up, then follow its orders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides what Ctrl-C means
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    end_with_parent(signal.SIGKILL)  # also where it is paused and can look at nothing
    tempfile.tempdir = str(directory)
    orders = Orders(link)
    try:
        body(orders, *arguments)
    except Exception as error:
        with contextlib.suppress(ConnectionError):
            orders.fail(f"{type(error).__name__}: {error}")


def end_with_parent(number: int) -> None:
    """The kernel sends this process that signal when the one that started it ends, however that is (on Linux)."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt once; further ones must not disturb the cleaning up after it.

    Set on purpose: a shell may have started us with them ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
