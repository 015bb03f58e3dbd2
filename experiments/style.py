"""What the pictures of all experiments look like; curves and verdicts have the colours and marks of the tuner's own."""

from __future__ import annotations

from typing import Any

from tuner.style import DPI, GRID, INK, MARKS, PALE, RUNS, SOFT, WARNING, WIDTH

__all__ = ["DPI", "GRID", "INK", "MARKS", "PALE", "SOFT", "WIDTH"]

# Our own, what it is compared with, what a paper says, and what is pointed at: apart in colour and in brightness.
OURS, OTHER, PAPER, MARKED = "#0072b2", "#e69f00", "#555555", WARNING
SHADES = (OURS, "#56b4e9", "#b5d7ee")  # of the first, the second and the third of a rank
BAND = "#bbbbbb"  # of a spread, in a legend
HEAD, TITLE, LABEL, NOTE, SMALL = 11.0, 10.0, 9.0, 8.5, 8.0  # points


def style_of(place: int) -> dict[str, Any]:
    """Colour, line and mark of the nth of several curves."""
    return RUNS[place % len(RUNS)]
