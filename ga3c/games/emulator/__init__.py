"""An Atari 2600 for many games at once, exact against ALE: see docs/emulator.md."""

from ga3c.games.emulator.batched import BatchedAtari

__all__ = ["BatchedAtari"]
