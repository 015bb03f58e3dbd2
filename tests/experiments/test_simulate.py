"""The comparison of strategies: its figures from runs that are known, its machines, and the command itself."""

import json
import math

import numpy as np
import pytest

from experiments.tuning.calibrate import compare, rank_correlation
from experiments.tuning.contests import Law, TrueLandscape, make_contests
from experiments.tuning.simulate import CHANGE, GOOD, WINDOWS, Optuna, RandomSearch, Run, main, run_strategy, summarise
from ga3c.__main__ import main as command
from tuner.machines import PAPER_SYSTEMS
from tuner.simulator import simulate
from tuner.space import Setting, Space
from tuner.strategies import make_strategy
from tuner.strategy import Measurement, Plan, System


def run_of(held, after):
    return Run(held + [after] * (WINDOWS - CHANGE), held + [after] * (WINDOWS - CHANGE), frozen=0.5)


def test_stay_is_the_window_from_which_it_remains_good():
    assert run_of([0.5] * 4 + [0.96] * (CHANGE - 4), 1.0).stay == 5
    assert run_of([0.96] * 10 + [0.5] + [0.96] * (CHANGE - 11), 1.0).stay == 12
    assert run_of([1.0] * CHANGE, 1.0).stay == 1
    assert run_of([1.0] * (CHANGE - 1) + [0.9], 1.0).stay == math.inf


def test_recovery_counts_only_runs_that_fell():
    held = [1.0] * CHANGE
    fell = Run(held + [0.5] * 3 + [0.97] * 37, held + [0.97] * 40, frozen=0.5)
    stood = Run([1.0] * WINDOWS, [1.0] * WINDOWS, frozen=GOOD)
    assert fell.recovery == 4
    assert stood.recovery is None
    row = summarise([fell, stood])
    assert (row["recovery_median"], row["recovery_runs"], row["frozen"]) == (4, 1, pytest.approx(0.725))


def test_figures_over_runs():
    runs = [run_of([0.5] * n + [1.0] * (CHANGE - n), 0.9) for n in range(10)]
    row = summarise(runs)
    assert row["stay_median"] == 6
    assert row["stay_p90"] == 10
    assert row["final_mean"] == 1.0
    assert row["run_31_60"] == 1.0
    assert row["run_61_100"] == pytest.approx(0.9)


def test_machines_are_the_same_for_a_seed_and_others_for_another():
    assert make_contests(5, 12) == make_contests(5, 12)
    assert make_contests(5, 12) != make_contests(6, 12)
    contests = make_contests(5, 12)
    assert sum(isinstance(contest.machine, Law) for contest in contests) == 4
    assert sum(contest.name in PAPER_SYSTEMS for contest in contests) == 2


def test_the_best_of_a_landscape_is_its_highest_setting():
    contest = make_contests(5, 2)[1]
    landscape = contest.landscape(1.0)
    shares = [landscape.share(setting) for setting in contest.space.settings()]
    assert max(shares) == pytest.approx(1.0)
    assert landscape.share(Setting(1, 1, 1)) < 0.9


def test_anneal_finds_and_holds_the_best_of_machines_it_was_not_made_for():
    contest = next(contest for contest in make_contests(77, 12) if isinstance(contest.machine, Law))
    plan = Plan("anneal", Setting(1, 1, 1), contest.space, contest.system, seed=5)
    run = run_strategy(
        make_strategy, plan, contest.landscape(1.0), contest.landscape(0.5), noise=0.02, random=np.random.default_rng(0)
    )
    assert run.stay <= 30
    assert min(run.held[CHANGE - 1], run.held[-1]) > 0.93


@pytest.mark.parametrize("make", [RandomSearch, Optuna])
def test_others_can_be_compared_with(make):
    landscape = TrueLandscape(Space(4, 2, 2), np.log(np.arange(1.0, 17.0)).reshape(4, 2, 2))
    plan = Plan("other", Setting(1, 1, 1), Space(4, 2, 2), System(2), seed=1)
    run = run_strategy(make, plan, landscape, landscape, noise=0.01, random=np.random.default_rng(0))
    assert run.ran[0] == pytest.approx(1 / 16)
    assert run.held[-1] > 0.9


def test_rank_correlation_by_hand():
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)


def test_a_simulated_grid_compared_with_itself_has_no_error():
    system, machine = System(16, True, 1, 5, 1), PAPER_SYSTEMS["System I"]
    settings = [Setting(agents, 1, 1) for agents in (1, 4, 16)]
    rates = simulate(machine, system, settings, rounds=20_000).tps
    result = compare(machine, system, dict(zip(settings, rates.tolist(), strict=True)))
    assert result["rank_correlation"] == pytest.approx(1)
    assert result["largest_error"] == pytest.approx(0, abs=1e-9)


@pytest.mark.processes
def test_the_command_writes_table_plot_and_json(tmp_path, capsys):
    out, plot = tmp_path / "out.json", tmp_path / "plot.png"
    assert main(["MACHINES=2", "SEEDS=1", "STRATEGIES=paper,random", f"OUT={out}", f"PLOT={plot}"]) == 0
    assert "stay, median / 90 %" in capsys.readouterr().out
    result = json.loads(out.read_text(), parse_constant=pytest.fail)  # JSON has no Infinity
    assert set(result) == {"paper", "random"}
    assert set(result["paper"]) == {"0.02", "0.05", "0.1"}
    wanted = {"stay_median", "stay_p90", "final_mean", "final_p10", "recovery_median", "run_31_60"}
    assert wanted <= set(result["paper"]["0.02"])
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_wrong_words_are_refused(capsys):
    assert command(["simulate", "STRATEGIES=aneal"]) == 2
    assert "Did you mean anneal?" in capsys.readouterr().err
    assert command(["calibrate"]) == 2
    assert "GRID is missing" in capsys.readouterr().err


def test_a_measurement_has_its_mean():
    assert Measurement(Setting(1, 1, 1), (1.0, 3.0), 0.0).mean_tps == 2.0
