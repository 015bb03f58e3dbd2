"""The device that a model is on."""

from __future__ import annotations

import torch

from ga3c.settings.declare import ConfigError


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
