"""Sample Factory's asynchronous PPO on EnvPool, which it has wrappers for."""

from __future__ import annotations

import functools
from typing import Any

import envpool
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.actor_critic import create_actor_critic
from sample_factory.model.encoder import Encoder
from sample_factory.train import make_runner
from sf_examples.envpool.envpool_wrappers import EnvPoolResetFixWrapper
from shared import ENVPOOL, FEATURES, arguments, body, count, report, tuned


class Small(Encoder):
    def __init__(self, cfg: Any, _space: Any) -> None:
        super().__init__(cfg)
        self.body = body()

    def forward(self, observations: Any) -> Any:
        return self.body(observations["obs"])

    def get_out_size(self) -> int:
        return FEATURES


class Report(AlgoObserver):
    """After each batch: the steps that the learner trained on."""

    parameters = 0

    def on_training_step(self, runner: Runner, _iteration: int) -> None:
        if not self.parameters:
            model = create_actor_critic(runner.cfg, runner.env_info.obs_space, runner.env_info.action_space)
            self.parameters = count(model.parameters())
        report(runner.env_steps.get(0, 0), self.parameters)


def make(envs: int, threads: int, game: str, _cfg: Any, _env_config: Any, render_mode: str | None = None) -> Any:
    env = envpool.make(
        game,
        num_envs=envs,
        num_threads=threads,
        **ENVPOOL,
    )
    env.closed = (
        True  # else its close() asks Gymnasium's, and that of Sample Factory's release knows less than it wants
    )
    env = EnvPoolResetFixWrapper(env)
    env.num_agents = envs
    return env


def main() -> None:
    given = arguments()
    # Steps/s in turn on two cores that others used as well (2026-11): 772 with these settings, 648 with two threads of
    # EnvPool, 581 with 32 environments and batches of 1,024, 536 and 585 with two workers.
    settings = tuned(given, workers=1, splits=2, envs=16, rollout=16, batch=256, env_threads=1)

    game = f"{given.game}-v5"
    # Its processes get this by pickle, so it is no function within this one.
    register_env(game, functools.partial(make, settings.envs, settings.env_threads))
    global_model_factory().register_encoder_factory(Small)
    words = {
        "env": game,
        "device": "cpu",
        "num_workers": settings.workers,
        "num_envs_per_worker": settings.splits,
        "worker_num_splits": settings.splits,
        "batched_sampling": True,
        "async_rl": True,
        "rollout": settings.rollout,
        "batch_size": settings.batch,
        "num_batches_per_epoch": 1,
        "num_epochs": 1,
        "use_rnn": False,
        "recurrence": 1,
        "nonlinearity": "relu",
        "obs_scale": 255.0,
        "normalize_input": False,
        "normalize_returns": False,
        "summaries_use_frameskip": False,  # steps are counted, not frames
        "save_every_sec": 10**6,
        "save_best_every_sec": 10**6,
    }
    parser, _ = parse_sf_args([f"--{key}={value}" for key, value in words.items()])
    _, runner = make_runner(parse_full_cfg(parser, [f"--{key}={value}" for key, value in words.items()]))
    runner.register_observer(Report())
    runner.init()
    runner.run()


if __name__ == "__main__":
    main()
