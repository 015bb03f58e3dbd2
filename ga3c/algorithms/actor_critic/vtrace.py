"""V-trace: targets and advantages for steps that another version of the model played.

Equations 3 to 9 in the appendix of Dalton et al. 2019 (CuLE), after Espeholt et al. 2018 (IMPALA). On-policy, with
ρ̄ = c̄ = 1, the targets are the n-step returns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ga3c.models.batches import on_device


class Targets(NamedTuple):
    values: np.ndarray  # (n,): v_t, what V(s_t) is drawn to
    advantages: np.ndarray  # (n,): ρ_t·(r_t + γ·v_{t+1} − V(s_t)), what log π(a_t|s_t) is weighted with


def vtrace(
    *,
    ratios: np.ndarray,
    rewards: np.ndarray,
    values: np.ndarray,
    lengths: np.ndarray,
    following: np.ndarray,
    discount: float,
    rho_bar: float,
    c_bar: float,
) -> Targets:
    """Of experiences that stand one after the other.

    ``ratios`` π(a|s) / μ(a|s), ``rewards`` and ``values`` V(s) are of each step; ``lengths`` (steps) and ``following``
    (the value of what the last step reached, 0 where that ended the episode) are of each experience.
    """
    # One row for each experience, all ending in the last column: so one loop over time serves them all, and what stands
    # in front of a short one comes after it.
    longest = int(lengths.max())
    there = np.arange(longest) >= longest - lengths[:, None]
    rho, c, reward, value = np.zeros((4, *there.shape))
    rho[there] = np.minimum(ratios, rho_bar)
    c[there] = np.minimum(ratios, c_bar)
    reward[there] = rewards
    value[there] = values
    target, advantage = found = np.empty((2, *there.shape))
    _work_back(found, rho, c, reward, value, following.astype(np.float64), discount)
    return Targets(target[there], advantage[there])


def vtrace_on_device(
    *,
    ratios: Tensor,
    rewards: Tensor,
    values: Tensor,
    lengths: np.ndarray,
    following: Tensor,
    discount: float,
    rho_bar: float,
    c_bar: float,
) -> tuple[Tensor, Tensor]:
    """The same in torch, where all numbers but the lengths are on a device: there they stay, and nobody waits."""
    device = values.device
    kind = torch.float32 if device.type == "mps" else torch.float64  # MPS has no other
    longest = int(lengths.max())
    there = np.flatnonzero(np.arange(longest) >= longest - lengths[:, None])
    places = on_device(there, device)

    def rows(numbers: Tensor) -> Tensor:
        flat = torch.zeros(len(lengths) * longest, dtype=kind, device=device)
        return flat.index_copy(0, places, numbers.detach().to(kind)).view(len(lengths), longest)

    rho, c = rows(ratios.clamp(max=rho_bar)), rows(ratios.clamp(max=c_bar))
    reward, value = rows(rewards), rows(values)
    target, advantage = found = torch.empty((2, *value.shape), dtype=kind, device=device)
    _work_back(found, rho, c, reward, value, following.to(kind), discount)
    return target.flatten()[places].float(), advantage.flatten()[places].float()


def _work_back(found: Any, rho: Any, c: Any, reward: Any, value: Any, following: Any, discount: float) -> None:
    """Find targets and advantages of all rows, from the last column on; numpy's arrays and torch's tensors alike."""
    target, advantage = found
    next_value = next_target = following
    for t in range(value.shape[1] - 1, -1, -1):
        advantage[:, t] = rho[:, t] * (reward[:, t] + discount * next_target - value[:, t])
        error = rho[:, t] * (reward[:, t] + discount * next_value - value[:, t])
        target[:, t] = value[:, t] + error + discount * c[:, t] * (next_target - next_value)
        next_value, next_target = value[:, t], target[:, t]
