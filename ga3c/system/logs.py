"""One log for all processes of a run: the terminal, ``log.txt``, and what agents say.

Agents put their records on the queue of multiprocessing-logging's handler, whose thread gives them to the same
handlers. The server's own records go there directly: an agent that is killed while it writes must not stop the
server's log.
"""

from __future__ import annotations

import logging
import multiprocessing
from pathlib import Path

from multiprocessing_logging import MultiProcessingHandler

from ga3c.system.files import append_whole

FORMAT = "%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s"
PACKAGES = ("ga3c", "tuner")
END = "ga3c.end-of-log"
SHORT = "%(asctime)s %(levelname)s %(message)s"


class _All(logging.Handler):
    """Gives a record of another process to the handlers of this one."""

    def __init__(self, handlers: list[logging.Handler]) -> None:
        super().__init__()
        self._handlers = handlers

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == END:
            raise EOFError  # which the receiver takes as the end of its queue
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)


class LogFile(logging.Handler):
    """Adds each record to a file that need not be there yet or any more: a line that is lost must cost nothing else."""

    def __init__(self, path: Path, instead: logging.Handler) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._path = path
        self._instead = instead  # is told when the file cannot be written
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            append_whole(self._path, f"{self.format(record)}\n".encode(errors="backslashreplace"))
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                message = f"{self._path.name} cannot be written ({error}); training goes on without"
                self._instead.handle(
                    logging.makeLogRecord({"msg": message, "levelno": logging.WARNING, "levelname": "WARNING"})
                )


class RunLog:
    """The handlers of a run, attached to the loggers of our packages while it lasts."""

    def __init__(self, path: Path | None, screen: logging.Handler) -> None:
        """``path`` is that of ``log.txt``, where there is a run directory."""
        self._before = [(logger, logger.level, logger.propagate) for logger in map(logging.getLogger, PACKAGES)]
        self._handlers: list[logging.Handler] = [screen]
        if path is not None:
            self._handlers.insert(0, LogFile(path, screen))
        self._receiver = _receiver(_All(self._handlers))
        for logger, _, _ in self._before:
            logger.setLevel(logging.INFO)
            logger.propagate = False
            for handler in self._handlers:
                logger.addHandler(handler)

    @property
    def queue(self) -> multiprocessing.Queue[logging.LogRecord]:
        """Where agents put their records."""
        return self._receiver.queue  # type: ignore[no-any-return]

    def close(self) -> None:
        """May be called twice."""
        if not self._handlers:
            return
        # By itself the receiver would wait for records that an agent counted but, killed, never wrote.
        self.queue.put(logging.makeLogRecord({"name": END}))
        self._receiver.close()
        for logger, level, propagate in self._before:
            for handler in self._handlers:
                logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        for handler in self._handlers:
            handler.close()
        self._handlers.clear()


def _receiver(target: logging.Handler) -> MultiProcessingHandler:
    """The handler makes its queue by the default start method, and only one made for spawn can go to our agents."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        return MultiProcessingHandler("ga3c-log", target)
    finally:
        multiprocessing.set_start_method(before, force=True)
