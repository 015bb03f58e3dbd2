"""Ctrl-C, SIGTERM and the end of a parent: what they mean from the first moment of a process to its last."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | signal.Handlers

USUAL: dict[signal.Signals, Handler] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
PR_SET_PDEATHSIG = 1  # of Linux's prctl


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(0)


def end_at_once() -> None:
    """While nothing has begun, a signal ends the process, without the traceback of an import that it interrupted."""
    for number in USUAL:
        signal.signal(number, _leave)


def as_usual() -> None:
    """What ``end_at_once`` did is over: KeyboardInterrupt and death, as in any program."""
    for number, handler in USUAL.items():
        if signal.getsignal(number) is _leave:
            signal.signal(number, handler)


@contextmanager
def stop_requests(*, last: bool = False) -> Iterator[threading.Event]:
    """Signals set the event, however often.

    Afterwards they mean what they meant before, or, if the run is the ``last`` thing that the process does, nothing: a
    second Ctrl-C must not kill an interpreter that is about to end well.
    """
    interrupted = threading.Event()
    with _first_signal(interrupted.set, last=last):
        yield interrupted


@contextmanager
def interruptible() -> Iterator[None]:
    """Signals raise KeyboardInterrupt once; further ones must not disturb the cleaning up after it."""

    def stop() -> None:
        raise KeyboardInterrupt

    with _first_signal(stop):
        yield


@contextmanager
def _first_signal(act: Callable[[], None], *, last: bool = False) -> Iterator[None]:
    """The first signal does this. Set on purpose: a shell may start us with them ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:  # a second signal may come while an event is being set, and would wait for its lock for ever
            asked = True
            act()

    before = {number: signal.signal(number, ask) for number in USUAL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)


@contextmanager
def undisturbed(numbers: Iterable[int] = USUAL) -> Iterator[None]:
    """Signals wait meanwhile. Who is started meanwhile inherits that, until it says what they mean to it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def follow_parent(on_sigterm: Handler = signal.SIG_DFL) -> None:
    """What a process does first that another one has started and looks after: it ends with it, and by its decision."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    signal.signal(signal.SIGTERM, on_sigterm)
    ready_to_end_with_parent(signal.SIGKILL)()  # also where the process is paused, or hangs, and looks at no parent


def ready_to_end_with_parent(number: int) -> Callable[[], Any]:
    """What lets the kernel send this process that signal when the one that started it ends, however that is (on Linux).

    It may be called between fork and exec, where nothing may be loaded any more.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes  # not at the top: it takes milliseconds in which nobody would look after signals

    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, number)
