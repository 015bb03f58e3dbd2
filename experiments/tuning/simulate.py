"""The tuner's strategies beside each other on simulated machines: how soon each finds the best setting, and holds it.

Every run starts at 1/1/1 and has 100 windows, with noise and a slow drift; at window 60 half of the cores go. The best
is found by exhaustive search without noise. DEVELOP=1 draws the machines that the strategy was developed on; the others
are drawn from a seed that was not.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from experiments.options import SimulateOptions
from experiments.style import HEAD, LABEL, TITLE, style_of
from experiments.text import whole
from experiments.tuning.contests import Contest, TrueLandscape, make_contests
from ga3c.settings.declare import ConfigError, nearest, read_words
from ga3c.system.files import write_atomically, write_json
from ga3c.system.limits import available_cores
from tuner.space import Setting
from tuner.strategies import make_strategy
from tuner.strategy import Decision, Measurement, Plan, Strategy

WINDOWS, CHANGE = 100, 60
PARTS = 6  # of a window
NOISES = (0.02, 0.05, 0.10)
GOOD = 0.95  # of the best
DRIFT, DRIFT_KEPT = 0.05, 0.97  # deviation of the slow drift, and how much of it a window keeps
START = Setting(1, 1, 1)
DEVELOPED_ON, ACCEPTED_ON = 1, 20261118  # seeds of the machines
FIRST_SEED = {DEVELOPED_ON: 0, ACCEPTED_ON: 1000}  # of the runs


@dataclass
class RandomSearch:
    """Settings drawn evenly; the best window so far is the incumbent."""

    plan: Plan

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.plan.seed)
        self._best = (-math.inf, self.plan.start)
        self._settings = self.plan.space.settings()
        self._first = True

    def propose(self) -> Setting:
        if self._first:
            self._first = False
            return self.plan.start
        return self._settings[self._random.integers(len(self._settings))]

    def observe(self, measurement: Measurement) -> Decision:
        self._best = max(self._best, (measurement.mean_tps, measurement.setting))
        return Decision("accepted", self._best[1], "the best window so far")

    def random_state(self) -> Any:
        return None


class Optuna:
    """Optuna's default sampler over the same space; the best window so far is the incumbent."""

    def __init__(self, plan: Plan) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._plan = plan
        self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=plan.seed))
        self._study.enqueue_trial(plan.start._asdict())

    def propose(self) -> Setting:
        self._trial = self._study.ask()
        space = self._plan.space
        return Setting(
            self._trial.suggest_int("agents", 1, space.agents, log=True),
            self._trial.suggest_int("predictors", 1, space.predictors),
            self._trial.suggest_int("trainers", 1, space.trainers),
        )

    def observe(self, measurement: Measurement) -> Decision:
        self._study.tell(self._trial, measurement.mean_tps)
        return Decision("accepted", Setting(**self._study.best_params), "the best window so far")

    def random_state(self) -> Any:
        return None


MAKERS: dict[str, Callable[[Plan], Strategy]] = {
    "anneal": make_strategy,
    "paper": make_strategy,
    "random": RandomSearch,
    "optuna": Optuna,
}


@dataclass(frozen=True)
class Run:
    """Shares of the best, window by window: of the incumbent after it, and of the setting that ran in it."""

    held: list[float]
    ran: list[float]
    frozen: float  # of the incumbent at the change, after it

    @property
    def stay(self) -> float:
        """The window from which the incumbent stays good, up to the change; infinite if there is none."""
        return _stay(self.held[:CHANGE])

    @property
    def recovery(self) -> float | None:
        """Windows from the change until the incumbent is good and stays so; None where it never fell."""
        return None if self.frozen >= GOOD else _stay(self.held[CHANGE:])


def _stay(held: list[float]) -> float:
    window = len(held)
    while window > 0 and held[window - 1] >= GOOD:
        window -= 1
    return window + 1 if window < len(held) else math.inf


def run_strategy(
    make: Callable[[Plan], Strategy],
    plan: Plan,
    before: TrueLandscape,
    after: TrueLandscape,
    noise: float,
    random: np.random.Generator,
) -> Run:
    strategy = make(plan)
    drift, frozen, incumbent = 0.0, 0.0, plan.start
    held: list[float] = []
    ran: list[float] = []
    for window in range(WINDOWS):
        landscape = before if window < CHANGE else after
        if window == CHANGE:
            frozen = landscape.share(incumbent)
        drift = DRIFT_KEPT * drift + DRIFT * math.sqrt(1 - DRIFT_KEPT**2) * random.normal()
        setting = strategy.propose()
        factors = np.exp(drift + noise * math.sqrt(PARTS) * random.normal(size=PARTS))
        tps = landscape.tps(setting) * factors
        incumbent = strategy.observe(Measurement(setting, tuple(map(float, tps)), pps=0.0)).incumbent
        held.append(landscape.share(incumbent))
        ran.append(landscape.share(setting))
    return Run(held, ran, frozen)


def run_contest(contest: Contest, strategies: tuple[str, ...], seeds: range) -> list[tuple[str, float, Run]]:
    """Every strategy, noise and seed on one machine."""
    before, after = contest.landscape(1.0), contest.landscape(0.5)
    runs = []
    for strategy in strategies:
        for noise in NOISES:
            for seed in seeds:
                plan = Plan(strategy, START, contest.space, contest.system, seed=seed)
                # Noise and drift of its own for each run, also on another machine, but the same for all strategies;
                # and not of the strategy's own seed, or noise and proposals would be made of the same numbers.
                random = np.random.default_rng([seed, 7919, zlib.crc32(contest.name.encode())])
                runs.append((strategy, noise, run_strategy(MAKERS[strategy], plan, before, after, noise, random)))
    return runs


def summarise(runs: list[Run]) -> dict[str, Any]:
    """Over all runs of a strategy at one noise. Final means: before the change."""
    finals = [run.held[CHANGE - 1] for run in runs]
    fell = [run for run in runs if run.recovery is not None]
    recoveries = [run.recovery for run in fell if run.recovery is not None]
    return {
        "stay_median": _percentile([run.stay for run in runs], 50),
        "stay_p90": _percentile([run.stay for run in runs], 90),
        "final_mean": float(np.mean(finals)),
        "final_p10": _percentile(finals, 10),
        "recovery_median": _percentile(recoveries, 50) if recoveries else None,
        "run_31_60": float(np.mean([run.ran[30:CHANGE] for run in runs])),
        "recovery_runs": len(fell),
        "run_61_100": float(np.mean([run.ran[CHANGE:] for run in runs])),
        "frozen": float(np.mean([run.frozen for run in runs])),
        "end_mean": float(np.mean([run.held[-1] for run in runs])),
    }


def _percentile(values: list[float], percent: float) -> float:
    """One of the values: between two there is no number where one of them is infinite."""
    return float(np.percentile(values, percent, method="higher" if percent >= 50 else "lower"))


Column = tuple[str, Callable[[dict[str, Any]], str]]

COLUMNS: list[Column] = [
    ("stay, median / 90 %", lambda row: f"{whole(row['stay_median'])} / {whole(row['stay_p90'])}"),
    ("final, mean / 10 %", lambda row: f"{row['final_mean']:.3f} / {row['final_p10']:.3f}"),
    ("recovery, median", lambda row: f"{whole(row['recovery_median'])} of {row['recovery_runs']} runs"),
    ("ran, windows 31-60", lambda row: f"{row['run_31_60']:.3f}"),
    ("after the change: ran / frozen", lambda row: f"{row['run_61_100']:.3f} / {row['frozen']:.3f}"),
]


def table(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """One line per strategy and noise."""
    lines = ["strategy  noise  " + "  ".join(f"{title:>{max(len(title), 13)}}" for title, _ in COLUMNS)]
    for strategy, by_noise in results.items():
        for noise, row in by_noise.items():
            cells = "  ".join(f"{show(row):>{max(len(title), 13)}}" for title, show in COLUMNS)
            lines.append(f"{strategy:<8}  {float(noise):>5.0%}  {cells}")
    return "\n".join(lines)


def draw(runs: dict[tuple[str, float], list[Run]]) -> bytes:
    """The incumbents' share of the best, window by window: medians, and the middle 80 % of the runs."""
    import io

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(len(NOISES), 1, figsize=(9, 9), sharex=True, sharey=True, layout="constrained")
    styles = {name: style_of(place) for place, name in enumerate(MAKERS)}
    windows = np.arange(1, WINDOWS + 1)
    for panel, noise in zip(panels, NOISES, strict=True):
        for (strategy, its_noise), some in runs.items():
            if its_noise != noise:
                continue
            colour, line = styles[strategy]["color"], styles[strategy]["linestyle"]
            held = np.array([run.held for run in some])
            low, middle, high = np.percentile(held, [10, 50, 90], axis=0)
            panel.fill_between(windows, low, high, color=colour, alpha=0.12, linewidth=0)
            panel.plot(windows, middle, linestyle=line, color=colour, label=strategy)
        panel.axhline(GOOD, color="black", linewidth=0.6)
        panel.axvline(CHANGE + 0.5, color="black", linewidth=0.6)
        panel.set_title(f"noise of a window {noise:.0%}", loc="left", fontsize=TITLE)
        panel.set_ylabel("TPS, share of the best")
        panel.set_ylim(0, 1.02)
    panels[0].legend(loc="lower right", ncols=len(MAKERS), fontsize=LABEL)
    panels[1].annotate("half of the cores go", (CHANGE + 1, 0.05), fontsize=LABEL)
    panels[-1].set_xlabel("window")
    figure.suptitle("The incumbent of each strategy: median of all runs, and the middle 80 % of them", fontsize=HEAD)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    pyplot.close(figure)
    return buffer.getvalue()


def chosen(options: SimulateOptions) -> tuple[str, ...]:
    names = tuple(name.strip() for name in options.strategies.split(",") if name.strip())
    for name in names:
        if name not in MAKERS:
            raise ConfigError(f"STRATEGIES={name} is unknown.{nearest(name, MAKERS)} They are: {', '.join(MAKERS)}")
    if "optuna" in names and find_spec("optuna") is None:
        print("optuna is not installed and is left out ('./run.sh simulate' installs it)", file=sys.stderr)
        names = tuple(name for name in names if name != "optuna")
    return names


def run_all(contests: list[Contest], strategies: tuple[str, ...], seeds: range) -> dict[tuple[str, float], list[Run]]:
    """Every run on every machine, one machine per core at a time."""
    runs: dict[tuple[str, float], list[Run]] = {(name, noise): [] for name in strategies for noise in NOISES}
    columns = (TextColumn("machines"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    tasks = [(contest, strategies, seeds) for contest in contests]
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # the processes take all cores already
    with (
        multiprocessing.get_context("spawn").Pool(available_cores()) as pool,
        Progress(*columns, transient=True) as progress,
    ):
        bar = progress.add_task("", total=len(tasks))
        for some in pool.imap_unordered(_run_contest, tasks):
            for name, noise, run in some:
                runs[name, noise].append(run)
            progress.advance(bar)
    return runs


def _run_contest(task: tuple[Contest, tuple[str, ...], range]) -> list[tuple[str, float, Run]]:
    return run_contest(*task)


def _without_infinity(results: Any) -> Any:
    """JSON has no infinity: what never happened is null there."""
    if isinstance(results, dict):
        return {name: _without_infinity(value) for name, value in results.items()}
    return None if isinstance(results, float) and math.isinf(results) else results


def main(words: list[str]) -> int:
    options = SimulateOptions(**read_words(SimulateOptions, words))
    strategies = chosen(options)
    seed = DEVELOPED_ON if options.develop else ACCEPTED_ON
    seeds = range(FIRST_SEED[seed], FIRST_SEED[seed] + options.seeds)
    runs = run_all(make_contests(seed, options.machines), strategies, seeds)
    results = {name: {str(noise): summarise(runs[name, noise]) for noise in NOISES} for name in strategies}
    print(f"{options.machines} machines, {options.seeds} seeds each, {WINDOWS} windows from {START}")
    print(table(results))
    if options.out:
        write_json(Path(options.out).expanduser(), _without_infinity(results))
    if options.plot:
        write_atomically(Path(options.plot).expanduser(), draw(runs))
        print(f"plot in {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
