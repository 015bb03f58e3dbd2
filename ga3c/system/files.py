"""Files and lines of them that are written whole or not at all, and directories that one process has for itself."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ga3c.settings.declare import ConfigError

KEPT = 10_000  # additions to a file that are kept while it cannot be written: half a day of rows


@contextlib.contextmanager
def open_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to. A reader sees the old file or the new one, never half of it, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to, renamed at the end: a broken file never has the name that was asked for."""
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """All of a file at once, as ``open_atomically`` does."""
    with open_atomically(path) as file:
        file.write(content)


def append_whole(path: Path, content: bytes, header: bytes = b"") -> None:
    """Add to a file, after the header where it is new. A full disk takes half of a line: that half is taken back."""
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        before = os.fstat(number).st_size
        left = memoryview(content if before else header + content)
        try:
            while left:
                left = left[os.write(number, left) :]
        except OSError:
            os.ftruncate(number, before)
            raise
    finally:
        os.close(number)


class Appender:
    """A file that only grows. What cannot be written is kept, in its order, until it can be."""

    def __init__(self, path: Path, header: bytes = b"") -> None:
        self._path = path
        self._header = header
        self._waiting: deque[bytes] = deque(maxlen=KEPT)

    def add(self, content: bytes) -> None:
        """Raises OSError where not all that waits could be written."""
        if content or not self._waiting:  # nothing at all still makes a new file, with its header
            self._waiting.append(content)
        self.flush()

    def flush(self) -> None:
        """Write what waits. Raises OSError where there was not room for all of it."""
        if not self._waiting:
            return
        try:
            append_whole(self._path, b"".join(self._waiting), self._header)
            self._waiting.clear()
        except OSError:
            while self._waiting:  # as far as there is room
                append_whole(self._path, self._waiting[0], self._header)
                self._waiting.popleft()


def _sync_directory(directory: Path) -> None:
    """So that the new name, too, is on the disk; not every system can open a directory."""
    with contextlib.suppress(OSError):
        number = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def lock_directory(path: Path) -> int | None:
    """Take the directory for this process alone; the kernel gives it back when the process ends, however that is."""
    number = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        raise ConfigError(
            f"another run writes to {path} at this moment: wait until it has ended, or name another place by RUN=…"
        ) from None
    except OSError:  # a file system that has no such locks: the user has to take care
        os.close(number)
        return None
    return number


def is_locked(path: Path) -> bool:
    """Whether a process has the directory for itself. Where there are no such locks, none has."""
    number = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(number)  # which gives the lock back
    return False
