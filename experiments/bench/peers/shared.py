"""What the scripts of the peers share: how they are called, how they report, and the body of the network.

It runs in each peer's own environment, so it imports nothing of this project.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributions import Categorical

FEATURES = 256
# What EnvPool does otherwise than we by default, or did in some release; the rest is its own default.
ENVPOOL = {"env_type": "gymnasium", "reward_clip": True, "episodic_life": False, "repeat_action_probability": 0.0}


def arguments() -> argparse.Namespace:
    """The game, the cores, and KEY=VALUE words that replace a script's own settings, to tune them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("game")
    parser.add_argument("cores", type=int)
    parser.add_argument("settings", nargs="*")
    return parser.parse_args()


def tuned(given: argparse.Namespace, **settings: Any) -> argparse.Namespace:
    """The settings that were fastest here, but for those that the words name."""
    for word in given.settings:
        key, _, value = word.partition("=")
        settings[key] = type(settings[key])(value)
    return argparse.Namespace(**settings)


def report(steps: int, parameters: int) -> None:
    """One line for the bench: steps trained on since the start, and when. It takes the rate between two such lines."""
    print(json.dumps({"steps": steps, "seconds": time.monotonic(), "parameters": parameters}), flush=True)


def count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def body() -> nn.Sequential:
    """NETWORK=small up to its heads, for observations of four 84×84 frames."""
    return nn.Sequential(
        nn.Conv2d(4, 16, 8, 4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 9 * 9, FEATURES),
        nn.ReLU(),
    )


class ActorCritic(nn.Module):
    """NETWORK=small with its heads, for the scripts that are written here."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.body, self.policy, self.value = body(), nn.Linear(FEATURES, actions), nn.Linear(FEATURES, 1)

    def forward(self, observations: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        features = self.body(observations / 255.0)
        return Categorical(logits=self.policy(features)), self.value(features).squeeze(1)
