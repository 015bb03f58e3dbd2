"""Stable-Baselines3's DQN on its own Atari wrappers: the Nature network, batches of 32, an update for 4 steps."""

from __future__ import annotations

import ale_py
import gymnasium
import torch
from shared import arguments, count, report, tuned
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

gymnasium.register_envs(ale_py)
START = 1_000  # steps before training begins


class Report(BaseCallback):
    """At the start of a rollout all steps so far have been trained on, as often as they are."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps > START:
            report(self.num_timesteps, count(self.model.q_net.parameters()))


def main() -> None:
    given = arguments()
    # As many environments as steps for each update, so that a prediction is of all of them; in processes they would
    # take the cores from torch, for steps that are a tenth of an update.
    settings = tuned(given, envs=4, processes=0, threads=given.cores)
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
    model = DQN(
        "CnnPolicy",
        envs,
        learning_rate=1e-4,
        buffer_size=10_000,
        learning_starts=START,
        batch_size=32,
        train_freq=max(4 // settings.envs, 1),  # in steps of all environments
        gradient_steps=max(settings.envs // 4, 1),
        target_update_interval=1_000,
        exploration_initial_eps=0.02,
        exploration_final_eps=0.02,
        device="cpu",
    )
    model.learn(10**9, callback=Report(), log_interval=None)


if __name__ == "__main__":
    main()
