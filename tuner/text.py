"""Numbers as a reader of results gets to see them."""

from __future__ import annotations

import math


def number(value: float | None) -> str:
    """Three digits, which is what windows can tell apart; whole numbers in full."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def gain_in_words(gain: float | None) -> str:
    if gain is None:
        return "no gain can be told"
    return f"{gain - 1:+.0%}".replace("-", "−").replace("%", " %")


def unit_of(longest: float) -> tuple[float, str]:
    """Seconds of the unit in which a time axis is best read that ends after so many seconds, and its name."""
    if longest < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if longest < 36_000 else (3600.0, "hours")
