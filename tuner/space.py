"""What can be tuned: the numbers of agents, predictors and trainers, and their bounds on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

AGENTS_PER_CORE = 10
SINGLES_LEAST = 40  # agents of one environment that are tried on any machine: larger predictions pay on two cores too
THREADS_MOST = 6  # predictors or trainers; they share one interpreter, so more only wait for it
MEMORY_SHARE = 0.5  # of what is free at the start that agents may take


class Setting(NamedTuple):
    """NA, NP and NT."""

    agents: int
    predictors: int
    trainers: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


@dataclass(frozen=True)
class Space:
    """The settings from 1/1/1 up to these numbers."""

    agents: int
    predictors: int
    trainers: int

    def __contains__(self, setting: Setting) -> bool:
        return all(1 <= number <= most for number, most in zip(setting, self.most, strict=True))

    @property
    def most(self) -> Setting:
        return Setting(self.agents, self.predictors, self.trainers)

    def agent_steps(self, *also: int) -> list[int]:
        """Numbers of agents worth telling apart: each at most an eighth above the one before, from 8 on."""
        steps = {min(number, self.agents) for number in also}
        number = 1
        while number < self.agents:
            steps.add(number)
            number += max(1, number // 8)
        return sorted(steps | {self.agents})

    def settings(self, *also: int) -> list[Setting]:
        """Every setting that is worth telling apart."""
        return [
            Setting(agents, predictors, trainers)
            for agents in self.agent_steps(*also)
            for predictors in thread_steps(self.predictors)
            for trainers in thread_steps(self.trainers)
        ]


def thread_steps(most: int) -> list[int]:
    """Numbers of predictors or trainers worth telling apart: all, but of more than usual only doublings."""
    steps = {*range(1, min(most, THREADS_MOST) + 1), most}
    number = 2 * THREADS_MOST
    while number < most:
        steps.add(number)
        number *= 2
    return sorted(steps)


def space_of(cores: int, *, envs_per_agent: int = 1, memory: float = float("inf"), agent_memory: float = 1.0) -> Space:
    """The bounds for a machine: by its cores, and by what its memory has room for.

    An agent of many environments keeps a core busy by itself, so fewer of them are worth trying.
    """
    by_cores = max(cores + 2, AGENTS_PER_CORE * cores // max(1, envs_per_agent // 4))
    if envs_per_agent == 1:
        by_cores = max(by_cores, SINGLES_LEAST)
    by_memory = int(min(MEMORY_SHARE * memory / agent_memory, 4096))
    threads = min(THREADS_MOST, max(4, cores // 2))
    return Space(max(1, min(by_cores, by_memory)), threads, threads)
