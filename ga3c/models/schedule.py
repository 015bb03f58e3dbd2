"""Numbers that change while a run goes on."""

from __future__ import annotations


def linear(start: float, end: float | None, steps: int, max_steps: int) -> float:
    """The value on the line from ``start`` at step 0 to ``end`` at ``max_steps``; constant where there is no end."""
    if end is None or not max_steps:
        return start
    return start + (end - start) * min(steps / max_steps, 1.0)
