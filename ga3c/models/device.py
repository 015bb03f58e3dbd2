"""The device that a model is on."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ga3c.settings.declare import ConfigError


def limit_threads(count: int) -> Callable[[], None]:
    """Let torch compute with so many threads; returns what gives the process those back that it had.

    By itself it takes one per core, which would multiply with predictors and trainers, and spin.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    return lambda: torch.set_num_threads(before)


def pick_device(name: str) -> torch.device:
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda:0")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"DEVICE={name} cannot be used here: {reason}") from None
    return device
