"""What experiments print: numbers in few digits, times, and tables on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from tuner.text import gain_in_words, number, unit_of

__all__ = ["gain_in_words", "number", "unit_of"]

NONE = "–"  # where there is no number
FILE_WIDTH = 110  # columns where there is no terminal


def in_short(count: float | None) -> str:
    """Steps by thousands or millions."""
    if count is None or count < 10_000:
        return number(count)
    return f"{number(count / 1e6)} M" if count >= 1e6 else f"{number(count / 1e3)} k"


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}".replace("%", " %")


def ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def whole(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def clock(seconds: float) -> str:
    """Minutes and seconds, of what is still to come."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def wide_console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=FILE_WIDTH)


def empty_table(title: str, first: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE, pad_edge=False, caption_justify="left"
    )
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right")
    return table
