"""Figures of the log as TensorBoard events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

GROUPS = {
    "score": ("score", "score_last", "episodes"),
    "speed": ("pps", "tps", "trained_per_second"),
    "system": (
        "agents",
        "remote_agents",
        "predictors",
        "trainers",
        "prediction_queue",
        "training_queue",
        "prediction_batch",
        "training_batch",
    ),
    "learning": ("lag_mean", "lag_max", "policy_loss", "value_loss", "entropy", "gradient_norm"),
}


class EventWriter:
    def __init__(self, directory: Path) -> None:
        self._writer = EventFileWriter(str(directory))

    def add(self, row: dict[str, Any]) -> None:
        values = [
            Summary.Value(tag=f"{group}/{name}", simple_value=row[name])
            for group, names in GROUPS.items()
            for name in names
            if row[name] is not None
        ]
        self._writer.add_event(Event(step=int(row["steps"]), summary=Summary(value=values)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
