"""GA3C: a hybrid CPU/GPU actor-critic server.

Imports are lazy: agent processes import this package too and must never pay for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ga3c.config import Config
from ga3c.settings import ConfigError

if TYPE_CHECKING:
    from ga3c.training import train

__version__ = "0.1.0"
__all__ = ["Config", "ConfigError", "__version__", "train"]


def __getattr__(name: str) -> Any:
    if name == "train":
        from ga3c.training import train

        return train
    raise AttributeError(f"module 'ga3c' has no attribute {name!r}")
