"""Checkpoints: one safetensors file each, with everything else as JSON in its metadata.

Arrays may also stand anywhere within that state: they are stored beside the others, and JSON has their names.

Written whole or not at all; a disk may still damage one later, so each has a checksum, and the one before stands in.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from ga3c.settings.declare import ConfigError
from ga3c.system.files import write_atomically

log = logging.getLogger(__name__)

# 2 had no play of a serial run, and is read as one without; 2 and 3 had no mean of the weights; 4 had the fields of an
# experience beside each other.
FORMAT = 5
READABLE = (2, 3, 4, 5)
ARRAY = "@array"  # the one key of what stands for an array in JSON


class CheckpointError(ConfigError):
    """A checkpoint that is missing, broken, or of something else."""


def save_checkpoint(directory: Path, arrays: dict[str, np.ndarray], state: dict[str, Any], keep: int) -> Path:
    """Write the checkpoint of this update, then forget all but the newest ``keep``.

    One with more updates is damaged: the run went on from the one before it, and must not lose to it again.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{state['updates']:012d}.safetensors"
    arrays = dict(arrays)
    text = json.dumps({"format": FORMAT, **_take_apart(state, "state", arrays)})
    write_atomically(path, to_bytes(arrays, {"state": text, "sha256": _checksum(arrays, text)}))
    paths = sorted(directory.glob("*.safetensors"))
    here = paths.index(path) + 1
    unfinished = list(directory.glob(".*.safetensors.*"))  # by a process that was killed
    for other in paths[: max(here - keep, 0)] + paths[here:] + unfinished:
        other.unlink(missing_ok=True)
    return path


def load_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the state of one checkpoint file."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
            state = json.loads(metadata["state"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from None
    if state.get("format") not in READABLE:
        raise CheckpointError(f"{path} has the checkpoint format {state.get('format')}, not {FORMAT}")
    if metadata.get("sha256") != _checksum(arrays, metadata["state"]):
        raise CheckpointError(f"{path} is damaged: its content does not have its checksum")
    if state["format"] < 4:
        arrays["mean_weights"] = arrays["weights"]
    return arrays, _put_together(state, arrays)


def _take_apart(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The value with its arrays moved to ``arrays``, and their names in their places."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {ARRAY: name}
    if isinstance(value, dict):
        return {key: _take_apart(item, f"{name}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_take_apart(item, f"{name}/{place}", arrays) for place, item in enumerate(value)]
    return value


def _put_together(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """What ``_take_apart`` was given; its arrays are taken from ``arrays``."""
    if isinstance(value, dict):
        if value.keys() == {ARRAY}:
            return arrays.pop(value[ARRAY])
        return {key: _put_together(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_put_together(item, arrays) for item in value]
    return value


def _checksum(arrays: dict[str, np.ndarray], state: str) -> str:
    checksum = hashlib.sha256(state.encode())
    for name in sorted(arrays):
        checksum.update(name.encode())
        checksum.update(np.ascontiguousarray(arrays[name]).data)
    return checksum.hexdigest()


def checkpoints_of(run: Path) -> list[Path]:
    """All checkpoints of a run directory, the newest first."""
    if not run.is_dir():
        raise CheckpointError(f"{run} is not a run directory")
    paths = sorted((run / "checkpoints").glob("*.safetensors"), reverse=True)
    if not paths:
        raise CheckpointError(f"{run} has no checkpoint")
    return paths


def load_newest(run: Path) -> tuple[Path, dict[str, np.ndarray], dict[str, Any]]:
    """The newest checkpoint of a run directory that can be read; those that cannot are told."""
    *newer, oldest = checkpoints_of(run)
    for path in newer:
        try:
            return path, *load_checkpoint(path)
        except CheckpointError as error:
            log.warning("%s; the one before it is taken", error)
    return oldest, *load_checkpoint(oldest)
