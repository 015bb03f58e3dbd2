"""What is known of the landscape as a grid: agents to the right, each pair of predictors and trainers a row.

No axis is left out, so no cell hides another setting; only neighbouring numbers of agents share a column where there
would be too many to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from tuner.retrace import Landscape
from tuner.space import Setting

COLUMNS_MOST = 16
ROWS_MOST = 36  # pairs of predictors and trainers


@dataclass(frozen=True)
class Cell:
    column: int
    row: int
    tps: float
    windows: int  # that were measured; 0: the simulator's value
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Heat:
    columns: tuple[tuple[int, int], ...]  # least and most agents
    rows: tuple[tuple[int, int], ...]  # predictors and trainers
    cells: tuple[Cell, ...]

    def place(self, setting: Setting) -> tuple[int, int] | None:
        """Column and row of a setting."""
        for column, (least, most) in enumerate(self.columns):
            if least <= setting.agents <= most and setting[1:] in self.rows:
                return column, self.rows.index((setting.predictors, setting.trainers))
        return None


def heat_of(landscape: Landscape) -> Heat:
    settings = {*landscape.settings, *landscape.measured}
    columns = _columns(
        sorted({setting.agents for setting in settings}), {setting.agents for setting in landscape.measured}
    )
    pairs = sorted({(setting.predictors, setting.trainers) for setting in settings})
    rows = _rows(pairs, {(setting.predictors, setting.trainers) for setting in landscape.measured})
    heat = Heat(columns, rows, ())
    placed = [(place, setting) for setting in settings if (place := heat.place(setting)) is not None]
    placed.sort()
    cells = [
        _cell(place, [setting for _, setting in group], landscape)
        for place, group in groupby(placed, key=lambda each: each[0])
    ]
    return Heat(columns, rows, tuple(cells))


def _columns(agents: Sequence[int], measured: set[int]) -> tuple[tuple[int, int], ...]:
    """Columns of one number each; of too many, neighbours share one, those first that were never measured."""
    columns = [(number, number) for number in agents]

    def cost(index: int) -> tuple[int, float]:
        """Of joining a column with the next: how many measured numbers it would blur, and how wide it would be."""
        least, most = columns[index][0], columns[index + 1][1]
        return sum(least <= number <= most for number in measured), most / least

    while len(columns) > COLUMNS_MOST:
        index = min(range(len(columns) - 1), key=cost)
        columns[index : index + 2] = [(columns[index][0], columns[index + 1][1])]
    return tuple(columns)


def _rows(pairs: list[tuple[int, int]], measured: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """All pairs if they can be read, else the measured ones first."""
    if len(pairs) <= ROWS_MOST:
        return tuple(pairs)
    return tuple(sorted(sorted(pairs, key=lambda pair: pair not in measured)[:ROWS_MOST]))


def _cell(place: tuple[int, int], settings: list[Setting], landscape: Landscape) -> Cell:
    """Measured windows if there are any; else one simulated setting stands for its neighbours in the column."""
    windows = [tps for setting in settings for tps in landscape.measured.get(setting, [])]
    if windows:
        seen = tuple(setting for setting in settings if setting in landscape.measured)
        return Cell(*place, fmean(windows), len(windows), seen)
    middle = settings[len(settings) // 2]
    return Cell(*place, landscape.tps(middle), 0, (middle,))
