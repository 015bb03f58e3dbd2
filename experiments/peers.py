"""Other systems that the bench can measure beside ours, each in an environment of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class PeerError(RuntimeError):
    """A peer that cannot be installed or measured; the message is one line with the reason."""


@dataclass(frozen=True)
class Peer:
    """One other system."""

    name: str


PEERS: dict[str, Peer] = {}


def install(name: str, root: Path, say: Callable[[str], None]) -> Path:
    """The Python of the peer's environment under ``root``, made where it is not there yet."""
    raise PeerError(f"{name} is not known")


def measure(name: str, python: Path, *, game: str, cores: int, seconds: float) -> float:
    """Steps per second in steady state."""
    raise PeerError(f"{name} is not known")
