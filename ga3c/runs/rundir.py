"""The run directory: the files that a run leaves, whose names and keys other programs may rely on.

Training is not lost because a file cannot be written: that is logged once per file, and what did not get there is kept
for when it can be written again.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from ga3c.memory.figures import FIGURES, Figure
from ga3c.memory.stats import GameRecord
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from ga3c.system.files import Appender, lock_directory, write_json

log = logging.getLogger(__name__)

EPISODES_HEADER = b"seconds,steps,episode,score,length\n"
PROBE = b"\n" * 1024  # less than any file of a run, and more than a full disk takes


class Rates(TypedDict):
    """Of the whole session, from its first prediction on."""

    pps: float
    tps: float
    trained_per_second: float
    agents: int
    remote_agents: int
    predictors: int
    trainers: int
    lag_mean: float


class Summary(Rates):
    """What ``train`` returns, and ``summary.json``."""

    steps: int
    updates: int
    episodes: int
    seconds: float
    score: float | None  # mean of the last games; None: there was none
    lag_max: int
    stale_steps: int
    lost_steps: int
    unaccounted_steps: int
    bad_updates: int
    bad_messages: int
    run: str  # its directory
    exit_reason: str


class RunDirectory:
    """Writes config, metrics, games, TensorBoard events and the summary of one run, which has it for itself."""

    def __init__(self, config: Config) -> None:
        self._failed: set[str] = set()
        self._growing: dict[str, Appender] = {}
        self._use_tensorboard = config.tensorboard
        self._events_file = ""
        self._settings: dict[str, Any] = {}
        self.path = Path(config.run or config.resume) if config.run or config.resume else _new_directory(config.game)
        self._lock: int | None = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = lock_directory(self.path)
            _probe(self.path)
            resumed = bool(config.resume) and Path(config.resume).resolve() == self.path.resolve()
            if not resumed and any((self.path / name).exists() for name in ("checkpoints", "metrics.jsonl")):
                raise ConfigError(
                    f"{self.path} holds a run already: RESUME={self.path} goes on with it, RUN=… names another place"
                )
        except OSError as error:
            self._unlock()
            raise _not_writable(self.path, error) from None
        except ConfigError:
            self._unlock()
            raise

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def write_config(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._try("config.json", lambda: write_json(self.path / "config.json", settings))

    def _write_late_config(self) -> None:
        """Where there was no room for it: nobody could resume the run without."""
        if self._settings and not (self.path / "config.json").exists():
            self.write_config(self._settings)

    def add_metrics(self, row: dict[str, Any], figures: Sequence[Figure] = FIGURES) -> None:
        self._write_late_config()
        self._add("metrics.jsonl", (json.dumps(row) + "\n").encode())
        if self._use_tensorboard:
            self._try("TensorBoard events", lambda: self._add_events(row, figures))

    def add_games(self, games: list[GameRecord]) -> None:
        """Append the games that ended since the last call."""
        lines = [f"{game.seconds:.1f},{game.steps},{game.episode},{game.score:g},{game.length}\n" for game in games]
        self._add("episodes.csv", "".join(lines).encode(), EPISODES_HEADER)

    def write_summary(self, summary: Summary) -> bool:
        """Returns whether it is there now."""
        self._write_late_config()
        return self._try("summary.json", lambda: write_json(self.path / "summary.json", {**summary}))

    def close(self) -> None:
        """Write what still waits, and let another run have the directory."""
        for name, file in self._growing.items():
            self._try(name, file.flush)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _add_events(self, row: dict[str, Any], figures: Sequence[Figure]) -> None:
        from ga3c.runs import tensorboard as events  # not before it is needed: the import takes a second

        self._events_file = self._events_file or events.file_name()
        self._add(self._events_file, events.record(row, figures), events.first_record())

    def _add(self, name: str, content: bytes, header: bytes = b"") -> None:
        file = self._growing.setdefault(name, Appender(self.path / name, header))
        self._try(name, lambda: file.add(content))

    def _try(self, name: str, write: Callable[[], None]) -> bool:
        try:
            write()
        except Exception as error:  # whatever the disk or a library does: the run is worth more than the line
            if name not in self._failed:
                self._failed.add(name)
                log.warning("%s cannot be written (%s); training goes on without", name, error)
            return False
        if name in self._failed:
            self._failed.remove(name)
            log.info("%s can be written again", name)
        return True


def _probe(directory: Path) -> None:
    """So that what can never be written is refused before anything starts."""
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(PROBE)
        file.flush()
        os.fsync(file.fileno())  # some file systems only now look for room


def _new_directory(game: str) -> Path:
    """A new ``runs/<game>-<time>``, also where another run starts at the same moment."""
    name = game.replace("/", "-").replace(":", "-").lower()
    base = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = base, 1
    while True:
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            number += 1
            path = base.with_name(f"{base.name}-{number}")
        except OSError as error:
            raise _not_writable(path, error) from None


def _not_writable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"the run directory {path} cannot be written: {error.strerror or error}")
