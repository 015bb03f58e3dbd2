"""What a bench measured, and what it says: medians with their spread, efficiency, and the best setting."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.bench.ceiling import Rates
from experiments.bench.served import Figures, GridPoint, Overhead, Overheads, balanced
from experiments.bench.stage_sizes import RATIO_BATCH
from experiments.statistics import spread


@dataclass
class Measured:
    """Every measurement of a run, each list in the order of the repeats."""

    stages: dict[str, list[float]] = field(default_factory=dict)  # seconds
    ceilings: dict[int, list[Rates]] = field(default_factory=dict)  # by the environments of each worker
    settings: dict[GridPoint, list[Figures]] = field(default_factory=dict)
    overheads: dict[int, list[Overheads]] = field(default_factory=dict)  # by the environments of the agent
    peers: dict[str, list[float]] = field(default_factory=dict)  # steps per second
    grown_agents: dict[int, list[Figures]] = field(default_factory=dict)
    grown_networks: dict[str, list[Figures]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)  # of settings and peers that could not be measured


def summarise(measured: Measured, network: str) -> dict[str, Any]:
    """The best is the fastest setting that trains on all that it plays, by the median of its repeats."""
    ceilings = {str(envs): spread(rates.pps for rates in repeats) for envs, repeats in measured.ceilings.items()}
    ceiling = max((one["median"] for one in ceilings.values()), default=0.0)
    rows = [_setting_row(setting, repeats, ceiling) for setting, repeats in measured.settings.items() if repeats]
    fit = [row for row in rows if row["balanced"]]
    best = max(fit, key=lambda row: row["pps"]["median"], default=None)
    best_k1 = max(
        (row for row in fit if row["envs_per_agent"] == 1), key=lambda row: row["pps"]["median"], default=None
    )
    overheads = {str(envs): _overhead(repeats) for envs, repeats in measured.overheads.items() if repeats}
    return {
        "efficiency": best["efficiency"] if best else 0.0,
        "efficiency_k1": best_k1["efficiency"] if best_k1 else None,
        "ceiling_pps": ceiling,
        "best": _named(best),
        "best_k1": _named(best_k1),
        "prediction_overhead": overheads[str(Overhead.ENVS)]["share"] if str(Overhead.ENVS) in overheads else None,
        "update_ratio": update_ratio(measured.stages, network),
        "peers": _peers(measured, best["pps"]["median"] if best else 0.0),
        "network": network,
        "ceilings": ceilings,
        "settings": rows,
        "overheads": overheads,
        "stages": {name: spread(repeats) for name, repeats in measured.stages.items()},
        "growth": _growth(measured),
        "errors": measured.errors,
    }


def update_ratio(stages: dict[str, list[float]], network: str) -> float | None:
    """The whole update over its forward and backward alone, at the paper's batch."""
    whole = stages.get(f"update {network} {RATIO_BATCH}")
    pure = stages.get(f"gradient {network} {RATIO_BATCH}")
    return statistics.median(whole) / statistics.median(pure) if whole and pure else None


def _setting_row(setting: GridPoint, repeats: list[Figures], ceiling: float) -> dict[str, Any]:
    pps = spread(one.pps for one in repeats)
    return {
        "setting": str(setting),
        **setting._asdict(),
        "efficiency": pps["median"] / ceiling if ceiling else 0.0,
        "balanced": balanced(repeats),
        **_figures(repeats),
    }


def _figures(repeats: list[Figures]) -> dict[str, Any]:
    """Medians of the repeats, and the latency over all of their probes."""
    trips = [trip for one in repeats for trip in one.round_trips]
    forwards = [forward for one in repeats for forward in one.forwards]
    names = ("pps", "tps", "trained_per_second", "lag_mean", "prediction_batch", "predictor_busy", "trainer_busy")
    return {
        **{name: spread(getattr(one, name) for one in repeats) for name in (*names, "held", "rss", "pss")},
        "lag_max": max(one.lag_max for one in repeats),
        "limit": statistics.mode(one.limit for one in repeats),
        "latency_p50": float(np.percentile(trips, 50)),
        "latency_p99": float(np.percentile(trips, 99)),
        "latency_compute": min(float(np.median(forwards)) / float(np.median(trips)), 1.0) if forwards else 0.0,
        "probes": len(trips),
    }


def _named(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    names = ("setting", *GridPoint._fields, "limit")
    return {**{name: row[name] for name in names}, "pps": row["pps"]["median"]}


def _overhead(repeats: list[Overheads]) -> dict[str, Any]:
    trip = statistics.median(one.round_trip for one in repeats)
    forward = statistics.median(one.forward for one in repeats)
    return {**Overheads(trip, forward)._asdict(), "share": Overheads(trip, forward).share}


def _peers(measured: Measured, ours: float) -> dict[str, Any]:
    """Name to PPS and ratio (ours over theirs), or to the reason why there is none."""
    peers: dict[str, Any] = {}
    for name, repeats in measured.peers.items():
        if name in measured.errors:
            peers[name] = {"pps": None, "ratio": None, "error": measured.errors[name]}
        elif repeats:
            pps = spread(repeats)
            peers[name] = {"pps": pps["median"], "ratio": ours / pps["median"], "spread": pps}
    return peers


def _growth(measured: Measured) -> dict[str, Any] | None:
    """Throughput and memory by agents and by network; ``kept`` is that of the most agents as a share of the peak."""
    agents = {str(count): _figures(repeats) for count, repeats in measured.grown_agents.items() if repeats}
    networks = {name: _figures(repeats) for name, repeats in measured.grown_networks.items() if repeats}
    if not agents and not networks:
        return None
    speeds = [row["pps"]["median"] for row in agents.values()]
    return {"agents": agents, "networks": networks, "kept": speeds[-1] / max(speeds) if speeds else None}
