"""Figures of the log as TensorBoard events."""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from ga3c.memory.figures import FIGURES, Figure


def file_name() -> str:
    """As TensorBoard looks for it, and unlike that of any other session of the run."""
    return f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"


def first_record() -> bytes:
    """What a file of events begins with."""
    return _record(Event(wall_time=time.time(), file_version="brain.Event:2"))


def record(row: dict[str, Any], figures: Sequence[Figure] = FIGURES) -> bytes:
    values = [
        Summary.Value(tag=f"{figure.board}/{figure.name}", simple_value=row[figure.name])
        for figure in figures
        if figure.board and row[figure.name] is not None
    ]
    return _record(Event(wall_time=time.time(), step=int(row["steps"]), summary=Summary(value=values)))


def _record(event: Event) -> bytes:
    # Not TensorBoard's own writer of files: its thread does not come back after a disk was full.
    content = io.BytesIO()
    RecordWriter(content).write(event.SerializeToString())
    return content.getvalue()
