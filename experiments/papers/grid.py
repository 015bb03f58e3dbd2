"""A declared experiment: ``grids/<name>.toml`` says what is run, for how long and how often, and what that shows.

A cell is one training run. Cells come repeat by repeat (seed by seed), and within a repeat all settings in turn, so
that the drift of a shared machine hits all settings alike. ``axes`` are multiplied, the last one changing fastest;
``cases`` are settings that belong together and change fastest of all; ``also`` are single cells beside that product,
and ``changes`` single cells too, but each known only by what it names: to change one thing at a time.
``given`` has settings that go with a value of another one, and that cells are not told apart by.
A budget adds to the settings, and replaces what else it names. How long a cell runs is a setting as any other
(MAX_SECONDS, MAX_STEPS), and a number may be given by the cores of the machine ("8 per core").
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.options import BUDGETS
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, nearest
from ga3c.system.limits import available_cores

DIRECTORY = Path(__file__).parent / "grids"
ALL = "all"  # instead of a name
# What a cell has unless its grid says otherwise: little is lost where it is cut, and nobody looks at its events.
COMMON: dict[str, Any] = {"CHECKPOINT_SECONDS": 60, "TENSORBOARD": 0}
DURATIONS = ("MAX_SECONDS", "MAX_STEPS")  # a cell may run for longer than others, which makes it no other kind of cell
START_SECONDS = 5.0  # of a cell, before its own clock begins and after it has ended
PER_CORE = re.compile(r"(\d+) per core")

Settings = dict[str, Any]


@dataclass(frozen=True)
class GridCell:
    """One training run: its words, and what is made of it."""

    id: str
    settings: Settings  # what the experiment varies, by its name in lower case
    seed: int
    words: tuple[str, ...]  # all but where it runs
    learning: bool  # has a curve, and goes on from its checkpoint where it was cut
    warm_up: float  # seconds of the run that its figures leave out
    evaluate: int  # games that are played with what it learned
    expected: float  # seconds that it takes in all


@dataclass(frozen=True, kw_only=True)
class GridPlan:
    """What is run of an experiment: the part of a grid that a budget may replace."""

    settings: Settings = field(default_factory=dict)
    axes: dict[str, list[Any]] = field(default_factory=dict)
    cases: list[Settings] = field(default_factory=list)
    also: list[Settings] = field(default_factory=list)
    changes: list[Settings] = field(default_factory=list)
    given: dict[str, dict[str, Settings]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0])
    warm_up: float = 0.0  # seconds from the start of each run that its figures leave out
    evaluate: int = 0  # whole games that are played with each trained cell
    expected: float = 0.0  # seconds of a cell, where its MAX_SECONDS and its start do not tell

    def combinations(self) -> Iterator[tuple[Settings, list[str]]]:
        """The settings of one repeat, in turn, each with the names of those that it is known by."""
        varied = [*self.axes, *itertools.chain(*self.cases), *itertools.chain(*self.also)]
        if self.axes or self.cases or not self.also:
            for values in itertools.product(*self.axes.values()):
                for case in self.cases or [{}]:
                    yield self._completed({**dict(zip(self.axes, values, strict=True)), **case}), varied
        for single in self.also:
            yield self._completed(single), varied
        for change in self.changes:
            yield self._completed(change), list(change)

    def _completed(self, varied: Settings) -> Settings:
        """With the settings that all cells have, and those that go with what is varied here."""
        whole = {**self.settings, **varied}
        for key, by_value in self.given.items():
            whole = {**whole, **by_value.get(str(whole.get(key)), {}), **varied}
        return whole

    def cell_seconds(self, settings: Settings) -> float:
        """How long such a cell takes, as far as that is known before."""
        return self.expected or float(settings.get("MAX_SECONDS", 0)) + START_SECONDS


@dataclass(frozen=True, kw_only=True)
class Grid:
    """One experiment. The keys of its file are these fields, but for the name, and those of the plan instead of it."""

    name: str
    title: str
    shows: str
    does_not_show: str
    paper: dict[str, Any] = field(default_factory=dict)  # what the text of the paper says of it
    cells_of: str = ""  # the experiment whose cells it shows; it has none of its own then
    learning: bool = False
    plan: GridPlan = field(default_factory=GridPlan)
    budgets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def planned(self, budget: str) -> GridPlan:
        changes = self.budgets[budget]
        settings = {**COMMON, **self.plan.settings, **changes.get("settings", {})}
        return dataclasses.replace(self.plan, **{**changes, "settings": settings})

    def cells(self, budget: str, seeds: list[int] | None = None) -> list[GridCell]:
        """All cells in the order in which they run. Settings that no run would take are refused here."""
        plan = self.planned(budget)
        return [self._cell(plan, *each, seed) for seed in seeds or plan.seeds for each in plan.combinations()]

    def seconds(self, budget: str) -> float:
        """How long it takes on a machine with nothing else to do."""
        plan = self.planned(budget)
        return len(plan.seeds) * sum(plan.cell_seconds(settings) for settings, _ in plan.combinations())

    def _cell(self, plan: GridPlan, settings: Settings, names: list[str], seed: int) -> GridCell:
        words = [f"{key}={_text(value)}" for key, value in {**settings, "SEED": seed}.items()]
        try:
            config = Config.from_words(words)
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from None
        if not (config.max_seconds or config.max_steps):
            raise ConfigError(f"{self.name}: a cell without an end: its settings need MAX_SECONDS or MAX_STEPS")
        varied = {name.lower(): getattr(config, name.lower()) for name in names if name not in DURATIONS}
        return GridCell(
            id=_identity(varied, seed, {**config.to_dict(), "warm up": plan.warm_up, "evaluate": plan.evaluate}),
            settings=varied,
            seed=seed,
            words=tuple(words),
            learning=self.learning,
            warm_up=plan.warm_up,
            evaluate=plan.evaluate,
            expected=plan.cell_seconds(settings),
        )


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def load(name: str) -> Grid:
    known = names()
    if name not in known:
        hint = nearest(name, [*known, ALL])
        raise ConfigError(f"'{name}' is not an experiment.{hint} './run.sh experiment' lists them")
    return read_grid(DIRECTORY / f"{name}.toml")


def read_grid(path: Path) -> Grid:
    """The grid of a file; what is wrong with it is told with its name."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from None
    try:
        return _grid(path.stem, table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _grid(name: str, table: dict[str, Any]) -> Grid:
    planned = [entry.name for entry in dataclasses.fields(GridPlan)]
    own = [entry.name for entry in dataclasses.fields(Grid) if entry.name not in ("name", "plan")]
    _refuse_unknown(table, [*own, *planned])
    for key in ("title", "shows", "does_not_show"):
        if not table.get(key):
            raise ConfigError(f"'{key}' is missing: it says what the experiment is good for")
    budgets = table.get("budgets", {})
    _refuse_unknown(budgets, BUDGETS)
    for budget in BUDGETS:
        if budget not in budgets and not table.get("cells_of"):
            raise ConfigError(f"[budgets.{budget}] is missing")
        _refuse_unknown(budgets.get(budget, {}), planned)
        _check_lists(budgets.get(budget, {}))
    _check_lists(table)
    return Grid(
        name=name,
        plan=GridPlan(**{key: table[key] for key in planned if key in table}),
        **{key: table[key] for key in own if key in table},
    )


def _refuse_unknown(table: Iterable[str], known: Collection[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"'{key}' is not known here.{nearest(key, known)} It is one of: {', '.join(known)}")


def _check_lists(table: dict[str, Any]) -> None:
    """An empty axis would multiply everything to nothing, and the letters of a word are no values."""
    for axis, values in table.get("axes", {}).items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"the axis {axis} is not a list of values")
    seeds = table.get("seeds", [0])
    if not isinstance(seeds, list) or not seeds:
        raise ConfigError("seeds is not a list of numbers")


def _text(value: Any) -> str:
    """The value as it stands in a word."""
    if isinstance(value, bool):
        return str(int(value))
    per_core = PER_CORE.fullmatch(value) if isinstance(value, str) else None
    return str(int(per_core[1]) * available_cores()) if per_core else str(value)


def _identity(varied: Settings, seed: int, depends: Settings) -> str:
    """What it is, to be read, and a few digits that change with everything that it depends on, defaults too."""
    readable = "-".join(f"{name}-{value}" for name, value in varied.items()) or "run"
    digits = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9.]+', '-', readable.lower())}-seed-{seed}-{digits}"
