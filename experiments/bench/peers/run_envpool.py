"""A2C on EnvPool's asynchronous mode, written for this comparison: what EnvPool allows beyond stepping together.

Twice as many environments play as are predicted at a time, so EnvPool's threads play one part while the model predicts
for, and trains on, the other. Each environment's rollout is trained on once, together with those that end beside it.
"""

from __future__ import annotations

import envpool
import torch
from shared import ENVPOOL, ActorCritic, arguments, count, report, tuned
from torch import nn

DISCOUNT, ENTROPY, VALUE, NORM = 0.99, 0.01, 0.5, 0.5


def main() -> None:
    given = arguments()
    # Steps/s of two interleaved rounds on two cores that others used as well (2026-11): 547 and 660 with these
    # settings, 493 and 637 with 64 environments, 253 and 309 with 64 and one thread of torch. n_steps=5 had 1,059
    # steps per two CPU-seconds where n_steps=20 had 1,399.
    settings = tuned(given, envs=32, n_steps=20, threads=given.cores, env_threads=given.cores)
    torch.set_num_threads(settings.threads)
    envs = envpool.make(
        f"{given.game}-v5",
        num_envs=settings.envs,
        batch_size=settings.envs // 2,
        num_threads=settings.env_threads,
        **ENVPOOL,
    )
    model = ActorCritic(int(envs.action_space.n))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4, eps=1e-5)
    shape = (settings.envs, settings.n_steps)
    observations = torch.zeros((*shape, 4, 84, 84), dtype=torch.uint8)
    actions = torch.zeros(shape, dtype=torch.int64)
    rewards, ends = torch.zeros(shape), torch.zeros(shape)
    filled = torch.full((settings.envs,), -1)  # steps of each environment's rollout; -1 before its first observation
    steps = 0
    envs.async_reset()
    while True:
        played, reward, terminated, truncated, info = envs.recv()
        who, now = torch.from_numpy(info["env_id"]).long(), torch.from_numpy(played)
        begun = filled[who] >= 0
        rewards[who[begun], filled[who[begun]]] = torch.from_numpy(reward)[begun]
        ends[who[begun], filled[who[begun]]] = torch.from_numpy(terminated | truncated).float()[begun]
        filled[who] += 1
        ended = filled[who] == settings.n_steps
        full = who[ended]
        filled[full] = 0
        with torch.no_grad():
            policy, values = model(now)
            chosen = policy.sample()
        envs.send(chosen.numpy(), info["env_id"])
        if len(full):
            returns, following = torch.zeros(len(full), settings.n_steps), values[ended]
            for step in reversed(range(settings.n_steps)):
                following = rewards[full, step] + DISCOUNT * following * (1 - ends[full, step])
                returns[:, step] = following
            policy, value = model(observations[full].flatten(0, 1))
            gain = returns.flatten() - value
            loss = -(policy.log_prob(actions[full].flatten()) * gain.detach()).mean()
            loss += VALUE * gain.square().mean() - ENTROPY * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), NORM)
            optimizer.step()
            steps += returns.numel()
            report(steps, count(model.parameters()))
        observations[who, filled[who]], actions[who, filled[who]] = now, chosen


if __name__ == "__main__":
    main()
