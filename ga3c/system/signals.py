"""Ctrl-C and SIGTERM: what they mean from the first moment of the process to its last."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | signal.Handlers

USUAL: dict[signal.Signals, Handler] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


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
    """Signals set the event, however often. Set on purpose: a shell may start us with them ignored.

    Afterwards they mean what they meant before, or, if the run is the ``last`` thing that the process does, nothing: a
    second Ctrl-C must not kill an interpreter that is about to end well.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:  # a second signal may come while the event is being set, and would wait for its lock for ever
            asked = True
            interrupted.set()

    before = {number: signal.signal(number, ask) for number in USUAL}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)
