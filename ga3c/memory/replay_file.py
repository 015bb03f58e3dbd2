"""A replay memory in a file: arrays as they are, compressed piece by piece, and no pickle.

A piece is its length and a frame of Zstandard with a checksum. The first one is JSON: what the memory is, and which
arrays follow. The frames of the rows come last, in their order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import zstandard

from ga3c.memory.ring import Replay, Snapshot
from ga3c.settings.declare import ConfigError
from ga3c.system.files import open_atomically

MAGIC = b"ga3c replay memory 1\n"
LEVEL = 1  # of Zstandard: 2 µs and 44 to 122 bytes for a frame of Atari; zlib takes 9 to 17 µs and 111 to 524 bytes
PIECE = 256  # rows that are compressed together
MOST = 2**31  # bytes of a piece: more is no piece


class ReplayFileError(ConfigError):
    """A file that the memory cannot go on from, and why."""


def save_replay(replay: Replay, path: Path) -> None:
    """Write all that can be drawn, and what lanes have under way. What waits is flushed first.

    The memory can be drawn from and added to meanwhile; ``add`` only waits where it would overwrite what is not
    written yet. Lanes have to be named by numbers, words, or tuples of them.
    """
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with open_atomically(path) as file, replay.saving() as snapshot:
        file.write(MAGIC)

        def put(content: Any) -> None:
            piece = compressor.compress(content)
            file.write(len(piece).to_bytes(8, "little"))
            file.write(piece)

        shapes = {name: (array.dtype.str, array.shape) for name, array in snapshot.arrays.items()}
        put(json.dumps({"memory": replay.kind, "state": snapshot.state, "arrays": shapes}).encode())
        for array in snapshot.arrays.values():
            put(np.ascontiguousarray(array).tobytes())
        for first in range(snapshot.first_row, snapshot.last_row + 1, PIECE):
            put(replay.take_rows(first, min(PIECE, snapshot.last_row + 1 - first)).tobytes())


def load_replay(replay: Replay, path: Path) -> None:
    """Fill a new memory of the same kind from the file: it draws what the one that was saved would have drawn."""
    try:
        with path.open("rb") as file:
            _load(replay, path, _pieces(path, file))
    except OSError as error:
        raise ReplayFileError(f"{path} cannot be read: {error}") from None


def _load(replay: Replay, path: Path, pieces: Iterator[bytes]) -> None:
    head = json.loads(next(pieces))
    for name, value in replay.kind.items():
        if head["memory"].get(name) != value:
            raise ReplayFileError(f"{path} has a memory with {name} {head['memory'].get(name)}, and here it is {value}")
    arrays = {}
    for name, (dtype, shape) in head["arrays"].items():
        arrays[name] = _array(path, name, next(pieces), dtype, tuple(shape))
    snapshot = Snapshot(head["state"], arrays)
    frame, count = replay.spec.frame, snapshot.last_row + 1 - snapshot.first_row
    if not 0 <= count <= replay.rows_kept:
        raise ReplayFileError(f"{path} is damaged: it has {count} rows")
    sizes = [min(PIECE, count - start) for start in range(0, count, PIECE)]
    replay.restore(
        snapshot, (_array(path, "frames", next(pieces), replay.spec.dtype, (size, *frame)) for size in sizes)
    )


def _array(path: Path, name: str, content: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.hasobject or len(content) != math.prod(shape) * kind.itemsize:
        raise ReplayFileError(f"{path} is damaged: its {name} have {len(content)} bytes")
    return np.frombuffer(bytearray(content), dtype=kind).reshape(shape)


def _pieces(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    if file.read(len(MAGIC)) != MAGIC:
        raise ReplayFileError(f"{path} is no replay memory of this version")
    decompressor = zstandard.ZstdDecompressor()
    while True:
        length = int.from_bytes(file.read(8), "little")
        piece = file.read(min(length, MOST))
        if not length or len(piece) != length:
            raise ReplayFileError(f"{path} is damaged: it ends early")
        try:
            yield decompressor.decompress(piece, max_output_size=MOST)
        except zstandard.ZstdError as error:
            raise ReplayFileError(f"{path} is damaged: {error}") from None
