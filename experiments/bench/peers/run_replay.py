"""Our replay memory and priorities, Stable-Baselines3's memory and cpprb, in turn, in one process and one thread.

It runs where the peers are installed; of ours it imports ``ga3c.memory`` only. A line of JSON is the result: times of
the thread's own CPU, in µs, the median of all repeats and the lower quartile, which other work on the machine changes
less.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from cpprb import PrioritizedReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.priorities import Priorities
from ga3c.memory.ring import Replay

SIDE, STACK = 84, 4
BATCHES = (32, 512)
DRAWN, ADDED = 512, 50  # of a turn with priorities

Part = Callable[[], Any]


def filled(steps: int) -> Replay:
    """Of 8 environments, whose runs of 20 steps come in turn; episodes take 980 steps."""
    replay = Replay(EnvSpec((SIDE, SIDE), STACK, "uint8", Discrete(6)), steps)
    frames = np.random.default_rng(0).integers(0, 256, (1_003, SIDE, SIDE)).astype(np.uint8)
    frames[: STACK - 1] = 0
    actions, rewards = np.zeros(20, dtype=np.int32), np.zeros(20)
    for turn in range(steps // 20 + 500):
        start = turn // 8 % 49 * 20
        run = frames[start : start + 23]
        replay.add(turn % 8, run, actions, rewards, terminated=start == 960, truncated=False)
    replay.flush()
    return replay


def filled_sb3(steps: int) -> ReplayBuffer:
    space = gymnasium.spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
    buffer = ReplayBuffer(
        steps,
        space,
        gymnasium.spaces.Discrete(6),
        device="cpu",
        optimize_memory_usage=True,
        handle_timeout_termination=False,
    )
    stacks = np.random.default_rng(0).integers(0, 256, (500, *space.shape)).astype(np.uint8)
    for start in range(0, steps, len(stacks)):
        room = buffer.observations[start : start + len(stacks), 0]
        room[:] = stacks[: len(room)]
    buffer.full, buffer.pos = True, steps // 3
    return buffer


def drawing(steps: int) -> dict[str, Part]:
    replay, buffer = filled(steps), filled_sb3(steps)
    generator = torch.Generator().manual_seed(0)

    def turned(count: int) -> tuple[torch.Tensor, ...]:
        samples = buffer.sample(count)
        both = (samples.observations, samples.next_observations)
        return tuple(stack.contiguous(memory_format=torch.channels_last) for stack in both)

    parts: dict[str, Part] = {}
    for count in BATCHES:
        parts[f"draw {count}, ours"] = lambda count=count: replay.sample(count, generator)
        parts[f"draw {count}, sb3"] = lambda count=count: buffer.sample(count)
        parts[f"draw {count}, sb3 turned"] = lambda count=count: turned(count)
    return parts


def prioritizing(entries: int) -> dict[str, Part]:
    rng = np.random.default_rng(0)
    priorities = rng.gamma(0.5, size=entries) + 0.001
    ours = Priorities(entries, alpha=0.6)
    ours.add(torch.arange(entries), torch.from_numpy(priorities))
    theirs = PrioritizedReplayBuffer(entries, {"action": {"dtype": np.int32}}, alpha=0.6)
    for start in range(0, entries, 100_000):
        some = priorities[start : start + 100_000]
        theirs.add(action=np.zeros(len(some), dtype=np.int32), priorities=some)
    generator = torch.Generator().manual_seed(0)
    state: dict[str, Any] = {"next": entries}
    pool = rng.gamma(0.5, size=1_000_000) + 0.001

    def fresh(count: int) -> np.ndarray:
        start = int(rng.integers(len(pool) - count))
        return pool[start : start + count]

    def ours_turn() -> None:
        drawn = ours.draw(DRAWN, generator, beta=0.4)
        ours.update(drawn.numbers, torch.from_numpy(fresh(DRAWN)))
        ours.add(torch.arange(state["next"], state["next"] + ADDED), torch.from_numpy(fresh(ADDED)))
        state["next"] += ADDED

    actions = np.zeros(ADDED, dtype=np.int32)

    def their_turn() -> None:
        drawn = theirs.sample(DRAWN, beta=0.4)
        theirs.update_priorities(drawn["indexes"], fresh(DRAWN))
        theirs.add(action=actions, priorities=fresh(ADDED))

    return {"priorities, ours": ours_turn, "priorities, cpprb": their_turn}


def measure(parts: dict[str, Part], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in parts}
    for repeat in range(repeats + 3):
        for name, part in parts.items():
            begin = time.thread_time()
            part()
            if repeat >= 3:
                times[name].append(1e6 * (time.thread_time() - begin))
    return {name: [float(np.median(found)), float(np.percentile(found, 25))] for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("entries", type=int)
    parser.add_argument("repeats", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    result = measure(drawing(given.steps), given.repeats)
    result |= measure(prioritizing(given.entries), 4 * given.repeats)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
