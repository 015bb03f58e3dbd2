"""GA3C: a hybrid CPU/GPU actor-critic server.

Imports are lazy: agent processes import this package too and must never pay for torch, and the command line wants to
look after signals before anything takes time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ga3c.runs.policy import Policy, load
    from ga3c.runs.rundir import Summary
    from ga3c.runs.training import RunFailed, train
    from ga3c.settings.config import Config
    from ga3c.settings.declare import ConfigError

__version__ = "0.1.0"
__all__ = ["Config", "ConfigError", "Policy", "RunFailed", "Summary", "__version__", "load", "train"]

HOMES = {
    "Config": "ga3c.settings.config",
    "ConfigError": "ga3c.settings.declare",
    "Policy": "ga3c.runs.policy",
    "RunFailed": "ga3c.runs.training",
    "Summary": "ga3c.runs.rundir",
    "load": "ga3c.runs.policy",
    "train": "ga3c.runs.training",
}


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'ga3c' has no attribute {name!r}")
