"""Growth: throughput and memory as agents are added, one environment each, and as the network becomes larger.

Agents are added to one running server and taken away again, so that each number is measured on the way up and on the
way down. Networks are measured in turn, a server each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from experiments.bench.bench_result import Measured
from experiments.bench.served import Figures, Served
from experiments.bench.stage_sizes import RATIO_BATCH, networks_of
from experiments.progress import Part
from ga3c.games.spec import EnvSpec
from ga3c.settings.config import Config
from ga3c.system.limits import available_cores

AGENTS = (1, 2, 4, 8, 16, 32, 64, 128)
PASSES = 2
ENVS = 16  # of each agent, where the network grows
START_SECONDS = 0.75  # of one core, for an agent with one environment
UPDATES_LEAST = 20  # of a measured time, where that does not become too long
LONGEST_SECONDS = 60.0


class Growth:
    """The parts of it. ``serve`` starts a server, ``measure`` measures it for so long."""

    def __init__(
        self,
        config: Config,
        measured: Measured,
        serve: Callable[[Config], Served],
        measure: Callable[[Served, float], Figures],
    ) -> None:
        self._config = config
        self._measured = measured
        self._serve, self._measure = serve, measure
        self._served: Served | None = None  # to which agents are added

    def parts(self, spec: EnvSpec, seconds: float) -> Iterator[Part]:
        for before, agents in pairwise([0, *AGENTS, *reversed(AGENTS)]):
            starts = START_SECONDS * max(agents - before, 0) / available_cores()
            yield Part(
                f"growth, {agents} agents of one environment",
                starts + seconds + 6,
                partial(self._agents, before, agents, seconds),
                ("growth of agents",),
            )
        for _ in range(PASSES):
            for network in networks_of(spec):
                yield Part(
                    f"growth, network {network}",
                    seconds + 20,
                    partial(self._network, network, seconds),
                    (f"growth of {network}",),
                )

    def _agents(self, before: int, agents: int, seconds: float) -> str:
        if self._served is None:
            self._served = self._serve(self._config.replace(agents=agents, envs_per_agent=1))
        elif agents != before:
            self._served.resize(agents=agents)
        figures = self._measure(self._served, seconds)
        repeats = self._measured.grown_agents.setdefault(agents, [])
        repeats.append(figures)
        if agents == AGENTS[0] and len(repeats) == PASSES:
            self._served.end()
        return _text(figures)

    def _network(self, network: str, seconds: float) -> str:
        # A large network makes few updates per second, and a rate of few is rough.
        update = (
            self._measured.stages[f"update {network} {RATIO_BATCH}"][0] * (self._config.min_batch or 1) / RATIO_BATCH
        )
        seconds = max(seconds, min(UPDATES_LEAST * update, LONGEST_SECONDS))
        served = self._serve(self._config.replace(network=network, agents=available_cores() + 1, envs_per_agent=ENVS))
        figures = self._measure(served, seconds)
        served.end()
        self._measured.grown_networks.setdefault(network, []).append(figures)
        return _text(figures)


def _text(figures: Figures) -> str:
    return f"{figures.pps:,.0f} PPS, {figures.pss / 2**20:,.0f} MB"
