"""Where the processes of agents run: what who looks after them asks of a place. Never imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Task = tuple[Callable[..., None], tuple[Any, ...]]  # the body of a process, and what it is given


class Running(Protocol):
    """A process that was started. Names and meanings are those of multiprocessing."""

    @property
    def pid(self) -> int | None: ...
    @property
    def exitcode(self) -> int | None:
        """None while it lives; -N: signal N killed it."""

    @property
    def sentinel(self) -> int:
        """What ``multiprocessing.connection.wait`` takes; ready when the process has ended."""

    def is_alive(self) -> bool: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...


class Place(Protocol):
    def start(self, number: int, task: Task) -> Running:
        """Start the process of the agent with this number. Raises OSError where the system refuses it."""


def how_it_ended(process: Running) -> str:
    code = process.exitcode
    return f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
