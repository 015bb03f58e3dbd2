"""The numbers of an experiment as tables: for the terminal at its end, and for the results page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean, median, median_low

from experiments.papers.cell_records import (
    PLAYERS,
    THREADS,
    TOP,
    CellRecord,
    Pair,
    Results,
    axes_besides,
    failures,
    finished,
    finished_by,
    fixed_settings,
    groups,
    measured,
    name_of,
    normalised,
    of_choice,
    pairs,
    published_ratios,
    published_scores,
    score_curve,
    scores,
    speed_ratios,
    top_settings,
    triple,
    tuned_cells,
    values,
    windows_at_end,
)
from experiments.statistics import Estimate, estimate, spread
from experiments.text import NONE, empty_table, gain_in_words, in_short, number, ratio, share, whole, wide_console

PARTS = 4  # of the way of a run, at whose ends its score is told
REPEATS = "Medians of the repeats, in brackets the lowest to the highest."
TUNER = "Tuner: its windows at its choice."


@dataclass(frozen=True)
class Table:
    """Texts in rows; the first column says what a row is about."""

    title: str
    headers: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""


def tables(results: Results) -> list[Table]:
    """Those of this experiment; of one that is not the paper's, what each setting had learned and how fast it was."""
    return _KINDS.get(results["name"], _setting_table)(results)


def show(results: Results) -> None:
    """On the terminal."""
    console = wide_console()
    for table in tables(results):
        shown = empty_table(table.title, *table.headers)
        for row in table.rows:
            shown.add_row(*row)
        shown.caption = table.note or None
        console.print(shown)
    for failure in failures(results):
        console.print(f"failed: {failure}", markup=False)


def spread_text(repeats: Iterable[float], form: Callable[[float | None], str] = number) -> str:
    """The median, and the least and the most where there are several."""
    known = list(repeats)
    if not known:
        return NONE
    figure = spread(known)
    ends = f" ({_between(figure['low'], figure['high'], form)})" if len(known) > 1 else ""
    return form(figure["median"]) + ends


def median_text(repeats: Iterable[float], form: Callable[[float | None], str] = number) -> str:
    known = list(repeats)
    return form(median(known)) if known else NONE


def _between(low: float, high: float, form: Callable[[float | None], str] = number) -> str:
    return f"{form(low)}–{form(high)}" if low >= 0 else f"{form(low)} to {form(high)}"


def estimate_text(one: Estimate) -> str:
    """An interval has square brackets, lowest and highest run round ones."""
    if one.low is None or one.high is None:
        return number(one.value)
    ends = _between(one.low, one.high)
    return f"{number(one.value)} [{ends}]" if one.is_interval else f"{number(one.value)} ({ends})"


def estimate_note(estimates: Iterable[Estimate]) -> str:
    """What brackets mean, as far as there are any."""
    found = list(estimates)
    sentences = ["Interquartile means over the runs."]
    if any(one.is_interval for one in found):
        sentences.append("[ ]: 95 % bootstrap interval.")
    if any(not one.is_interval and one.low is not None for one in found):
        sentences.append("( ): lowest to highest run; too few for an interval.")
    if any(one.low is None for one in found):
        sentences.append("Without brackets: one run, so nothing is known of the spread.")
    return " ".join(sentences)


def _scored(runs: list[float], found: list[Estimate]) -> str:
    """The estimate as text; it is noted among those found."""
    if not runs:
        return NONE
    found.append(estimate([runs]))
    return estimate_text(found[-1])


def _figure2(results: Results) -> list[Table]:
    """Where the tuner began, where it ended, and what that gained."""
    axes = axes_besides(results)
    headers = ["run", "windows", "start", "end", "TPS at the start", "TPS at the end", "gain", "PPS at the end"]
    rows = []
    for cell in finished(results):
        there = windows_at_end(cell)
        if not there:
            continue
        start, last = cell["trials"][0], fmean(trial["tps"] for trial in there)
        rows.append(
            [
                f"{name_of(cell, axes)}, seed {cell['seed']}",
                str(len(cell["trials"])),
                triple(start),
                triple(cell["figures"]),
                number(measured(start, "tps")),
                number(last),
                gain_in_words(last / first if (first := measured(start, "tps")) else None),
                number(fmean(trial["pps"] for trial in there)),
            ]
        )
    return [Table("The tuner: NA/NP/NT", headers, rows, "TPS at the end: the mean of all windows at that setting.")]


def _by_setting(results: Results) -> Iterable[tuple[str, list[CellRecord]]]:
    """The cells of each combination of what is not NA, NP or NT, with its name as a title."""
    axes = axes_besides(results, *THREADS, "tuner")
    for cells in finished_by(results, axes).values():
        yield ("" if not axes else f": {name_of(cells[0], axes)}"), cells


def _figure3(results: Results) -> list[Table]:
    made = []
    for name, cells in _by_setting(results):
        all_fixed = fixed_settings(cells)
        best = max((spread(values(runs, "tps"))["median"] for runs in all_fixed.values()), default=None)
        rows = [
            [f"{setting[0]}/{setting[1]}/{setting[2]}", *_speed_columns(runs, best)]
            for top in top_settings(cells).values()
            for setting, runs in top
        ]
        rows += [_tuner_row(cell, best) for cell in tuned_cells(cells)]
        title = f"TPS of the top {TOP} NP/NT for each NA, of {len(all_fixed)} settings that were measured{name}"
        headers = ["NA/NP/NT", "TPS", "of the best", "PPS", "trained/s"]
        made.append(Table(title, headers, rows, f"{REPEATS} {TUNER}"))
    return made


def _tuner_row(cell: CellRecord, best: float | None) -> list[str]:
    tps = of_choice(cell)
    return [f"tuner: {triple(cell['figures'])}", number(tps), share(tps / best if best and tps else None), NONE, NONE]


def _speed_columns(runs: list[CellRecord], best: float | None) -> list[str]:
    tps = values(runs, "tps")
    return [
        spread_text(tps),
        share(spread(tps)["median"] / best if best else None),
        *(median_text(values(runs, name)) for name in ("pps", "trained_per_second")),
    ]


def _figure4(results: Results) -> list[Table]:
    made = []
    for name, cells in _by_setting(results):
        rows = [
            [
                f"{setting[0]}/{setting[1]}/{setting[2]}",
                spread_text(values(runs, "tps")),
                *(spread_text(values(runs, column)) for column in ("training_queue", "prediction_batch")),
                median_text(values(runs, "lag_mean")),
            ]
            for top in top_settings(cells).values()
            for setting, runs in top
        ]
        rows += [
            [
                f"tuner: {triple(cell['figures'])}",
                *(number(of_choice(cell, column)) for column in ("tps", "training_queue", "prediction_batch")),
                NONE,
            ]
            for cell in tuned_cells(cells)
        ]
        title = f"Queue and batch of the top {TOP} NP/NT for each NA{name}"
        headers = ["NA/NP/NT", "TPS", "training queue", "prediction batch", "policy lag"]
        made.append(Table(title, headers, rows, f"{REPEATS} {TUNER}"))
    return made


def _table2(results: Results) -> list[Table]:
    """PPS, their ratio run by run, and how busy the machine was."""
    paper, found = published_ratios(results), pairs(results)
    headers = ["network", "GA3C, PPS", "A3C, PPS", "GA3C / A3C", "in the paper", "CPU", "device"]
    rows = []
    for pair in found:
        both = (pair.ours, pair.theirs)
        rows.append(
            [
                pair.name,
                *(spread_text(values(cells, "pps")) for cells in both),
                spread_text(speed_ratios(*both), ratio),
                ", ".join(f"{column[pair.network]:.1f}" for column in paper.values() if pair.network in column) or NONE,
                *(", ".join(median_text(values(cells, name), share) for cells in both) for name in ("cpu", "device")),
            ]
        )
    note = (
        "Medians, in brackets lowest to highest; ratios are of runs with the same seed, which ran in turn. "
        "CPU (of all cores) and device: how busy they were with GA3C, with A3C."
    )
    if paper:
        note += f" The paper's ratios: {', '.join(paper)}."
    made = [Table("Steps per second", headers, rows, note)]
    if any(pair.batched for pair in found):
        made.append(_batched_table(found))
    return made


def _batched_table(found: list[Pair]) -> Table:
    headers = ["network", "GA3C, PPS", "A3C, PPS", "GA3C / A3C", "CPU", "device", "samples of a batch"]
    rows = [
        [
            pair.name,
            *(spread_text(values(cells, "pps")) for cells in (pair.batched, pair.theirs)),
            spread_text(speed_ratios(pair.batched, pair.theirs), ratio),
            *(median_text(values(pair.batched, name), share) for name in ("cpu", "device")),
            median_text(values(pair.batched, "training_batch")),
        ]
        for pair in found
    ]
    return Table(
        "Steps per second of GA3C with many games per agent and large batches, beside the same A3C",
        headers,
        rows,
        "Not the same work: an update of GA3C has many experiences here, one of A3C has one.",
    )


def _setting_table(results: Results) -> list[Table]:
    """What each setting had learned at its end, and how fast it was."""
    axes = axes_besides(results)
    found: list[Estimate] = []
    rows = []
    for cells in finished_by(results, axes).values():
        rows.append(
            [
                name_of(cells[0], axes),
                str(len(cells)),
                _scored(scores(cells), found),
                median_text(values(cells, "steps"), in_short),
                *(median_text(values(cells, name)) for name in ("seconds", "pps", "tps")),
            ]
        )
    headers = ["setting", "runs", "score at the end", "steps", "seconds", "PPS", "TPS"]
    note = f"{estimate_note(found)} Steps, seconds, PPS and TPS: medians."
    return [Table("Scores by setting", headers, rows, note), *_way_table(results)]


def _way_table(results: Results) -> list[Table]:
    """The score of each setting along the way, by minutes and by steps, as far as half of the settings came."""
    cells, axes = [cell for cell in finished(results) if cell.get("curve")], axes_besides(results)
    if not cells:
        return []
    settings = groups(cells, axes).values()
    ends = {by: median_low(min(values(runs, by)) for runs in settings) for by in ("seconds", "steps")}
    places = {by: [part / PARTS * end for part in range(1, PARTS + 1)] for by, end in ends.items()}
    headers = ["setting", *(f"{number(at / 60)} min" for at in places["seconds"]), *map(in_short, places["steps"])]
    rows = [
        [name_of(runs[0], axes), *(number(_score_at(runs, by, at)) for by, points in places.items() for at in points)]
        for runs in settings
    ]
    note = (
        "Of the games that ended within the last tenth of the way to there; of several runs, the interquartile mean. "
        f"{NONE}: no game had ended, or not all runs came so far."
    )
    return [Table("Scores along the way, by minutes and by steps", headers, rows, note)]


def _score_at(runs: list[CellRecord], by: str, at: float) -> float | None:
    """Of the games that ended shortly before this time, or number of steps; None where none had, or a run had ended."""
    if min(values(runs, by)) < 0.99 * at:
        return None
    near = [[score for point, score in score_curve(cell, by) if 0.9 * at <= point <= 1.01 * at] for cell in runs]
    means = [fmean(ended) for ended in near if ended]
    return estimate([means]).value if means else None


def _table3(results: Results) -> list[Table]:
    """Scores, and all of them on one scale: our own table of random and human players, also for the paper's scores."""
    found: list[Estimate] = []
    strata: list[list[float]] = []
    raw, scaled = [], []
    others = axes_besides(results, "game")
    for (game, *rest), cells in finished_by(results, ["game", *others]).items():
        runs, theirs = scores(cells), published_scores(results, game)
        name = ", ".join(map(str, (game, *rest)))
        games = sum(len(cell["evaluation"]["scores"]) for cell in cells if cell.get("evaluation"))
        published = [theirs.get(player) for player in PLAYERS]
        raw.append([name, _scored(runs, found), str(games or NONE), str(len(runs)), *map(whole, published)])
        shares = normalised(game, runs)
        if shares:
            strata.append(shares)
        of_paper = [_normal_text(game, theirs.get(player)) for player in ("a3c", "ga3c")]
        scaled.append([name, _scored(shares, found), *of_paper])
    if len(strata) > 1:
        found.append(estimate(strata))
        scaled.append(["all games", estimate_text(found[-1]), NONE, NONE])
    headers = ["game", "score", "games played", "runs", "random", "human", "A3C", "GA3C"]
    scale = "0 is a random player, 1 a human (constants of the DQN paper, for the scores of the paper as well)."
    made = [Table("Scores; random, human, A3C and GA3C are those of the paper", headers, raw, estimate_note(found))]
    if strata:
        made.append(Table("Human-normalised", ["game", "score", "A3C (paper)", "GA3C (paper)"], scaled, scale))
    return made


def _normal_text(game: str, score: float | None) -> str:
    shares = normalised(game, [] if score is None else [score])
    return number(shares[0]) if shares else NONE


def _lag(results: Results) -> list[Table]:
    axes = axes_besides(results)
    rows = []
    for cells in finished_by(results, axes).values():
        largest, settings = values(cells, "lag_max"), cells[0]["settings"]
        plain = {**settings, "correction": "none"}
        uncorrected = [cell for cell in finished(results) if cell["settings"] == plain != settings]
        rows.append(
            [
                name_of(cells[0], axes),
                spread_text(values(cells, "lag_mean")),
                whole(max(largest, default=None)),
                *(median_text(values(cells, name)) for name in ("training_queue", "tps", "pps")),
                spread_text(speed_ratios(cells, uncorrected), ratio),
            ]
        )
    headers = ["setting", "mean lag", "largest lag", "training queue", "TPS", "PPS", "PPS / uncorrected"]
    note = (
        "Lag in updates. Medians of the runs, in brackets lowest to highest; the largest lag is that of any run. "
        "Ratios are of runs with the same seed, directly after each other."
    )
    return [Table("Policy lag", headers, rows, note)]


_KINDS: dict[str, Callable[[Results], list[Table]]] = {
    "figure2": _figure2,
    "figure3": _figure3,
    "figure4": _figure4,
    "table2": _table2,
    "table3": _table3,
    "lag": _lag,
}
