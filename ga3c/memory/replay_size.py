"""How large a replay memory is, and whether there is room for it."""

from __future__ import annotations

import math

import torch

from ga3c.games.spec import EnvSpec
from ga3c.settings.declare import ConfigError
from ga3c.system.limits import available_memory

BLOCK = 2_000  # steps that are moved at once
LEAST_BLOCK = 64  # in a small memory
LARGE = 1_024  # bytes of a frame from which headroom is kept small
SHARE = 0.9  # of what is left that a memory may take: batches and the model need some as well


def usual_block(spec: EnvSpec, capacity: int) -> int:
    return min(BLOCK, max(capacity // (1_000 if spec.frame_bytes >= LARGE else 50), LEAST_BLOCK))


def usual_headroom(spec: EnvSpec, capacity: int) -> int:
    """With frames of Atari 2.2 ‰, so that a transition does not cost more than 7,100 bytes."""
    return capacity // 450 if spec.frame_bytes >= LARGE else capacity // 16 + 64


def room(device: torch.device) -> float:
    """Bytes that can be had there."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return available_memory() if device.type == "cpu" else math.inf


def check_room(needed: int, host: int, device: torch.device, capacity: int) -> None:
    """Refuse what does not fit, and say what would."""
    left, here = SHARE * room(device), SHARE * available_memory()
    if device.type == "cpu":
        needed += host
    elif host > here:
        raise ConfigError(
            f"the replay memory's books need {host / 1e9:.2f} GB of the host, and {here / 1e9:.2f} GB are left"
        )
    if needed <= left:
        return
    fits = int(capacity * left / needed)
    fits = fits // 10 ** max(len(str(fits)) - 2, 0) * 10 ** max(len(str(fits)) - 2, 0)
    remedy = f"REPLAY_STEPS={fits} fit" if fits else "nothing fits"
    if device.type != "cpu" and needed + host <= here:
        remedy += ", or REPLAY_DEVICE=cpu keeps it in the host's memory"
    raise ConfigError(
        f"a replay memory of {capacity:,} steps needs {needed / 1e9:.2f} GB of {device}, and {left / 1e9:.2f} GB can "
        f"be had: {remedy}"
    )
