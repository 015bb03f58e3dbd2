"""Directories of our own for sockets, gone with the process; what a killed one left, the next start removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "ga3c-"
LONGEST = 103 - len("/ga3c-12345678/server")  # bytes: a socket's name may have 103 on macOS, a few more on Linux
LOCK = "lock"  # held for as long as the directory is in use; the kernel releases it when its process dies


class PrivateDirectory:
    """A temporary directory that only this user may enter."""

    def __init__(self) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_home()))
        # Locked before it has its name: one that another start finds is either in use or left.
        unnamed = self.path / f".{LOCK}"
        self._lock: int | None = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / LOCK)

    def close(self) -> None:
        """May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _home() -> Path:
    """Where temporary files are, unless that has too long a name for the sockets in it, as on some clusters."""
    usual = tempfile.gettempdir()
    return Path(usual if len(os.fsencode(usual)) <= LONGEST else "/tmp")


def sweep() -> None:
    """Remove directories whose process is gone."""
    for lock in _home().glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError):  # of another user, in use, or just removed by another start
            number = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(number)
