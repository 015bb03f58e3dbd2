"""The cells of an experiment's results.json, as its tables and pictures read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from experiments.statistics import spread
from ga3c.games.human_scores import human_normalized

CellRecord = dict[str, Any]
Results = dict[str, Any]

THREADS = ("agents", "predictors", "trainers")
PLAYERS = ("random", "human", "a3c", "ga3c")
TOP = 3  # configurations that the paper shows for each number of agents


def finished(results: Results) -> list[CellRecord]:
    return [cell for cell in results["cells"] if not cell.get("error")]


def failures(results: Results) -> list[str]:
    return [f"{cell['id']}: {cell['error']}" for cell in results["cells"] if cell.get("error")]


def groups(cells: Iterable[CellRecord], axes: Sequence[str]) -> dict[tuple[Any, ...], list[CellRecord]]:
    """The cells by their values on these axes, in the order in which they come; None where a cell has no such axis."""
    found: dict[tuple[Any, ...], list[CellRecord]] = {}
    for cell in cells:
        found.setdefault(tuple(cell["settings"].get(axis) for axis in axes), []).append(cell)
    return found


def finished_by(results: Results, axes: Sequence[str]) -> dict[tuple[Any, ...], list[CellRecord]]:
    """The finished cells by these axes, in the order of all cells: what failed must not change how others look."""
    found = groups(finished(results), axes)
    return {key: found[key] for key in groups(results["cells"], axes) if key in found}


def axes_besides(results: Results, *named: str) -> list[str]:
    """The other settings in which cells differ: what a picture has a panel, or a table a row, for each of."""
    cells = [cell["settings"] for cell in results["cells"]]
    axes = dict.fromkeys(axis for settings in cells for axis in settings if axis not in named)
    return [axis for axis in axes if len({settings.get(axis) for settings in cells}) > 1]


def figure_of(cell: CellRecord, name: str) -> float | None:
    value = cell["figures"].get(name)
    return float(value) if value is not None and math.isfinite(value) else None


def values(cells: Iterable[CellRecord], name: str) -> list[float]:
    return [value for cell in cells if (value := figure_of(cell, name)) is not None]


def is_tuned(cell: CellRecord) -> bool:
    return bool(cell["settings"].get("tuner", "off") != "off")


def measured(trial: dict[str, Any], name: str) -> float | None:
    """A figure of a tuner's window; none where the setting could not be measured, or this was not noted."""
    value = trial.get(name)
    if trial["decision"] == "failed" or value is None or not math.isfinite(value):
        return None
    return float(value)


def windows_at_end(cell: CellRecord) -> list[dict[str, Any]]:
    """The tuner's windows under the setting that it ended with; those that could not be measured are left out."""
    trials = [trial for trial in cell.get("trials") or [] if measured(trial, "tps") is not None]
    return [trial for trial in trials if triple(trial) == triple(cell["figures"])] or trials[-1:]


def of_choice(cell: CellRecord, name: str = "tps") -> float | None:
    """A figure of the tuner's choice: of the windows under it, since the others were spent on finding it."""
    known = [value for trial in windows_at_end(cell) if (value := measured(trial, name)) is not None]
    return fmean(known) if known else figure_of(cell, name)


def tuned_cells(cells: Iterable[CellRecord]) -> list[CellRecord]:
    return [cell for cell in cells if is_tuned(cell) and of_choice(cell) is not None]


def score_of(cell: CellRecord) -> float | None:
    """Of whole games after training where they were played, else of the last ones in training."""
    if cell.get("evaluation"):
        return float(cell["evaluation"]["mean"])
    return figure_of(cell, "score")


def scores(cells: Iterable[CellRecord]) -> list[float]:
    return [score for cell in cells if (score := score_of(cell)) is not None]


def normalised(game: str, runs: Iterable[float]) -> list[float]:
    """Scores with 0 for a random player and 1 for a human; empty for a game of which nobody knows these."""
    shares = [human_normalized(game, score) for score in runs]
    return [share for share in shares if share is not None]


def score_curve(cell: CellRecord, by: str = "seconds") -> list[tuple[float, float]]:
    """(seconds or steps, score) from the first finished game on."""
    rows = [row for row in cell.get("curve") or [] if row[2] is not None and math.isfinite(row[2])]
    return [(seconds if by == "seconds" else steps, score) for seconds, steps, score in rows]


def speed_ratios(ours: Iterable[CellRecord], theirs: Iterable[CellRecord]) -> list[float]:
    """PPS of ours over theirs, of the same seed: those ran in turn, so that drift is in both."""
    by_seed = {cell["seed"]: figure_of(cell, "pps") for cell in theirs}
    runs = [(figure_of(cell, "pps"), by_seed.get(cell["seed"])) for cell in ours]
    return [mine / other for mine, other in runs if mine is not None and other]


class Pair(NamedTuple):
    """GA3C and A3C with the same network; and GA3C with several games per agent, where that was run as well."""

    name: str
    network: str
    ours: list[CellRecord]
    theirs: list[CellRecord]
    batched: list[CellRecord]


def pairs(results: Results) -> list[Pair]:
    """One for each network, and for each combination of whatever else is varied within an algorithm.

    What only differs between the two belongs to them: each has as many agents as suit it.
    """
    known = ("network", "algo", "envs_per_agent")
    by_algorithm = groups(results["cells"], ["algo"]).values()
    inner = [axes_besides({"cells": cells}, *known) for cells in by_algorithm]
    others = [axis for axis in axes_besides(results, *known) if any(axis in axes for axes in inner)]
    found = []
    for key, cells in finished_by(results, ["network", *others]).items():
        algorithms = groups(cells, ["algo"])
        ga3c, a3c = (algorithms.get((name,), []) for name in ("ga3c", "a3c"))
        ours = [cell for cell in ga3c if not _is_batched(cell)]
        found.append(Pair(", ".join(map(str, key)), key[0], ours, a3c, [cell for cell in ga3c if _is_batched(cell)]))
    return found


def _is_batched(cell: CellRecord) -> bool:
    return bool((cell["settings"].get("envs_per_agent") or 1) > 1)


def published(results: Results, name: str) -> dict[str, dict[str, float]]:
    """A column of the paper's table 2 for each of its systems, by network."""
    return {
        system: dict(zip(known["networks"], known[name], strict=True))
        for system, known in results["paper"].get("systems", {}).items()
    }


def published_ratios(results: Results) -> dict[str, dict[str, float]]:
    """GA3C over A3C in the paper, by system and network."""
    ours, theirs = published(results, "ga3c_pps"), published(results, "a3c_pps")
    return {
        system: {network: pps / theirs[system][network] for network, pps in column.items()}
        for system, column in ours.items()
    }


def published_scores(results: Results, game: str) -> dict[str, float]:
    """What the paper's table 3 has for a game: random, human, a3c, ga3c; empty where it has nothing."""
    paper = results["paper"]
    if game not in paper.get("games", []) or not all(player in paper for player in PLAYERS):
        return {}
    row = paper["games"].index(game)
    return {player: paper[player][row] for player in PLAYERS}


def triple(values_of: dict[str, Any]) -> str:
    """NA/NP/NT of settings, of figures or of a trial."""
    return "/".join(f"{values_of[name]:.0f}" if values_of.get(name) is not None else "–" for name in THREADS)


def name_of(cell: CellRecord, axes: Sequence[str]) -> str:
    """What distinguishes a cell, in words that fit into a legend: the values on these axes, the game first.

    Of NA, NP and NT all are named where one is. Where nothing distinguishes the cells, all its settings are named.
    """
    settings = cell["settings"]
    axes = axes or list(settings)
    chosen = {axis: settings[axis] for axis in ("game", *axes) if axis in axes and settings.get(axis) is not None}
    parts = {axis: _in_words(axis, value) for axis, value in chosen.items()}
    if any(axis in chosen for axis in THREADS):
        tuned = "tuner from " if chosen.get("tuner", "off") != "off" else ""
        first = next(axis for axis in parts if axis in (*THREADS, "tuner"))
        parts[first] = tuned + triple({**cell["figures"], **settings})
        parts = {axis: words for axis, words in parts.items() if axis == first or axis not in (*THREADS, "tuner")}
    return ", ".join(parts.values()) or ("unchanged" if axes else "all")


def _in_words(axis: str, value: Any) -> str:
    if axis == "algo":
        return str(value).upper()
    if axis == "learning_rate":
        return f"learning rate {value:g}"
    if axis == "min_batch":
        return f"batch ≥ {value}"
    if axis == "envs_per_agent":
        return f"{value} game{'' if value == 1 else 's'} each"
    if axis == "tuner":
        return "no tuner" if value == "off" else f"tuner {value}"
    if axis == "correction":
        return {"vtrace": "V-trace", "none": "no correction"}.get(value, str(value))
    if axis in ("game", "network"):
        return str(value)
    return f"{axis.upper()} = {value:g}" if isinstance(value, float) else f"{axis.upper()} = {value}"


def fixed_settings(cells: Iterable[CellRecord]) -> dict[tuple[Any, ...], list[CellRecord]]:
    """The runs that no tuner changed, by NA, NP and NT; those without a TPS are left out."""
    fixed = [cell for cell in cells if not is_tuned(cell) and figure_of(cell, "tps") is not None]
    return groups(fixed, THREADS)


def top_settings(cells: Iterable[CellRecord]) -> dict[int, list[tuple[tuple[Any, ...], list[CellRecord]]]]:
    """For each NA the configurations with the highest median TPS, the best first."""
    ranked: dict[int, list[tuple[tuple[Any, ...], list[CellRecord]]]] = {}
    for setting, runs in fixed_settings(cells).items():
        ranked.setdefault(setting[0], []).append((setting, runs))
    return {
        agents: sorted(ranked[agents], key=lambda one: -spread(values(one[1], "tps"))["median"])[:TOP]
        for agents in sorted(ranked)
    }
