"""The actor-critic network: a softmax policy and a linear value on the same hidden layers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.models.network import Head, Network

POLICY_GAIN, VALUE_GAIN = 0.01, 1.0  # a first policy without preferences


class ActorCriticNetwork(Network):
    def __init__(self, name: str, spec: EnvSpec, hidden: int, *, normalize: bool = False) -> None:
        assert isinstance(spec.action, Discrete)
        heads = (Head(spec.action.n, POLICY_GAIN), Head(1, VALUE_GAIN))
        super().__init__(name, spec, hidden, heads, normalize=normalize)

    def forward(self, flat: Tensor, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Policies (n, actions) and values (n)."""
        preferences, values = self.heads(flat, observations)
        return functional.softmax(preferences, dim=1), values.squeeze(1)

    def outputs(self, flat: Tensor, observations: Tensor) -> Tensor:
        preferences, values = self.heads(flat, observations)
        return torch.cat([functional.softmax(preferences, dim=1), values], dim=1)
