"""Checkpoints: one safetensors file each, with everything else as JSON in its metadata. Written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from ga3c.files import write_atomically
from ga3c.settings import ConfigError

FORMAT = 1


class CheckpointError(ConfigError):
    """A checkpoint that is missing, broken, or of something else."""


def save_checkpoint(directory: Path, arrays: dict[str, np.ndarray], state: dict[str, Any], keep: int) -> Path:
    """Write the checkpoint of this update, then forget all but the newest ``keep``."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{state['updates']:012d}.safetensors"
    metadata = {"state": json.dumps({"format": FORMAT, **state})}
    write_atomically(path, to_bytes(arrays, metadata))
    for old in sorted(directory.glob("*.safetensors"))[:-keep]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the state of one checkpoint file."""
    try:
        with safe_open(path, framework="numpy") as file:
            state = json.loads(file.metadata()["state"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from None
    if state.get("format") != FORMAT:
        raise CheckpointError(f"{path} has the checkpoint format {state.get('format')}, not {FORMAT}")
    return arrays, state


def newest_checkpoint(run: Path) -> Path:
    """The newest checkpoint of a run directory."""
    if not run.is_dir():
        raise CheckpointError(f"{run} is not a run directory")
    paths = sorted((run / "checkpoints").glob("*.safetensors"))
    if not paths:
        raise CheckpointError(f"{run} has no checkpoint")
    return paths[-1]
