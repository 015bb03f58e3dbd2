"""A run as its directory tells of it: what it is, how far it came, and whether it is still at work."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from ga3c.system.files import is_locked

TAIL = 2**16  # bytes at the end of a file, in which its last row is
AT_WORK, STARTING, KILLED = "at work", "starting", "killed"
LATE = 2.0  # seconds between the last row and the summary of a run that ended


@dataclass(frozen=True)
class Recorded:
    path: Path

    @classmethod
    def at(cls, path: Path) -> Recorded:
        if not path.is_dir():
            raise ConfigError(f"{path} is not a run directory")
        return cls(path)

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def at_work(self) -> bool:
        """The kernel knows: a process that was killed, or a machine that went down, has no locks any more."""
        try:
            return is_locked(self.path)
        except OSError:  # it is gone, or not ours to read
            return False

    @property
    def state(self) -> str:
        """At work, or how it ended."""
        if self.at_work:
            return AT_WORK if self.metrics.exists() else STARTING
        reason = str(self.summary.get("exit_reason", ""))
        began = max(_changed(self.metrics), _changed(self.path / "config.json"))
        resumed = began > _changed(self.path / "summary.json") + LATE  # and there was no end of that
        return KILLED if resumed or not reason else reason

    @property
    def when(self) -> float:
        """When it last wrote a row or its end; where there is none, when it began."""
        times = [_changed(self.path / name) for name in ("metrics.jsonl", "summary.json", "config.json")]
        return max(times) or _changed(self.path)

    @cached_property
    def settings(self) -> dict[str, Any]:
        return _read(self.path / "config.json")

    @cached_property
    def summary(self) -> dict[str, Any]:
        return _read(self.path / "summary.json")

    @cached_property
    def last(self) -> dict[str, Any]:
        """The newest row of figures, or the summary, where that is of no fewer steps."""
        rows = last_rows(self.metrics)
        return max(self.summary, *rows[-1:], key=lambda told: told.get("steps", 0)) if rows else self.summary

    def config(self) -> Config:
        """The settings that this version knows, where they can be used."""
        known = {field.name for field in fields(Config)}
        try:
            return Config(**{name: value for name, value in self.settings.items() if name in known})
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"the settings in {self.path / 'config.json'} cannot be used: {error}") from None


def find_runs(directory: Path) -> list[Recorded]:
    """All runs of a directory, the newest first."""
    if not directory.is_dir():
        raise ConfigError(f"there are no runs in {directory}: a run makes the directory where it is started")
    runs = [Recorded(path) for path in directory.iterdir() if path.is_dir()]
    return sorted(
        (run for run in runs if run.settings or run.summary or run.at_work), key=lambda run: run.when, reverse=True
    )


def last_rows(path: Path) -> list[dict[str, Any]]:
    """The last rows of a file that may be just growing; what is no whole row is left out."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - TAIL, 0))
            return rows_in(file.read())
    except OSError:
        return []


def rows_in(content: bytes) -> list[dict[str, Any]]:
    rows = []
    for line in content.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):  # the first one may be cut
            row = json.loads(line)
            if isinstance(row, dict):
                rows.append(row)
    return rows


def _read(path: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
