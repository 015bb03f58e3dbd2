"""Files and lines of them that are written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, never half of it, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


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
