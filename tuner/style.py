"""What pictures look like: sizes, colours, lines and marks. Who cannot tell the colours apart can tell the rest."""

from __future__ import annotations

from typing import Any

WIDTH, DPI = 12.0, 100  # inches, dots per inch
GRID, INK, PALE, SOFT = "#e4e4e4", "#222222", "#9dc3dd", "#777777"
WARNING = "#d55e00"

# Colour and shape of each verdict, the topmost last.
MARKS: dict[str, dict[str, Any]] = {
    "kept": {"marker": ".", "color": "#888888", "markersize": 4},
    "refused": {"marker": "o", "color": WARNING, "markersize": 5, "markerfacecolor": "none"},
    "start": {"marker": "s", "color": "#555555", "markersize": 6},
    "accepted": {"marker": "o", "color": "#0072b2", "markersize": 6},
    "returned": {"marker": "v", "color": "#2a8f5b", "markersize": 6},
    "reopened": {"marker": "D", "color": "#a0449a", "markersize": 6.5},
    "failed": {"marker": "x", "color": "#111111", "markersize": 6, "markeredgewidth": 1.6},
}
QUIET = ("kept", "refused")  # changed nothing
# Colour, line and shape of each curve, where there are several.
RUNS: list[dict[str, Any]] = [
    {"color": color, "linestyle": line, "marker": marker}
    for color, line, marker in (
        ("#0072b2", "-", "o"),
        ("#d55e00", "--", "s"),
        ("#009e73", "-.", "^"),
        ("#a0449a", ":", "D"),
        ("#8a6d00", (0, (6, 1, 1, 1, 1, 1)), "v"),
        ("#444444", (0, (1, 2)), "P"),
    )
]
