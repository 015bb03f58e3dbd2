"""The simulator calibrated to this machine, and checked against a grid that was really measured.

Costs are measured with every core busy at the same work, since caches and memory are shared: a step of an environment,
predictions and updates by batch size. What an agent and the server spend on a message comes from the processor time of
a short run. The grid is a run with TUNER=sweep; its settings are simulated, and both are compared.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from experiments.options import CalibrateOptions
from experiments.processes import Orders, Processes, family
from ga3c.games.make import make_games
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, read_words
from ga3c.system.files import write_json
from ga3c.system.limits import available_cores
from tuner.simulator import Machine, simulate
from tuner.space import Setting
from tuner.strategy import System
from tuner.trace import Trace, TraceError, read_trace

STAGE_SECONDS = 1.5
PREDICTED = (1, 4, 16)  # observations of a batch
RUN_SECONDS = 15.0
RUN_AGENTS = 4  # of the short run, per core
SETTINGS_LEAST = 3

Costs = dict[str, float]


def measure_stages(orders: Orders, config: Config) -> None:
    """In a process of its own: seconds of each stage, while the others do the same."""
    from experiments.bench import stages

    games = make_games(config, config.envs_per_agent or 1)
    workers = stages.make_workers(config, games.spec)
    measured = {"step": stages.step_stage(games, config.seed)}
    for count in PREDICTED:
        measured[f"predict {count}"] = stages.predict_stage(workers, count)
        measured[f"forward {count}"] = stages.forward_stage(workers, count)
    for share in (1, 2):
        measured[f"train {share}"] = stages.update_stage(workers, config, share * _batch_samples(config))
    for stage in measured.values():
        stage()  # the first call of each prepares more than it computes
    orders.answer()
    if orders.next()[0] == "measure":
        orders.answer({name: stages.seconds_of(stage, STAGE_SECONDS) for name, stage in measured.items()})


def stage_costs(config: Config) -> Costs:
    """Means over one process per core, all at the same stage at the same time."""
    with (
        tempfile.TemporaryDirectory(prefix="ga3c-calibrate-") as directory,
        Processes(Path(directory)) as processes,
    ):
        workers = [
            processes.start(f"worker {core}", measure_stages, config.replace(seed=core))
            for core in range(available_cores())
        ]
        for worker in workers:
            worker.answer()
        for worker in workers:
            worker.tell("measure")
        measured = [worker.answer() for worker in workers]
    return {name: fmean(one[name] for one in measured) for name in measured[0]}


def _batch_samples(config: Config) -> int:
    """Samples of a batch of whole experiences of T_MAX steps."""
    return -(-(config.min_batch or 1) // config.t_max) * config.t_max


def run_costs(config: Config) -> Costs:
    """Processor seconds that agents and server spend per step in a short run with all cores busy."""
    agents = RUN_AGENTS * available_cores()
    with tempfile.TemporaryDirectory(prefix="ga3c-calibrate-") as directory:
        run = Path(directory) / "run"
        endless = {"max_seconds": 0.0, "max_steps": 0, "max_episodes": 0, "learning_rate_end": None, "beta_end": None}
        short = config.replace(
            agents=agents, run=str(run), tuner="off", tensorboard=False, log_seconds=0.5, listen="", **endless
        )
        words = [
            f"{name.upper()}={int(value) if isinstance(value, bool) else value}"
            for name, value in short.to_dict().items()
            if value is not None
        ]
        process = subprocess.Popen([sys.executable, "-m", "ga3c", *words], stderr=subprocess.DEVNULL)
        try:
            rows_before = _wait_for_row(run, 0, lambda row: row["steps"] > 200 * agents * (config.envs_per_agent or 1))
            before = _processor_times(process.pid)
            time.sleep(RUN_SECONDS)
            rows_after = _wait_for_row(run, rows_before["rows"], lambda row: True)
            after = _processor_times(process.pid)
        finally:
            process.terminate()
            process.wait()
    steps = rows_after["steps"] - rows_before["steps"]
    updates = rows_after["updates"] - rows_before["updates"]
    spent = {pid: after[pid] - before[pid] for pid in after if pid in before}
    server = spent.pop(process.pid)
    return {
        "agent": sum(spent.values()) / steps,
        "server": server / steps,
        "prediction_batch": rows_after["prediction_batch"],
        "updates_per_step": updates / steps,
    }


def _wait_for_row(run: Path, count: int, ready: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The newest row of the log, once there are more than ``count`` and it is ready."""
    until = time.monotonic() + 120
    path = run / "metrics.jsonl"
    while time.monotonic() < until:
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if len(rows) > count and ready(rows[-1]):
            return {**rows[-1], "rows": len(rows)}
        time.sleep(0.02)
    raise RuntimeError("the short run did not get going in time")


def _processor_times(pid: int) -> dict[int, float]:
    """Processor seconds so far of a process and of its children."""
    tick = os.sysconf("SC_CLK_TCK")
    return {member: (int(fields[11]) + int(fields[12])) / tick for member, fields in family(pid).items()}


def calibrated_machine(config: Config, stages: Costs, run: Costs) -> Machine:
    """A machine of the simulator with these costs."""
    envs = config.envs_per_agent or 1
    forward_base, forward_each = _line({count: stages[f"forward {count}"] for count in PREDICTED})
    predict_base, predict_each = _line({count: stages[f"predict {count}"] for count in PREDICTED})
    samples = _batch_samples(config)
    train_each = (stages["train 2"] - stages["train 1"]) / samples
    train_base = max(stages["train 1"] - train_each * samples, 0.1 * stages["train 1"])
    step = stages["step"] / envs
    players = 2 if envs > 1 else 1
    turns = players / envs  # per step
    # What the server spent beyond predictions and updates is the exchange of messages.
    batch = run["prediction_batch"]
    predictions = (predict_base + predict_each * batch) / batch
    trained = (train_base + train_each * samples) * run["updates_per_step"]
    exchange = max(run["server"] - predictions - trained, 0.0) / turns
    return Machine(
        cores=available_cores(),
        gpu=False,
        env_step=step,
        agent_turn=max(run["agent"] - step, 0.0) / turns,
        predict_host=max(predict_base - forward_base, 0.0),
        predict_host_each=max(predict_each - forward_each, 0.0) * envs / players + exchange,
        predict_base=forward_base,
        predict_each=forward_each,
        train_host=0.2 * train_base,
        train_base=0.8 * train_base,
        train_each=train_each,
        lock=1.0,
        crowding=0.0,
        switching=0.05,
        queue_batches=(config.train_queue or 1) * config.t_max / _batch_samples(config),
    )


def _line(seconds: dict[int, float]) -> tuple[float, float]:
    """Base and slope of seconds over counts; the base is not below 0."""
    slope, base = np.polyfit(list(seconds), list(seconds.values()), 1)
    return max(float(base), 0.0), float(slope)


def grid_means(trace: Trace) -> dict[Setting, float]:
    measured: dict[Setting, list[float]] = {}
    for trial in trace.trials:
        if not trial.measurement.problem and trial.measurement.mean_tps > 0:
            measured.setdefault(trial.measurement.setting, []).append(trial.measurement.mean_tps)
    return {setting: fmean(values) for setting, values in sorted(measured.items())}


def rank_correlation(one: list[float], other: list[float]) -> float:
    """Spearman's, with mean ranks for ties."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: list[float]) -> np.ndarray:
    array = np.array(values)
    return np.array([(array < value).sum() + ((array == value).sum() + 1) / 2 for value in array])


def compare(machine: Machine, system: System, measured: dict[Setting, float]) -> dict[str, Any]:
    settings = list(measured)
    simulated = simulate(machine, system, settings, rounds=20_000).tps.tolist()
    rows = [
        {
            **setting._asdict(),
            "measured": measured[setting],
            "simulated": tps,
            "error": tps / measured[setting] - 1,
        }
        for setting, tps in zip(settings, simulated, strict=True)
    ]
    errors = [abs(row["error"]) for row in rows]
    # The costs of a noisy machine can all be off by one factor; what matters to the tuner is the shape.
    factor = math.exp(fmean(math.log(row["measured"] / row["simulated"]) for row in rows))
    shape = [abs(row["simulated"] * factor / row["measured"] - 1) for row in rows]
    return {
        "rank_correlation": rank_correlation([row["measured"] for row in rows], simulated),
        "mean_error": fmean(errors),
        "largest_error": max(errors),
        "mean_error_of_shape": fmean(shape),
        "settings": rows,
    }


def main(words: list[str]) -> int:
    options = CalibrateOptions(**read_words(CalibrateOptions, words))
    try:
        grid = Path(options.grid).expanduser()
        trace = read_trace(grid)
        config = Config.from_mapping(json.loads((grid / "config.json").read_text()))
    except (TraceError, OSError, ValueError) as error:
        raise ConfigError(f"GRID={options.grid} cannot be used: {error}") from None
    measured = grid_means(trace)
    if len(measured) < SETTINGS_LEAST:
        raise ConfigError(f"GRID={options.grid} has {len(measured)} settings: at least {SETTINGS_LEAST} are needed")
    if trace.plan.system.gpu:
        raise ConfigError(f"GRID={options.grid} ran on a GPU: only machines without one can be calibrated so far")
    config = config.replace(torch_threads=config.torch_threads or 1)
    print(f"{len(measured)} settings of {options.grid}; measuring this machine", flush=True)
    stages = _medians([stage_costs(config) for _ in range(options.repeats)])
    run = run_costs(config)
    machine = calibrated_machine(config, stages, run)
    result = compare(machine, trace.plan.system, measured)
    print("\nNA/NP/NT   measured  simulated   error")
    for row in result["settings"]:
        numbers = "/".join(str(row[name]) for name in Setting._fields)
        print(f"{numbers:<9}{row['measured']:>10.2f}{row['simulated']:>11.2f}{row['error']:>+8.0%}")
    print(
        f"\nrank correlation {result['rank_correlation']:.2f}, mean error {result['mean_error']:.0%} "
        f"(largest {result['largest_error']:.0%}; of the shape alone {result['mean_error_of_shape']:.0%})"
    )
    if options.out:
        write_json(Path(options.out).expanduser(), {"machine": asdict(machine), "stages": stages, "run": run, **result})
    return 0


def _medians(measured: list[Costs]) -> Costs:
    return {name: median(one[name] for one in measured) for name in measured[0]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
