"""Saving a run: its state is taken in a moment, and written by a thread that has nothing else to do.

A slow disk must not keep the thread that tends agents: those that die meanwhile have to be replaced.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ga3c.memory.stats import Stats
from ga3c.runs.checkpoint import save_checkpoint
from ga3c.settings.config import Config

if TYPE_CHECKING:
    from ga3c.models.model import TrainableModel

log = logging.getLogger(__name__)


class Moment(NamedTuple):
    """All that a checkpoint keeps, as it was then."""

    arrays: dict[str, np.ndarray]
    state: dict[str, Any]


class Saving:
    """The checkpoints of one session of a run. All but the writing is done by the thread that calls.

    One is written at a time. Of those that are taken meanwhile, only the newest is written after it.
    """

    def __init__(self, directory: Path, config: Config, stats: Stats) -> None:
        self._directory = directory
        self._config = config
        self._stats = stats
        self._changed = threading.Condition()
        self._waiting: Moment | None = None  # to be written next
        self._ended = False
        self._writer: threading.Thread | None = None
        self._saved = -1  # updates in the newest checkpoint of this session
        self._failure = ""  # why the last checkpoint could not be written

    def save(self, model: TrainableModel, play: dict[str, Any] | None) -> None:
        """Take the state of this moment, to be written soon; a serial run, which has nobody to tend, waits for it."""
        moment = self._take(model, play)
        if self._config.serial:
            self._write(moment)
            return
        with self._changed:
            self._waiting = moment
            self._changed.notify()
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name="checkpoints", daemon=True)
            self._writer.start()

    def save_last(self, model: TrainableModel, play: dict[str, Any] | None) -> str:
        """Wait until the last checkpoint is written; returns what is lost where that failed."""
        with self._changed:
            self._ended, self._waiting = True, None
            self._changed.notify()
        if self._writer is not None:
            self._writer.join()
        self._write(self._take(model, play))
        if not self._failure:
            return ""
        newest = f"the newest is of update {self._saved}" if self._saved >= 0 else "nothing of this session is saved"
        return f"its last checkpoint could not be written ({self._failure}): {newest}"

    def _take(self, model: TrainableModel, play: dict[str, Any] | None) -> Moment:
        version, arrays = model.state()
        stats = self._stats.state()
        stats["totals"]["updates"] = version  # trainers may have gone on since
        state = {
            "updates": version,
            "steps": stats["totals"]["steps"],
            "game": self._config.game,
            "network": self._config.network,
            "config": self._config.to_dict(),
            "stats": stats,
            "play": play,
        }
        return Moment(arrays, state)

    def _write_all(self) -> None:
        """The thread itself."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._waiting is not None)
                moment, self._waiting = self._waiting, None
            if moment is None:
                return
            self._write(moment)

    def _write(self, moment: Moment) -> None:
        try:
            save_checkpoint(self._directory, *moment, self._config.keep_checkpoints)
        except Exception as error:  # whatever the disk or a library does: the run is worth more than the checkpoint
            if not self._failure:
                surprise = not isinstance(error, OSError)
                log.warning("no checkpoint can be written (%s); training goes on", error, exc_info=surprise)
            self._failure = str(error) or type(error).__name__
        else:
            if self._failure:
                log.info("checkpoints can be written again")
            self._saved, self._failure = moment.state["updates"], ""
