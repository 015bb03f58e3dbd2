"""Who drives play and learning: three of a kind, with one life cycle."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ga3c.games.spec import EnvSpec
from ga3c.memory.stats import Stats
from ga3c.settings.config import Resolved

if TYPE_CHECKING:
    from ga3c.models.model import TrainableModel

LOOK_SECONDS = 0.05  # between two looks at agents, and at queues or reports
STOP_SECONDS = 1.5  # for all agents to leave

LogQueue: TypeAlias = "multiprocessing.Queue[logging.LogRecord]"


class Engine(Protocol):
    """In this order: ``prepare``, ``start``, ``wait`` again and again, ``stop``, which may also come before."""

    @property
    def setting(self) -> dict[str, int]:
        """NA, NP and NT as they are now."""

    def prepare(self) -> TrainableModel:
        """Begin with what takes long, and make the model, which a resumed run then loads."""

    def start(self, saved: dict[str, Any] | None = None) -> None:
        """Play and train, from the model as it is now; ``saved`` is the ``state`` to go on from."""

    def wait(self, seconds: float) -> None:
        """Let it work for about this long. Raises what it failed with."""

    def stop(self) -> None:
        """End it all. What is under way is counted as lost, unless it is in ``state``."""

    def state(self) -> dict[str, Any] | None:
        """All that decides what follows, but for model and counters; None where that cannot be told."""


ENGINES = {  # by their names in the recipes
    "server": "ga3c.engines.server.Server",
    "lone": "ga3c.engines.lone.LoneServer",
    "serial": "ga3c.engines.serial.SerialServer",
}


def make_engine(config: Resolved, spec: EnvSpec, stats: Stats, log_queue: LogQueue) -> Engine:
    """That of the recipe; SERIAL=1 has its own for all."""
    module, _, name = ENGINES["serial" if config.serial else config.recipe.engine].rpartition(".")
    engine: Engine = getattr(importlib.import_module(module), name)(config, spec, stats, log_queue)
    return engine
