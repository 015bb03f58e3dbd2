"""An environment played by chance, as agents play it: what that measures, and which settings follow from it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ga3c.games import gym
from ga3c.games.inspection import MIND, OK, Beat, Finding
from ga3c.games.make import backend_of, make_games
from ga3c.games.spec import Discrete, EnvSpec, Finished
from ga3c.settings.groups import FleetSettings, GameSettings, LearningSettings
from ga3c.system.limits import resident_memory

TOGETHER = 4  # environments that are played in step
TURN_SECONDS = 2e-3  # that the environments of an agent are to play in a turn, so that messages are a small part of it
MOST_ENVS = 32
HARDLY_ANY, RARE, ALWAYS = 0.005, 0.05, 0.9  # shares of the steps that have a reward
SMALL_REWARD = 0.05
LONG = 400  # steps of a game; with the usual discount, a reward counts little a few hundred steps before it
SLOW = 0.3  # of STALL_SECONDS


@dataclass
class Measured:
    spec: EnvSpec
    memory: float  # bytes of each environment
    making: float  # seconds of each
    seconds: float = 0.0
    slowest: float = 0.0  # seconds of a turn of one environment
    rewards: list[float] = field(default_factory=list)  # of each step
    finished: list[Finished] = field(default_factory=list)
    terminated: int = 0
    truncated: int = 0

    @property
    def speed(self) -> float:
        """Steps per second on a core."""
        return len(self.rewards) / max(self.seconds, 1e-9)

    @property
    def lengths(self) -> list[int]:
        return [game.steps for game in self.finished]


def measure(config: GameSettings, steps: int, seconds: float, beat: Beat) -> Measured:
    """Play so many steps, for at most so long."""
    beat("making it")
    make_games(config, 1).close()  # what all environments share is in memory from here on
    before, started = resident_memory(os.getpid()), time.monotonic()
    games = make_games(config, TOGETHER)
    making = (time.monotonic() - started) / TOGETHER
    beat("reset")
    games.reset(config.seed)
    memory = max(resident_memory(os.getpid()) - before, 0.0) / TOGETHER
    measured = Measured(games.spec, memory, making)
    action = games.spec.action
    assert isinstance(action, Discrete)
    random = np.random.default_rng(config.seed)
    started = before_step = time.monotonic()
    while len(measured.rewards) < steps and before_step - started < seconds:
        beat("step")
        played = games.step(random.integers(action.n, size=TOGETHER))
        now = time.monotonic()
        measured.slowest = max(measured.slowest, (now - before_step) / TOGETHER)
        measured.rewards += played.rewards[played.real].tolist()
        measured.finished += played.finished
        measured.terminated += int(played.terminated.sum())
        measured.truncated += int(played.truncated.sum())
        before_step = now
    measured.seconds = before_step - started
    games.close()
    return measured


class Advice:
    """What the measurements say: a finding of each kind, and the settings that fit, beside those that are usual."""

    def __init__(self, config: GameSettings, measured: Measured, limit: int | None) -> None:
        """``limit``: the steps after which a game is truncated, where that is known."""
        self._config = config
        self._measured = measured
        self._limit = limit
        self.settings: dict[str, str] = {}

    def findings(self) -> Iterator[Finding]:
        for look in (self._observations, self._speed, self._episodes, self._rewards, self._discount):
            yield from look()

    def _observations(self) -> Iterator[Finding]:
        spec = self._measured.spec
        for remark in spec.remarks:
            yield Finding(MIND, "game", remark.partition(": ")[2])
        shape = "×".join(map(str, spec.frame))
        if not spec.is_image:
            text = f"{shape} number{'s' if spec.frame[0] > 1 else ''}: NETWORK=mlp"
        elif spec.is_small:
            text = f"an image of {shape}, taken as it is: NETWORK=tiny"
        else:
            color = "" if len(spec.frame) == 3 or self._config.color else "; COLOR=1 keeps colours, where there are any"
            text = f"images of {shape}, {spec.stack} of them stacked: NETWORK=small{color}"
        yield Finding(OK, "network", text)

    def _speed(self) -> Iterator[Finding]:
        measured = self._measured
        text = (
            f"{measured.speed:,.0f} steps/s on a core, {measured.memory / 1e6:.1f} MB and {measured.making:.2g} s each"
        )
        if backend_of(self._config.game) is gym:  # others know by themselves how many are best
            power = round(np.log2(max(measured.speed * TURN_SECONDS, 1)))
            envs = min(max(2**power, gym.USUAL_ENVS), MOST_ENVS)
            text += f": ENVS_PER_AGENT={envs}"
            self.settings["ENVS_PER_AGENT"] = str(envs)
        yield Finding(OK, "speed", text)
        stall = FleetSettings.stall_seconds
        if measured.slowest > SLOW * stall:
            wanted = round(10 * measured.slowest)
            yield Finding(MIND, "speed", f"a step took {measured.slowest:.1f} s: STALL_SECONDS={wanted}")
            self.settings["STALL_SECONDS"] = str(wanted)

    def _episodes(self) -> Iterator[Finding]:
        measured, lengths = self._measured, self._measured.lengths
        if not lengths:
            text = f"none ended within {len(measured.rewards):,} steps"
            if self._limit:
                yield Finding(OK, "games", f"{text}; they are truncated after {self._limit:,}")
            else:
                cut = """ENV_ARGS='{"max_episode_steps": 1000}'"""
                yield Finding(MIND, "games", f"{text}: if they may go on for ever, {cut} truncates them")
            return
        ends = f"{measured.terminated} terminated, {measured.truncated} truncated"
        scores = [game.score for game in measured.finished]
        text = f"{len(lengths)} ended ({ends}) after {min(lengths)} to {max(lengths)} steps"
        yield Finding(OK, "games", f"{text}; played by chance they scored {np.mean(scores):.3g} ± {np.std(scores):.2g}")
        if len(lengths) > 2 and min(lengths) == max(lengths) and not measured.truncated:
            text = f"all were terminated after {lengths[0]} steps: a time limit is to be told as truncated"
            yield Finding(MIND, "games", text)

    def _rewards(self) -> Iterator[Finding]:
        rewards = np.array(self._measured.rewards)
        given = rewards[rewards != 0]
        if not len(given):
            yield Finding(MIND, "rewards", "all were 0: learning begins when play by chance meets the first one")
            return
        sizes = np.abs(given)
        share = len(given) / len(rewards)
        text = f"{given.min():g} to {given.max():g}, in {100 * share:.3g} % of the steps"
        if share > ALWAYS and np.allclose(sizes, sizes[0]):
            yield Finding(OK, "rewards", f"{text}: REWARD_CLIP=0.1 keeps the values small")
            self.settings["REWARD_CLIP"] = "0.1"
        elif sizes.max() > 1 and not np.allclose(sizes, sizes[0]):
            cut = float((sizes > 1).mean())
            text += f"; {100 * cut:.3g} % of these are beyond ±1 and count as 1, which REWARD_CLIP=0 turns off"
            yield Finding(MIND if cut > RARE else OK, "rewards", text)
        elif share < HARDLY_ANY:
            yield Finding(OK, "rewards", f"{text}: BETA=0.01 keeps all actions alive until they are met often")
            self.settings["BETA"] = "0.01"
        elif sizes.max() < SMALL_REWARD:
            yield Finding(MIND, "rewards", f"{text}: small beside the entropy bonus, so multiply them")
        else:
            yield Finding(OK, "rewards", text)

    def _discount(self) -> Iterator[Finding]:
        rewards, lengths = np.array(self._measured.rewards), self._measured.lengths
        if not lengths or np.mean(lengths) < LONG or (rewards != 0).mean() > RARE:
            return
        discount = min(round(1 - 4 / float(np.mean(lengths)), 3), 0.999)
        if discount > LearningSettings.discount:
            yield Finding(OK, "discount", f"games are long and rewards rare: DISCOUNT={discount}")
            self.settings["DISCOUNT"] = str(discount)
