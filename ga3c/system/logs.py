"""One log for all processes of a run: the terminal, ``log.txt``, and what agents say.

Agents put their records on the queue of multiprocessing-logging's handler, whose thread gives them to the same
handlers. The server's own records go there directly: an agent that is killed while it writes must not stop the
server's log.
"""

from __future__ import annotations

import copy
import logging
import multiprocessing
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from multiprocessing_logging import MultiProcessingHandler

from ga3c.system.files import Appender

FORMAT = "%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s"
PACKAGES = ("ga3c", "tuner")
END = "ga3c.end-of-log"
LEAST_SECONDS = 10.0  # between two lines about the same
SHORT = "%(asctime)s %(levelname)s %(message)s"


class SparingLog:
    """Tells in few lines of what others may cause as often as they like.

    ``text`` has the number of these events, and what is said of the last one.
    """

    def __init__(self, log: logging.Logger, text: str, level: int = logging.WARNING) -> None:
        self._log = log
        self._text = text
        self._level = level
        self._untold = 0
        self._told = -LEAST_SECONDS

    def add(self, last: object) -> None:
        self._untold += 1
        now = time.monotonic()
        if now - self._told > LEAST_SECONDS:
            self._log.log(self._level, self._text, self._untold, last)
            self._untold, self._told = 0, now


@dataclass
class _Told:
    """A traceback that was told in full."""

    last: logging.LogRecord
    times: int = 1
    untold: int = 0  # of them, since the last line about it
    when: float = field(default_factory=time.monotonic)


class _All(logging.Handler):
    """Gives a record of another process to the handlers of this one.

    A traceback comes once for each agent that meets the same fault: it is told in full once, then in a line with how
    often, and not more often than anybody wants to read.
    """

    def __init__(self, handlers: list[logging.Handler]) -> None:
        super().__init__()
        self._handlers = handlers
        self._told: dict[tuple[str, ...], _Told] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == END:
            raise EOFError  # which the receiver takes as the end of its queue
        fault = _fault(record)
        if not fault:
            self._give(record)
        elif fault not in self._told:
            self._told[fault] = _Told(record)
            self._give(record)
        else:
            told = self._told[fault]
            told.last, told.times, told.untold = record, told.times + 1, told.untold + 1
            if time.monotonic() - told.when > LEAST_SECONDS:
                self._tell(told)

    def tell_rest(self) -> None:
        for told in self._told.values():
            if told.untold:
                self._tell(told)

    def _tell(self, told: _Told) -> None:
        head, *_, last = told.last.getMessage().splitlines()
        record = copy.copy(told.last)
        record.msg, record.args = f"{head}, with a traceback as one before ({told.times} times by now): {last}", None
        told.untold, told.when = 0, time.monotonic()
        self._give(record)

    def _give(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)


def _fault(record: logging.LogRecord) -> tuple[str, ...]:
    """What the tracebacks of one fault have in common: where it was raised, and what was said but for its numbers."""
    lines = record.getMessage().splitlines()
    if "Traceback (most recent call last):" not in lines:
        return ()
    return (*(line for line in lines if line.startswith('  File "')), re.sub(r"[^A-Za-z]", "", lines[-1]))


class _Receiver(MultiProcessingHandler):  # type: ignore[misc]
    """With a queue for processes that are spawned.

    The one that it makes by itself is by the start method of the whole process, which is its caller's to choose.
    """

    def __init__(self, target: logging.Handler) -> None:
        logging.Handler.__init__(self)
        self.sub_handler = target
        self.queue: multiprocessing.Queue[logging.LogRecord] = multiprocessing.get_context("spawn").Queue()
        self._is_closed = False
        self._receive_thread = threading.Thread(target=self._receive, name="ga3c-log", daemon=True)
        self._receive_thread.start()


class LogFile(logging.Handler):
    """Adds each record to a file that need not be there yet or any more; what cannot be written costs nothing else."""

    def __init__(self, path: Path, instead: logging.Handler) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._path = path
        self._file = Appender(path)
        self._instead = instead  # is told when the file cannot be written
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        self._try(lambda: self._file.add(f"{self.format(record)}\n".encode(errors="backslashreplace")))

    def close(self) -> None:
        self._try(self._file.flush)
        super().close()

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                message = f"{self._path.name} cannot be written ({error}); training goes on without"
                self._instead.handle(
                    logging.makeLogRecord({"msg": message, "levelno": logging.WARNING, "levelname": "WARNING"})
                )


def screen_handler(stream: TextIO) -> logging.Handler:
    """Lines for a person who looks on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(SHORT, "%H:%M:%S"))
    return handler


class RunLog:
    """The handlers of a run, attached to the loggers of our packages while it lasts."""

    def __init__(self, path: Path | None, screen: logging.Handler) -> None:
        """``path`` is that of ``log.txt``, where there is a run directory."""
        self._before = [(logger, logger.level, logger.propagate) for logger in map(logging.getLogger, PACKAGES)]
        self._handlers: list[logging.Handler] = [screen]
        if path is not None:
            self._handlers.insert(0, LogFile(path, screen))
        self._all = _All(self._handlers)
        self._receiver = _Receiver(self._all)
        for logger, _, _ in self._before:
            logger.setLevel(logging.INFO)
            logger.propagate = False
            for handler in self._handlers:
                logger.addHandler(handler)

    @property
    def queue(self) -> multiprocessing.Queue[logging.LogRecord]:
        """Where agents put their records."""
        return self._receiver.queue

    def close(self) -> None:
        """May be called twice."""
        if not self._handlers:
            return
        # By itself the receiver would wait for records that an agent counted but, killed, never wrote.
        self.queue.put(logging.makeLogRecord({"name": END}))
        self._receiver.close()
        self._all.tell_rest()
        for logger, level, propagate in self._before:
            for handler in self._handlers:
                logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        for handler in self._handlers:
            handler.close()
        self._handlers.clear()
