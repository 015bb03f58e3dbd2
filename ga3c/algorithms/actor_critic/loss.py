"""The loss of GA3C, summed over the batch, with what a user wants to see of it.

It is equation 5 of the paper with equation 2 for the value, and ε in the logarithm of the entropy as well, as the
paper's published code has it: without, a probability of 0 would make it undefined.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ga3c.models.model import Loss


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
    figures = {
        "policy_loss": -policy_gain.detach().sum() / count,
        "value_loss": squared.detach().sum() / count,
        "entropy": entropy.detach().sum() / count,
    }
    return Loss(total, figures)
