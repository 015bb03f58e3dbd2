"""Writing to a memory and drawing from it, in turn: between threads, and on CUDA between streams."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol

import torch


class Turns(Protocol):
    def writing(self) -> contextlib.AbstractContextManager[None]: ...
    def reading(self) -> contextlib.AbstractContextManager[None]: ...


class Threads:
    """One after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def writing(self) -> contextlib.AbstractContextManager[None]:
        return self.reading()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock:
            yield


class Streams:
    """The host waits for neither: what is written is copied on a stream of its own, after what was drawn before, and
    what is drawn later waits for the copy, on the device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._drawn = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        with self._lock, torch.cuda.stream(self._copies):
            self._copies.wait_event(self._drawn)
            yield
            self._copied.record(self._copies)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(self._copied)
            yield
            self._drawn.record(stream)


def take_turns(device: torch.device) -> Turns:
    return Streams(device) if device.type == "cuda" else Threads()
