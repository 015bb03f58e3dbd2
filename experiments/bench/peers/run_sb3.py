"""Stable-Baselines3's A2C on its own Atari wrappers."""

from __future__ import annotations

import ale_py
import gymnasium
import torch
from shared import FEATURES, arguments, body, count, report, tuned
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

gymnasium.register_envs(ale_py)


class Small(BaseFeaturesExtractor):
    def __init__(self, observation_space: gymnasium.Space) -> None:
        super().__init__(observation_space, FEATURES)
        self.body = body()

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.body(observations)


class Report(BaseCallback):
    """At the start of a rollout all steps so far have been trained on."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        report(self.num_timesteps, count(self.model.policy.parameters()))


def main() -> None:
    given = arguments()
    # Steps per two CPU-seconds on two cores that others used as well (2026-11), so only large differences count:
    # 741-814 with these settings, 706 and 806 with one thread, 696 and 805 with 32 environments, 659 with 8, 693 and
    # 773 with n_steps=20. DummyVecEnv (processes=0) had 770-1,030, but its environments play on one core only: whether
    # that is faster on cores that are idle is not known.
    settings = tuned(given, envs=16, n_steps=5, processes=1, threads=given.cores)
    torch.set_num_threads(settings.threads)
    envs = VecFrameStack(
        make_atari_env(
            f"{given.game}NoFrameskip-v4",
            n_envs=settings.envs,
            seed=0,
            wrapper_kwargs={"terminal_on_life_loss": False},
            vec_env_cls=SubprocVecEnv if settings.processes else DummyVecEnv,
            vec_env_kwargs={"start_method": "fork"} if settings.processes else None,
        ),
        n_stack=4,
    )
    model = A2C(
        "CnnPolicy",
        envs,
        n_steps=settings.n_steps,
        ent_coef=0.01,
        policy_kwargs={"features_extractor_class": Small, "net_arch": []},
        device="cpu",
    )
    model.learn(10**9, callback=Report(), log_interval=None)


if __name__ == "__main__":
    main()
