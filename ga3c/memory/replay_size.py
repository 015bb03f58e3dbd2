"""How large a replay memory is, and whether there is room for it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.settings.declare import ConfigError
from ga3c.system.limits import available_memory

BLOCK = 2_000  # rows that are kept free, and moved at once
LEAST_BLOCK = 64  # in a small memory
LARGE = 1_024  # bytes of a frame from which headroom is kept small
SHARE = 0.9  # of what is left that a memory may take: batches and the model need some as well
BOOKS = 4  # numbers of a transition beside its action


class Size(NamedTuple):
    capacity: int  # transitions
    block: int  # rows
    headroom: int  # rows beside one for each transition
    columns: int  # numbers of a transition
    bytes: int  # of the device: frames and all books
    host_bytes: int  # of the host beside it: books, and blocks on their way


def size_of(
    spec: EnvSpec, capacity: int, *, block: int | None = None, headroom: int | None = None, staged: bool = False
) -> Size:
    """Block and headroom as they are given, or as they usually are, and what all of it takes."""
    least = spec.stack + 1  # rows of a step: it, its history, and what it reached
    block = max(_usual_block(spec, capacity) if block is None else block, least)
    headroom = max(_usual_headroom(spec, capacity) if headroom is None else headroom, block + least)
    columns = BOOKS + (1 if isinstance(spec.action, Discrete) else math.prod(spec.action.shape))
    rows = (capacity + headroom + 1) * (spec.frame_bytes + 4)
    host = 4 * capacity + 2 * staged * block * spec.frame_bytes
    return Size(capacity, block, headroom, columns, rows + 4 * columns * capacity, host)


def _usual_block(spec: EnvSpec, capacity: int) -> int:
    return min(BLOCK, max(capacity // (1_000 if spec.frame_bytes >= LARGE else 50), LEAST_BLOCK))


def _usual_headroom(spec: EnvSpec, capacity: int) -> int:
    """With frames of Atari 2.2 ‰, so that a transition does not cost more than 7,100 bytes."""
    return capacity // 450 if spec.frame_bytes >= LARGE else capacity // 16 + LEAST_BLOCK


def room(device: torch.device) -> float:
    """Bytes that can be had there."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return available_memory() if device.type == "cpu" else math.inf


def pick_replay_device(name: str, spec: EnvSpec, capacity: int, model: torch.device) -> torch.device:
    """Where the memory is, by REPLAY_DEVICE; ``auto``: beside the model, or in the host's memory if it does not fit."""
    if name != "auto":
        return torch.device(name)
    size = size_of(spec, capacity, staged=model.type != "cpu")
    return model if size.bytes <= SHARE * room(model) else torch.device("cpu")


def check_room(size: Size, device: torch.device) -> None:
    """Refuse what does not fit, and say what would."""
    needed, left, host = size.bytes, SHARE * room(device), SHARE * available_memory()
    if device.type == "cpu":
        needed += size.host_bytes
    elif size.host_bytes > host:
        raise ConfigError(
            f"the books of a replay memory of {size.capacity:,} steps need {_gigabytes(size.host_bytes)} of the host, "
            f"and {_gigabytes(host)} can be had: use a smaller REPLAY_STEPS"
        )
    if needed <= left:
        return
    fits = _rounded_down(int(size.capacity * left / needed))
    remedy = f"REPLAY_STEPS={fits} would fit"
    if device.type != "cpu" and needed + size.host_bytes <= host:
        remedy += ", or REPLAY_DEVICE=cpu, which keeps it in the host's memory"
    raise ConfigError(
        f"a replay memory of {size.capacity:,} steps needs {_gigabytes(needed)} of {device}, and {_gigabytes(left)} "
        f"can be had: {remedy}"
    )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


def _rounded_down(count: int) -> int:
    """To two digits."""
    unit: int = 10 ** max(len(str(count)) - 2, 0)
    return count // unit * unit
