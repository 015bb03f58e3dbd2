"""Results of experiments as the harness writes them, with numbers that nobody measured."""

import itertools
import math
import random

NETWORKS = ["small", "large-4", "large-3", "large-2", "large-1"]
SYSTEMS = {
    "System I": {
        "networks": NETWORKS,
        "a3c_pps": [352, 113, 97, 43, 11],
        "ga3c_pps": [1361, 1271, 1206, 874, 490],
        "ga3c_cpu": [0.32, 0.27, 0.27, 0.26, 0.17],
        "ga3c_device": [0.56, 0.68, 0.77, 0.82, 0.90],
    },
    "System II": {
        "networks": ["small", "large-1"],
        "a3c_pps": [116, 12],
        "ga3c_pps": [728, 336],
        "ga3c_cpu": [0.62, 0.49],
        "ga3c_device": [0.33, 0.78],
    },
}
PLAYED = {
    "games": ["Amidar", "Boxing", "Centipede", "NameThisGame", "MsPacman", "Pong", "Qbert", "Seaquest", "UpNDown"],
    "human": [1676, 10, 10322, 6796, 15375, 16, 12085, 40426, 9896],
    "random": [6, -2, 1926, 198, 1748, -18, 272, 216, 533],
    "a3c": [264, 60, 3756, 10476, 654, 6, 15149, 2355, 74706],
    "ga3c": [218, 92, 7386, 5643, 1978, 18, 14966, 1706, 8623],
}


def made_results(name, cells, *, budget="laptop", paper=None):
    axes = {}
    for cell in cells:
        for axis, value in cell["settings"].items():
            if value not in axes.setdefault(axis, []):
                axes[axis].append(value)
    return {
        "name": name,
        "budget": budget,
        "title": f"{name.capitalize()}: what this experiment is about",
        "shows": "What it shows.",
        "does_not_show": "What it does not show.",
        "paper": paper or {},
        "command": f"./run.sh experiment {name} BUDGET={budget}",
        "date": "2026-11-17T12:00:00+0000",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "hardware": {
            "cpu": "A made-up processor",
            "cores": 2,
            "memory_bytes": 8 * 2**30,
            "system": "Linux x86_64",
            "python": "3.12.1",
            "torch": "2.9.0",
            "device": None,
        },
        "seconds": 3600.0,
        "axes": axes,
        "seeds": sorted({cell["seed"] for cell in cells}),
        "unfinished": 0,
        "cells": cells,
    }


def made_cell(settings, seed=0, *, curve=None, trials=None, evaluation=None, error=None, **figures):
    common = {
        "pps": 1500.0,
        "tps": 40.0,
        "trained_per_second": 1490.0,
        "prediction_queue": 0.4,
        "training_queue": 3.0,
        "prediction_batch": 9.0,
        "training_batch": 40.0,
        "lag_mean": 4.0,
        "lag_max": 9,
        "predictor_busy": 0.5,
        "trainer_busy": 0.6,
        "held": 0.0,
        "limit": "agents",
        "score": None,
        "steps": 100_000,
        "updates": 4_000,
        "seconds": 60.0,
        "agents": settings.get("agents", 4),
        "predictors": settings.get("predictors", 1),
        "trainers": settings.get("trainers", 1),
        "cpu": 0.95,
        "device": None,
        "memory": 6 * 10**8,
    }
    return {
        "id": "-".join(f"{axis}-{value}" for axis, value in settings.items()).lower() + f"-seed-{seed}-0a1b2c3d",
        "settings": settings,
        "seed": seed,
        "figures": {} if error else {**common, **figures},
        "curve": curve,
        "trials": trials,
        "evaluation": evaluation,
        "error": error,
    }


def every(**axes):
    """The combinations of the axes, as settings."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def learning(dice, seconds, best, *, speed=1000.0, rows=60, noise=1.0):
    """A curve that rises to ``best`` from −21, with no score before the first game has ended."""
    curve = []
    for row in range(1, rows + 1):
        at = seconds * row / rows * dice.uniform(0.995, 1.0)
        score = -21 + (best + 21) / (1 + math.exp(-8 * (at / seconds - 0.5))) + dice.gauss(0, noise)
        curve.append([at, int(at * speed), None if row < 3 else score])
    return curve


def tuner_trials(dice, windows, window, end):
    """A walk from 1/1/1 to ``end``, and then held with challengers in between."""
    trials, now = [], [1, 1, 1]
    for number in range(1, windows + 1):
        tried = list(now)
        place = dice.randrange(3)
        step = 4 if place == 0 else 1
        tried[place] = max(1, tried[place] + (step if tried[place] < end[place] else -step))
        closer = abs(tried[place] - end[place]) < abs(now[place] - end[place])
        distance = sum(abs(math.log(a / b)) for a, b in zip(tried, end, strict=True))
        tps = None if number == 7 else 24 * math.exp(-0.3 * distance) * dice.uniform(0.95, 1.05)
        decision = "start" if number == 1 else "failed" if tps is None else "accepted" if closer else "refused"
        if number == 1:
            tried = list(now)
        trials.append(
            {
                "seconds": number * window,
                **dict(zip(("agents", "predictors", "trainers"), tried, strict=True)),
                "tps": tps,
                "pps": None if tps is None else tps * 41,
                "decision": decision,
            }
        )
        if decision == "accepted":
            now = tried
    return trials, now


def figure2(seeds=(0,), games=("Boxing", "Pong"), tuners=("anneal",)):
    dice, cells = random.Random(2), []
    for seed in seeds:
        for settings in every(game=games, tuner=tuners):
            trials, now = tuner_trials(dice, 40, 30.0, [24, 1, 2] if settings["game"] == "Pong" else [16, 2, 2])
            ends = dict(zip(("agents", "predictors", "trainers"), now, strict=True))
            cells.append(made_cell(settings, seed, trials=trials, **ends))
    return made_results("figure2", cells, paper={"says": "Two optima for two games, from 1/1/1, a change a minute."})


def speed_grid(name, seeds=(0, 1, 2), agents=(4, 8, 16, 32), threads=(1, 2, 4)):
    dice, cells = random.Random(3), []
    for seed in seeds:
        for settings in every(agents=agents, predictors=(1, 2), trainers=threads, tuner=("off",)):
            tps = 12 + 3 * math.log2(settings["agents"]) - 2 * abs(settings["trainers"] - 2) - settings["predictors"]
            tps *= dice.uniform(0.93, 1.07)
            batch = settings["agents"] / (2 * settings["predictors"])
            queue = settings["agents"] / settings["trainers"] / 3 * dice.uniform(0.7, 1.3)
            cells.append(made_cell(settings, seed, tps=tps, pps=tps * 40, prediction_batch=batch, training_queue=queue))
        start = {"agents": 1, "predictors": 1, "trainers": 1, "tuner": "anneal"}
        cells.append(made_cell(start, seed, tps=24.4, pps=990.0, agents=28, predictors=1, trainers=2))
    paper = {"agents": 128, "predictors": 2, "trainers": 2, "drop": 0.14}
    paper["says"] = "Best at 128/2/2; 14 % between the best and the worst that are shown."
    return made_results(name, cells, paper=paper)


def table2(seeds=(0, 1, 2), networks=NETWORKS, device=None):
    dice, cells = random.Random(4), []
    for seed in seeds:
        for place, network in enumerate(networks):
            for algo, envs, pps in (
                ("ga3c", 1, 1400 / 2.2**place),
                ("a3c", 1, 420 / 2.4**place),
                ("ga3c", 32, 1700 / 2.1**place),
            ):
                pps *= dice.uniform(0.9, 1.1)
                busy = {"cpu": dice.uniform(0.9, 1.0), "device": device}
                settings = {"network": network, "algo": algo, "envs_per_agent": envs}
                cells.append(made_cell(settings, seed, pps=pps, training_batch=5.0 if envs == 1 else 160.0, **busy))
    return made_results("table2", cells, paper={"systems": SYSTEMS})


def figure5(seeds=(0, 1, 2), games=("Boxing", "Pong")):
    dice, cells = random.Random(5), []
    cases = [(1, 1, 1, "off", 150), (16, 1, 1, "off", 700), (24, 1, 2, "off", 1000), (1, 1, 1, "anneal", 950)]
    for seed in seeds:
        for game in games:
            for agents, predictors, trainers, tuner, speed in cases:
                settings = {"game": game, "agents": agents, "predictors": predictors, "trainers": trainers}
                settings["tuner"] = tuner
                curve = learning(dice, 3600, -21 + 40 * speed / 1000, speed=speed)
                steps, score = curve[-1][1], curve[-1][2]
                cells.append(made_cell(settings, seed, curve=curve, steps=steps, score=score, seconds=3600.0))
    return made_results("figure5", cells, paper={"says": "The tuner's curve tracks that of the best setting."})


def table3(seeds=(0, 1, 2), games=tuple(PLAYED["games"])):
    dice, cells = random.Random(6), []
    for seed in seeds:
        for game in games:
            low, high = (PLAYED[player][PLAYED["games"].index(game)] for player in ("random", "ga3c"))
            level = low + (high - low) * dice.uniform(0.3, 1.0)
            scores = [level * dice.uniform(0.8, 1.2) for _ in range(30)]
            evaluation = {"mean": sum(scores) / len(scores), "scores": scores}
            cells.append(made_cell({"game": game}, seed, evaluation=evaluation, score=level, steps=10_000_000))
    return made_results("table3", cells, paper=PLAYED)


def learning_curves(
    name, axis, options, seeds=(0, 1, 2), games=("Boxing", "Breakout", "Pong", "Qbert", "SpaceInvaders")
):
    dice, cells = random.Random(7), []
    for seed in seeds:
        for settings in every(**{"game": games, axis: options}):
            curve = learning(dice, 3600, dice.uniform(0, 20))
            cells.append(made_cell(settings, seed, curve=curve, steps=curve[-1][1], score=curve[-1][2]))
    return made_results(name, cells, paper={"says": "What the paper says of this figure."})


def changes(seeds=(0,)):
    dice, cells = random.Random(9), []
    for seed in seeds:
        both = {"learning_rate": 3e-4, "rmsprop_epsilon": 0.1}
        for settings in ({}, {"t_max": 5}, {"correction": "vtrace"}, {"beta": 0.01}, both, {"init": "paper"}):
            curve = learning(dice, 540, dice.uniform(0, 20))
            cells.append(made_cell(settings, seed, curve=curve, steps=curve[-1][1], score=curve[-1][2]))
    return made_results("defaults", cells)


def lag(seeds=(0, 1, 2)):
    dice, cells = random.Random(8), []
    for seed in seeds:
        for settings in every(agents=(4, 16), trainers=(1, 4), min_batch=(20, 80), correction=("none", "vtrace")):
            mean = settings["agents"] * settings["trainers"] / settings["min_batch"] * 10 * dice.uniform(0.9, 1.1)
            pps = 1000.0 if settings["correction"] == "none" else 900.0
            cells.append(made_cell(settings, seed, lag_mean=mean, lag_max=int(3 * mean + 2), pps=pps))
    return made_results("lag", cells)


def every_experiment():
    """One of each, at the sizes that are run."""
    return {
        "figure2": figure2(tuners=("anneal", "paper")),
        "figure3": speed_grid("figure3"),
        "figure4": speed_grid("figure4"),
        "table2": table2(),
        "figure5": figure5(),
        "table3": table3(),
        "figure6": learning_curves("figure6", "learning_rate", (3e-4, 1e-4)),
        "figure7": learning_curves("figure7", "min_batch", (1, 5, 20, 40, 80), games=("Boxing", "Pong")),
        "lag": lag(),
        "defaults": changes(),
    }
