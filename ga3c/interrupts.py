"""Ctrl-C and SIGTERM as an event that a command looks at when it can."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requests(*, last: bool = False) -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event, however often. Set on purpose: a shell may start us with them ignored.

    Afterwards they mean what they meant before, or, if the run is the ``last`` thing that the process does, nothing: a
    second Ctrl-C must not kill an interpreter that is about to end well.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def ask(number: int, frame: FrameType | None) -> None:
        interrupted.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)
