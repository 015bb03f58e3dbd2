"""DQN in one file in the manner of CleanRL, written for this comparison, but on EnvPool, which is faster.

CleanRL's own script is not on the package index. Like it, this keeps observations and next observations as arrays,
draws with numpy, and makes an update for 4 steps: the Nature network, batches of 32, Adam, a target network.
"""

from __future__ import annotations

import copy

import envpool
import numpy as np
import torch
from shared import ENVPOOL, arguments, count, report, tuned
from torch import nn

CAPACITY, START, BATCH, PERIOD, TARGET_PERIOD, DISCOUNT, EPSILON = 10_000, 1_000, 32, 4, 1_000, 0.99, 0.02


def q_network(actions: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, actions),
    )


def main() -> None:
    given = arguments()
    settings = tuned(given, envs=4, threads=given.cores, env_threads=given.cores)
    torch.set_num_threads(settings.threads)
    envs = envpool.make(f"{given.game}-v5", num_envs=settings.envs, num_threads=settings.env_threads, **ENVPOOL)
    actions_of, random = int(envs.action_space.n), np.random.default_rng(0)
    online = q_network(actions_of)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    observations = np.zeros((CAPACITY, 4, 84, 84), dtype=np.uint8)
    following = np.zeros_like(observations)
    actions, rewards, ends = (
        np.zeros(CAPACITY, np.int64),
        np.zeros(CAPACITY, np.float32),
        np.zeros(CAPACITY, np.float32),
    )
    now, over = envs.reset()[0], np.zeros(settings.envs, dtype=bool)
    stored = steps = trained = renewed = 0
    while True:
        with torch.no_grad():
            chosen = online(torch.from_numpy(now) / 255.0).argmax(dim=1).numpy()
        by_chance = random.random(settings.envs) < EPSILON
        chosen = np.where(by_chance, random.integers(actions_of, size=settings.envs), chosen)
        played, reward, terminated, truncated, _ = envs.step(chosen)
        for env in np.flatnonzero(~over):  # the step after an end only resets
            place = stored % CAPACITY
            observations[place], following[place] = now[env], played[env]
            actions[place], rewards[place], ends[place] = chosen[env], reward[env], terminated[env]
            stored += 1
        steps += int((~over).sum())
        now, over = played, terminated | truncated
        if steps < START:
            trained = steps
            continue
        while trained + PERIOD <= steps:
            drawn = random.integers(min(stored, CAPACITY), size=BATCH)
            seen, reached = torch.from_numpy(observations[drawn]) / 255.0, torch.from_numpy(following[drawn]) / 255.0
            with torch.no_grad():
                best = target(reached).max(dim=1).values
            wanted = torch.from_numpy(rewards[drawn]) + DISCOUNT * best * (1 - torch.from_numpy(ends[drawn]))
            values = online(seen).gather(1, torch.from_numpy(actions[drawn])[:, None]).squeeze(1)
            loss = nn.functional.mse_loss(wanted, values)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trained += PERIOD
        if steps - renewed >= TARGET_PERIOD:
            target.load_state_dict(online.state_dict())
            renewed = steps
        report(steps, count(online.parameters()))


if __name__ == "__main__":
    main()
