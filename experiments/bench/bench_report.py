"""The result of a bench as tables on the terminal and as a picture."""

from __future__ import annotations

import io
from typing import Any

from rich.table import Table

from experiments.options import BenchOptions
from experiments.style import MARKED, OURS, PALE, PAPER, SMALL, TITLE
from experiments.text import empty_table, wide_console

CEILING, PEER = MARKED, PAPER  # beside our own


def show(result: dict[str, Any]) -> None:
    """Everything on stdout, the answer last: that is what remains on the screen."""
    console = wide_console()
    for table in (_stage_table(result), _network_table(result), _speed_table(result), _wait_table(result)):
        console.print(table)
    if result["growth"]:
        console.print(_growth_table(result["growth"]))
    if result["peers"]:
        console.print(_peer_table(result))
    for name, error in result["errors"].items():
        console.print(f"{name} could not be measured: {error}", markup=False)
    for line in answer(result):
        console.print(line, markup=False)


def answer(result: dict[str, Any]) -> list[str]:
    """The figures that matter, a line each."""
    hardware, best, best_k1 = result["hardware"], result["best"], result["best_k1"]
    lines = [
        f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['memory_bytes'] / 2**30:.0f} GB, "
        f"torch {hardware['torch']}, {hardware['date'][:10]}; network {result['network']}",
        f"ceiling                {result['ceiling_pps']:,.0f} steps per second",
    ]
    if best is None:
        lines.append("best                   none: no setting of the grid was balanced")
    else:
        lines.append(f"best                   {best['setting']}: {best['pps']:,.0f} PPS; the {best['limit']} limit it")
    lines.append(f"efficiency             {result['efficiency']:.2f}")
    if best_k1 is not None:
        text = f"{result['efficiency_k1']:.2f} ({best_k1['setting']}: {best_k1['pps']:,.0f} PPS)"
        lines.append(f"efficiency with K = 1  {text}")
    if result["prediction_overhead"] is not None:
        lines.append(f"prediction overhead    {result['prediction_overhead']:.0%} of a round trip")
    if result["update_ratio"] is not None:
        lines.append(f"update / gradient      {result['update_ratio']:.2f} with 20 samples")
    if result["growth"] and result["growth"]["kept"] is not None:
        lines.append(f"with the most agents   {result['growth']['kept']:.0%} of the peak")
    return lines


def _milliseconds(cost: dict[str, Any] | None) -> str:
    return "" if cost is None else f"{1000 * cost['median']:.3g}"


def _between(figure: dict[str, Any]) -> str:
    return f"{figure['low']:,.0f}–{figure['high']:,.0f}"


def _stage_table(result: dict[str, Any]) -> Table:
    """Environments and messages by their count."""
    stages = result["stages"]
    counts = sorted({int(name.split()[-1]) for name in stages if name.startswith("step ")})
    table = empty_table("Stages on one thread, ms", "", *(f"K = {count}" for count in counts))
    names = {"step": "environment step", "code request": "encode, decode", "wire": "ZeroMQ, there and back"}
    for stage, name in names.items():
        table.add_row(name, *(_milliseconds(stages.get(f"{stage} {count}")) for count in counts))
    for name, cost in stages.items():
        if name.startswith("code experience "):
            table.caption = f"encode, decode an experience of {name.split()[-1]} steps: {_milliseconds(cost)}"
    return table


def _network_table(result: dict[str, Any]) -> Table:
    """Forwards, gradients and updates by network and batch."""
    stages = result["stages"]
    by_network: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for name, cost in stages.items():
        kind, *middle, count = name.split()
        if kind in ("forward", "gradient", "update"):
            by_network.setdefault(middle[0], {})[kind, int(count)] = cost
    columns = sorted({column for costs in by_network.values() for column in costs}, key=lambda one: (one[0], one[1]))
    titles = (f"{kind} {count}" for kind, count in columns)
    table = empty_table("Networks on one thread by samples, ms (gradient: forward and backward alone)", "", *titles)
    for network, costs in by_network.items():
        table.add_row(network, *(_milliseconds(costs.get(column)) for column in columns))
    return table


def _speed_table(result: dict[str, Any]) -> Table:
    table = empty_table("Speed", "NAxK/NP/NT", "PPS", "low–high", "of ceiling", "trained/s", "TPS", "lag", "limit")
    for envs, pps in result["ceilings"].items():
        share = f"{pps['median'] / result['ceiling_pps']:.2f}"
        table.add_row(f"ceiling, {envs} each", f"{pps['median']:,.0f}", _between(pps), share)
    for row in result["settings"]:
        trained = f"{row['trained_per_second']['median']:,.0f}" + ("" if row["balanced"] else " not balanced")
        table.add_row(
            row["setting"],
            f"{row['pps']['median']:,.0f}",
            _between(row["pps"]),
            f"{row['efficiency']:.2f}",
            trained,
            f"{row['tps']['median']:.1f}",
            f"{row['lag_mean']['median']:.1f}/{row['lag_max']}",
            row["limit"],
        )
    return table


def _wait_table(result: dict[str, Any]) -> Table:
    columns = ("p50 ms", "p99 ms", "compute", "batch", "RSS MB", "PSS MB")
    table = empty_table("A prediction, and memory of server and agents", "NAxK/NP/NT", *columns)
    for row in result["settings"]:
        table.add_row(row["setting"], *_wait_cells(row))
    for envs, overhead in result["overheads"].items():
        trip, forward = 1000 * overhead["round_trip"], 1000 * overhead["forward"]
        table.add_row(f"1x{envs}, no training", f"{trip:.2f}", "", f"{forward / trip:.0%}", envs)
    return table


def _wait_cells(row: dict[str, Any]) -> list[str]:
    return [
        f"{1000 * row['latency_p50']:.1f}",
        f"{1000 * row['latency_p99']:.1f}",
        f"{row['latency_compute']:.0%}",
        f"{row['prediction_batch']['median']:.1f}",
        f"{row['rss']['median'] / 2**20:,.0f}",
        f"{row['pss']['median'] / 2**20:,.0f}",
    ]


def _growth_table(growth: dict[str, Any]) -> Table:
    columns = ("PPS", "low–high", "p50 ms", "p99 ms", "compute", "batch", "RSS MB", "PSS MB")
    table = empty_table("Growth", "", *columns)
    named = {f"{count} agents, K = 1": row for count, row in growth["agents"].items()} | growth["networks"]
    for name, row in named.items():
        table.add_row(name, f"{row['pps']['median']:,.0f}", _between(row["pps"]), *_wait_cells(row))
    return table


def _peer_table(result: dict[str, Any]) -> Table:
    table = empty_table("Peers", "", "steps/s", "low–high", "ours / theirs")
    for name, peer in result["peers"].items():
        if "error" in peer:
            table.add_row(name, "–", "", peer["error"])
        else:
            table.add_row(name, f"{peer['pps']:,.0f}", _between(peer["spread"]), f"{peer['ratio']:.2f}")
    return table


def draw(result: dict[str, Any]) -> bytes:
    """Speed beside the ceiling, where a prediction's time goes, and what networks cost; growth where it was asked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = 3 if result["growth"] else 2
    figure, panels = pyplot.subplots(rows, 2, figsize=(12, 4.4 * rows), layout="constrained")
    _draw_speed(panels[0, 0], result)
    _draw_latency(panels[0, 1], result)
    _draw_step(panels[1, 0], result)
    _draw_networks(panels[1, 1], result)
    if result["growth"]:
        _draw_agents(panels[2, 0], result["growth"]["agents"])
        _draw_grown_networks(panels[2, 1], result["growth"]["networks"])
    hardware, game = result["hardware"], result.get("options", {}).get("game", BenchOptions.game)
    figure.suptitle(
        f"{game}, network {result['network']}, on {hardware['cores']} cores of {hardware['cpu']}, "
        f"{hardware['date'][:10]}: efficiency {result['efficiency']:.2f}"
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    pyplot.close(figure)
    return buffer.getvalue()


def draw_rates(rates: dict[str, dict[str, Any]], title: str) -> bytes:
    """Ours and those of others as bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(8, 1.2 + 0.6 * len(rates)), layout="constrained")
    _bars(panel, list(rates), list(rates.values()), [OURS] + [PEER] * (len(rates) - 1))
    panel.set_title("steps per second: medians, lowest to highest repeat", loc="left", fontsize=TITLE)
    figure.suptitle(title)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    pyplot.close(figure)
    return buffer.getvalue()


def _bars(panel: Any, names: list[str], figures: list[dict[str, Any]], colours: list[str]) -> None:
    """Medians as bars from top to bottom, with the spread of the repeats."""
    medians = [figure["median"] for figure in figures]
    errors = [
        [figure["median"] - figure["low"] for figure in figures],
        [figure["high"] - figure["median"] for figure in figures],
    ]
    panel.barh(names, medians, xerr=errors, color=colours, error_kw={"ecolor": "black", "elinewidth": 1, "capsize": 2})
    panel.invert_yaxis()


def _draw_speed(panel: Any, result: dict[str, Any]) -> None:
    bars = [(f"ceiling, {envs} each", pps, CEILING) for envs, pps in result["ceilings"].items()]
    bars += [
        (row["setting"] + ("" if row["balanced"] else " (not balanced)"), row["pps"], OURS)
        for row in result["settings"]
    ]
    bars += [(name, peer["spread"], PEER) for name, peer in result["peers"].items() if "spread" in peer]
    names, figures, colours = (list(column) for column in zip(*bars, strict=True))
    _bars(panel, names, figures, colours)
    panel.axvline(result["ceiling_pps"], color=CEILING, linewidth=0.8, linestyle="--")
    panel.set_title("steps per second: medians, lowest to highest repeat", loc="left", fontsize=TITLE)


def _draw_latency(panel: Any, result: dict[str, Any]) -> None:
    rows = result["settings"]
    names = [row["setting"] for row in rows]
    medians = [1000 * row["latency_p50"] for row in rows]
    slow = [1000 * row["latency_p99"] for row in rows]
    panel.barh(names, medians, color=PALE, label="median")
    compute = [row["latency_compute"] * median for row, median in zip(rows, medians, strict=True)]
    panel.barh(names, compute, color=OURS, label="of which the forward")
    panel.plot(slow, names, "|", color="black", markersize=12, label="99 % are faster")
    panel.invert_yaxis()
    panel.legend(fontsize=SMALL, loc="best")
    panel.set_title("round trip of a prediction, ms", loc="left", fontsize=TITLE)


def _draw_step(panel: Any, result: dict[str, Any]) -> None:
    """What one step costs in each stage, by how many go together."""
    curves = {"step": "environment", "code request": "encode, decode", "wire": "ZeroMQ"}
    curves[f"forward {result['network']}"] = "forward"
    curves[f"update {result['network']}"] = "update"
    for stage, name in curves.items():
        points = sorted(
            (int(key.split()[-1]), cost["median"])
            for key, cost in result["stages"].items()
            if key.rpartition(" ")[0] == stage
        )
        if points:
            panel.plot([n for n, _ in points], [1000 * cost / n for n, cost in points], "o-", label=name, markersize=4)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.xaxis.set_major_formatter("{x:.0f}")
    panel.set_xlabel("environments, observations or samples that go together")
    panel.legend(fontsize=SMALL, loc="best")
    panel.set_title("cost of one step on one thread, ms", loc="left", fontsize=TITLE)


def _draw_networks(panel: Any, result: dict[str, Any]) -> None:
    stages = result["stages"]
    networks = list(dict.fromkeys(name.split()[1] for name in stages if name.startswith("forward ")))
    kinds = {"forward": ("16", PALE), "gradient": ("20", OURS), "update": ("20", CEILING)}
    width = 0.8 / len(kinds)
    for place, (kind, (count, colour)) in enumerate(kinds.items()):
        costs = [1000 * stages[f"{kind} {network} {count}"]["median"] for network in networks]
        positions = [number + (place - 1) * width for number in range(len(networks))]
        panel.bar(positions, costs, width, color=colour, label=f"{kind} of {count}")
    panel.set_xticks(range(len(networks)), networks)
    panel.set_yscale("log")
    panel.margins(y=0.2)
    panel.legend(fontsize=SMALL, loc="upper left")
    panel.set_title("networks on one thread, ms", loc="left", fontsize=TITLE)


def _draw_agents(panel: Any, agents: dict[str, Any]) -> None:
    counts = [int(count) for count in agents]
    panel.plot(counts, [row["pps"]["median"] for row in agents.values()], "o-", color=OURS)
    panel.fill_between(
        counts,
        [row["pps"]["low"] for row in agents.values()],
        [row["pps"]["high"] for row in agents.values()],
        color=OURS,
        alpha=0.15,
        linewidth=0,
    )
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter("{x:.0f}")
    panel.set_ylim(bottom=0)
    panel.set_xlabel("agents of one environment")
    panel.set_ylabel("PPS", color=OURS)
    memory = panel.twinx()
    memory.plot(counts, [row["pss"]["median"] / 2**20 for row in agents.values()], "s--", color=PEER, markersize=4)
    memory.set_ylabel("MB of server and agents (PSS)", color=PEER)
    memory.set_ylim(bottom=0)
    panel.set_title("growth with agents", loc="left", fontsize=TITLE)


def _draw_grown_networks(panel: Any, networks: dict[str, Any]) -> None:
    names, figures = list(networks), [row["pps"] for row in networks.values()]
    _bars(panel, names, figures, [OURS] * len(names))
    panel.set_title("growth with the network, PPS", loc="left", fontsize=TITLE)
