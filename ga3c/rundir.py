"""The run directory: the files that a run leaves, whose names and keys other programs may rely on.

Training is not lost because a file cannot be written: that is logged once per file, and the run goes on.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ga3c.config import Config
from ga3c.files import write_json
from ga3c.settings import ConfigError
from ga3c.stats import GameRecord

log = logging.getLogger(__name__)

EPISODES_HEADER = "seconds,steps,episode,score,length\n"


def run_path(config: Config) -> Path:
    """Where the run writes: RUN, else the run that is resumed, else a new ``runs/<game>-<time>``."""
    if config.run or config.resume:
        return Path(config.run or config.resume)
    game = config.game.replace("/", "-").replace(":", "-").lower()
    base = Path("runs") / f"{game}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


class RunDirectory:
    """Writes config, metrics, games, TensorBoard events and the summary of one run."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self._failed: set[str] = set()
        self._tensorboard: Any = None
        self._use_tensorboard = config.tensorboard
        try:
            path.mkdir(parents=True, exist_ok=True)
            resumed = bool(config.resume) and Path(config.resume).resolve() == path.resolve()
            if not resumed and any((path / name).exists() for name in ("checkpoints", "metrics.jsonl")):
                raise ConfigError(
                    f"{path} holds a run already: RESUME={path} goes on with it, RUN=… names another place"
                )
        except OSError as error:
            raise ConfigError(f"the run directory {path} cannot be written: {error.strerror or error}") from None

    def write_config(self, config: Config) -> None:
        self._try("config.json", lambda: write_json(self.path / "config.json", config.to_dict()))

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def add_metrics(self, row: dict[str, Any]) -> None:
        self._try("metrics.jsonl", lambda: self._append("metrics.jsonl", json.dumps(row) + "\n"))
        if self._use_tensorboard:
            self._try("TensorBoard events", lambda: self._add_events(row))

    def add_games(self, games: list[GameRecord]) -> None:
        """Append the games that ended since the last call."""
        lines = [f"{game.seconds:.1f},{game.steps},{game.episode},{game.score:g},{game.length}\n" for game in games]
        self._try("episodes.csv", lambda: self._append("episodes.csv", "".join(lines), EPISODES_HEADER))

    def write_summary(self, summary: dict[str, Any]) -> None:
        self._try("summary.json", lambda: write_json(self.path / "summary.json", summary))

    def close(self) -> None:
        if self._tensorboard is not None:
            self._try("TensorBoard events", self._tensorboard.close)

    def _append(self, name: str, text: str, header: str = "") -> None:
        path = self.path / name
        with path.open("a", encoding="utf-8") as file:
            file.write(text if not header or file.tell() else header + text)

    def _add_events(self, row: dict[str, Any]) -> None:
        if self._tensorboard is None:
            from ga3c.events import EventWriter  # not before it is needed: the import takes a second

            self._tensorboard = EventWriter(self.path)
        self._tensorboard.add(row)

    def _try(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # whatever the disk or a library does: the run is worth more than the line
            if name not in self._failed:
                self._failed.add(name)
                log.warning("%s cannot be written (%s); training goes on without", name, error)
