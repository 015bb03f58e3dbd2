"""How much of what the cores can give the server really gives.

The ceiling is the sum of the steps per second of one independent worker per core, each playing and training alone in
one thread: the same environments, network, batches, optimizer and MIN_BATCH, but nothing shared and nothing sent.
Efficiency is the server's balanced PPS over it. Both are measured in turn in one run, so that noise hits both.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ga3c.config import Config, available_cores
from ga3c.files import write_json
from ga3c.settings import ConfigError, check, read_words, setting

CEILING_ENVS = (8, 16, 32)
START_SECONDS = 60.0  # for environments to be made, at most


@dataclass(frozen=True, kw_only=True)
class Options:
    game: str = setting("Pong", "an ALE game or a Gymnasium id")
    settings: str = setting("2x16,3x16,2x32,4x16", "AGENTSxENVS_PER_AGENT of the server, with commas")
    min_batch: int = setting(Config.min_batch, "samples that a training batch has at least", low=1)
    t_max: int = setting(Config.t_max, "steps of an experience, at most", low=1)
    seconds: float = setting(12.0, "seconds of each measurement, after its start", above=0)
    repeats: int = setting(3, "how often each is measured; medians are shown", low=1)
    out: str = setting("", "JSON file for the result")

    def __post_init__(self) -> None:
        check(self)

    def grid(self) -> list[tuple[int, int]]:
        try:
            return [(int(agents), int(envs)) for agents, envs in (word.split("x") for word in self.settings.split(","))]
        except ValueError:
            raise ConfigError(f"SETTINGS={self.settings} is not a list like 2x16,3x16") from None


@dataclass(frozen=True)
class Rates:
    pps: float
    trained_per_second: float

    @property
    def balanced(self) -> bool:
        return abs(self.trained_per_second - self.pps) <= 0.05 * self.pps


def lone_worker(options: Options, envs: int, seed: int, link: multiprocessing.connection.Connection) -> None:
    """Play and train alone, in one thread, and report the rates of the time between two signals."""
    import numpy as np

    from ga3c.agent import sample
    from ga3c.batches import Batches
    from ga3c.envs import make_games
    from ga3c.learner import Learner
    from ga3c.queues import Queue
    from ga3c.rollout import Experience, Rollout
    from ga3c.stats import Stats

    config = Config(game=options.game, min_batch=options.min_batch, t_max=options.t_max, seed=seed, torch_threads=1)
    random = np.random.default_rng(seed)
    games = make_games(config, envs)
    stats = Stats()
    learner = Learner(config, games.spec, stats)
    trainer = learner.trainer()
    batches = Batches(games.spec, learner.model.device)
    rollout = Rollout(games.spec, envs, t_max=config.t_max, discount=config.discount, reward_clip=config.reward_clip)
    waiting: Queue[Experience] = Queue(lambda experience: experience.steps, least=config.min_batch)
    observations = games.reset(seed)
    started, steps, samples = 0.0, 0, 0
    link.send("ready")
    while True:
        prediction = learner.model.predict(batches.prediction([observations]))
        waiting.put(rollout.finish(prediction.values))
        actions = sample(prediction.policies, random)
        played = games.step(actions)
        rollout.record(observations, actions, prediction.version, played)
        observations = played.observations
        stats.add(steps=int(played.real.sum()))
        while (batch := waiting.take()) is not None:
            trainer.train(batch)
        if link.poll():
            now = time.monotonic()
            if link.recv() == "start":
                started, steps, samples = now, stats.totals.steps, stats.totals.samples
            else:
                seconds = now - started
                link.send(((stats.totals.steps - steps) / seconds, (stats.totals.samples - samples) / seconds))
                return


def measure_ceiling(options: Options, envs: int) -> Rates:
    """The summed rates of one lone worker per core."""
    spawn = multiprocessing.get_context("spawn")
    links = []
    for seed in range(available_cores()):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=lone_worker, args=(options, envs, seed, theirs), daemon=True)
        process.start()
        links.append((process, ours))
    for _, link in links:
        if not link.poll(START_SECONDS):
            raise RuntimeError("a worker did not start in time")
        link.recv()
    time.sleep(1.0)
    for _, link in links:
        link.send("start")
    time.sleep(options.seconds)
    for _, link in links:
        link.send("stop")
    rates = [link.recv() for _, link in links]
    for process, _ in links:
        process.join()
    return Rates(sum(pps for pps, _ in rates), sum(trained for _, trained in rates))


def measure_server(options: Options, agents: int, envs: int) -> Rates:
    """The server's rates in steady state: the windows after the first in which all agents played."""
    with tempfile.TemporaryDirectory(prefix="ga3c-efficiency-") as directory:
        run = Path(directory) / "run"
        words = [
            f"GAME={options.game}",
            f"AGENTS={agents}",
            f"ENVS_PER_AGENT={envs}",
            f"MIN_BATCH={options.min_batch}",
            f"T_MAX={options.t_max}",
            f"RUN={run}",
            "LOG_SECONDS=1",
            "TENSORBOARD=0",
            "TUNER=off",
        ]
        process = subprocess.Popen([sys.executable, "-m", "ga3c", *words], stderr=subprocess.DEVNULL)
        try:
            rows = _wait_for_rows(process, run / "metrics.jsonl", options.seconds, agents * envs)
        finally:
            process.terminate()
            process.wait()
    seconds = sum(row["window"] for row in rows)
    return Rates(
        sum(row["pps"] * row["window"] for row in rows) / seconds,
        sum(row["trained_per_second"] * row["window"] for row in rows) / seconds,
    )


def _wait_for_rows(process: subprocess.Popen[bytes], path: Path, seconds: float, envs: int) -> list[dict[str, Any]]:
    """The rows of the measured time. It begins two windows after every environment has its first steps behind it."""
    until = time.monotonic() + START_SECONDS + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with code {process.returncode}")
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines]
        fast = max((row["pps"] for row in rows), default=0.0)
        steady = [row for row in rows if row["steps"] > 20 * envs and fast > 0][2:]
        if sum(row["window"] for row in steady) >= seconds:
            return steady
        time.sleep(0.5)
    raise RuntimeError("the server did not reach a steady state in time")


def main(words: list[str]) -> int:
    options = Options(**read_words(Options, words))
    ceilings: dict[int, list[Rates]] = {envs: [] for envs in CEILING_ENVS}
    servers: dict[tuple[int, int], list[Rates]] = {pair: [] for pair in options.grid()}
    for repeat in range(options.repeats):
        for envs, measured in ceilings.items():
            measured.append(measure_ceiling(options, envs))
            print(
                f"{repeat + 1}/{options.repeats}  ceiling, {envs} environments each: {measured[-1].pps:,.0f}",
                flush=True,
            )
        for (agents, envs), measured in servers.items():
            measured.append(measure_server(options, agents, envs))
            last = measured[-1]
            print(
                f"{repeat + 1}/{options.repeats}  server, {agents} agents of {envs}: {last.pps:,.0f} PPS, "
                f"{last.trained_per_second:,.0f} trained/s",
                flush=True,
            )
    result = summarise(options, ceilings, servers)
    print(f"\nceiling {result['ceiling_pps']:,.0f}   best {result['best']}   efficiency {result['efficiency']:.2f}")
    if options.out:
        write_json(Path(options.out), result)
    return 0


def summarise(
    options: Options, ceilings: dict[int, list[Rates]], servers: dict[tuple[int, int], list[Rates]]
) -> dict[str, Any]:
    """Medians; the best is the fastest setting that trains on all that it plays."""
    ceiling = max(statistics.median(rates.pps for rates in measured) for measured in ceilings.values())
    rows: list[dict[str, Any]] = [
        {
            "agents": agents,
            "envs_per_agent": envs,
            "pps": statistics.median(rates.pps for rates in measured),
            "balanced": statistics.median(rates.balanced for rates in measured) >= 0.5,
            "repeats": [asdict(rates) for rates in measured],
        }
        for (agents, envs), measured in servers.items()
    ]
    best = max((row for row in rows if row["balanced"]), key=lambda row: row["pps"], default=None)
    return {
        "efficiency": best["pps"] / ceiling if best else 0.0,
        "ceiling_pps": ceiling,
        "best": {key: best[key] for key in ("agents", "envs_per_agent", "pps")} if best else None,
        "ceilings": {str(envs): [asdict(rates) for rates in measured] for envs, measured in ceilings.items()},
        "servers": rows,
        "cores": available_cores(),
        "options": asdict(options),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
