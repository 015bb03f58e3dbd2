"""The loss of GA3C (equation 5 of the paper), summed over the batch, with what a user wants to see of it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Loss(NamedTuple):
    """The total to descend, and its parts as means per sample (detached)."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor


def actor_critic_loss(
    policies: Tensor,
    values: Tensor,
    actions: Tensor,
    returns: Tensor,
    advantages: Tensor | None = None,
    *,
    beta: float,
    log_epsilon: float,
    value_cost: float,
) -> Loss:
    """−Σ [log(π(a|s) + ε)·A + β·H] + c·Σ (R − V)², where A is a constant: R − V, unless another is given."""
    errors = returns - values
    chosen = policies.gather(1, actions[:, None]).squeeze(1)
    policy_gain = torch.log(chosen + log_epsilon) * (errors.detach() if advantages is None else advantages)
    entropy = -(policies * torch.log(policies + log_epsilon)).sum(dim=1)
    squared = errors.square()
    total = (value_cost * squared - policy_gain - beta * entropy).sum()
    count = len(values)
    return Loss(
        total, -policy_gain.detach().sum() / count, squared.detach().sum() / count, entropy.detach().sum() / count
    )
