"""PPO in one file on EnvPool, in the manner of CleanRL, written for this comparison.

CleanRL's own scripts are not on the package index: its package there is from 2021 and has none for EnvPool. This does
what such a script does: N environments in step, a rollout of T steps, GAE, then minibatches with Adam; one epoch.
"""

from __future__ import annotations

import envpool
import torch
from shared import ENVPOOL, ActorCritic, arguments, count, report, tuned
from torch import nn

DISCOUNT, LAMBDA, CLIP, ENTROPY, VALUE, NORM = 0.99, 0.95, 0.1, 0.01, 0.5, 0.5


def main() -> None:
    given = arguments()
    # Steps per two CPU-seconds on two cores that others used as well (2026-11), so only large differences count:
    # 1,050, 1,201 and 1,272 with these settings; 990 and 1,245 (twice) with 16 environments of 64 steps; 1,374 with 64
    # of 16. On cores that were nearly idle these had 997 steps/s.
    settings = tuned(given, envs=32, n_steps=32, minibatches=4, threads=given.cores, env_threads=given.cores)
    torch.set_num_threads(settings.threads)
    envs = envpool.make(
        f"{given.game}-v5",
        num_envs=settings.envs,
        num_threads=settings.env_threads,
        **ENVPOOL,
    )
    model = ActorCritic(int(envs.action_space.n))
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4, eps=1e-5)
    shape = (settings.n_steps, settings.envs)
    observations = torch.zeros((*shape, 4, 84, 84), dtype=torch.uint8)
    actions = torch.zeros(shape, dtype=torch.int64)
    chances, rewards, ends, values, advantages = (torch.zeros(shape) for _ in range(5))
    batch, now, steps = settings.envs * settings.n_steps, torch.from_numpy(envs.reset()[0]), 0
    while True:
        for step in range(settings.n_steps):
            observations[step] = now
            with torch.no_grad():
                policy, values[step] = model(now)
                actions[step] = policy.sample()
                chances[step] = policy.log_prob(actions[step])
            played, reward, terminated, truncated, _ = envs.step(actions[step].numpy())
            now, rewards[step] = torch.from_numpy(played), torch.from_numpy(reward)
            ends[step] = torch.from_numpy(terminated | truncated)
        with torch.no_grad():
            following, advantage = model(now)[1], torch.zeros(settings.envs)
            for step in reversed(range(settings.n_steps)):
                goes_on = 1 - ends[step]
                change = rewards[step] + DISCOUNT * following * goes_on - values[step]
                advantage = change + DISCOUNT * LAMBDA * goes_on * advantage
                advantages[step], following = advantage, values[step]
        samples = [observations.flatten(0, 1)]
        samples += [each.flatten() for each in (actions, chances, advantages, advantages + values)]
        for chosen in torch.randperm(batch).chunk(settings.minibatches):
            seen, done, before, gain, target = (each[chosen] for each in samples)
            policy, value = model(seen)
            ratio = (policy.log_prob(done) - before).exp()
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            loss = torch.max(-gain * ratio, -gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            loss += VALUE * (value - target).square().mean() - ENTROPY * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), NORM)
            optimizer.step()
        steps += batch
        report(steps, count(model.parameters()))


if __name__ == "__main__":
    main()
