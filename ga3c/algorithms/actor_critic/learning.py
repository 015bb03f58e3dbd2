"""How actor-critic models learn: one gradient of the loss, corrected by V-trace for the policy lag if asked for."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ga3c.algorithms.actor_critic.loss import actor_critic_loss
from ga3c.algorithms.actor_critic.vtrace import vtrace, vtrace_on_device
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.models.batches import TrainingBatch
from ga3c.models.model import Loss
from ga3c.models.names import network_name
from ga3c.models.network import Head, Network
from ga3c.models.optimizers import linear
from ga3c.settings.config import Resolved

POLICY_GAIN, VALUE_GAIN = 0.01, 1.0  # a first policy without preferences


class ActorCriticNetwork(Network):
    """A softmax policy and a linear value on the same hidden layers."""

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


class Learning:
    def __init__(self, config: Resolved, spec: EnvSpec) -> None:
        self.network = ActorCriticNetwork(network_name(config, spec), spec, config.hidden, normalize=config.normalize)
        self._config = config

    def exploration(self, steps: int) -> None:
        """Actions are drawn from the policy."""

    def loss(self, weights: Tensor, batch: TrainingBatch, steps: int, target: Tensor | None = None) -> Loss:
        config = self._config
        actions = batch.on_device(batch.fields["actions"].astype(np.int64))
        policies, values = self.network.forward(weights, batch.observations)
        returns, advantages = self._targets(weights, policies, values, actions, batch)
        return actor_critic_loss(
            policies,
            values,
            actions,
            returns,
            advantages,
            beta=linear(config.beta, config.beta_end, steps, config.max_steps),
            log_epsilon=config.log_epsilon,
            value_cost=config.value_cost,
        )

    @torch.no_grad()
    def _targets(
        self, weights: Tensor, policies: Tensor, values: Tensor, actions: Tensor, batch: TrainingBatch
    ) -> tuple[Tensor, Tensor | None]:
        """The targets of the values, and the advantages where they are not the difference to these."""
        if batch.reached is None:
            return batch.on_device(batch.fields["returns"]), None
        _, following = self.network.forward(weights, batch.reached)
        chosen = policies.gather(1, actions[:, None]).squeeze(1)
        bounds = {name: getattr(self._config, name) for name in ("discount", "rho_bar", "c_bar")}
        if values.device.type != "cpu":  # nothing leaves the device, or the trainer would wait for it
            return vtrace_on_device(
                ratios=chosen / batch.on_device(batch.fields["chances"]),
                rewards=batch.on_device(batch.fields["rewards"]),
                values=values,
                lengths=batch.lengths,
                following=following.where(~batch.on_device(batch.terminated), 0.0),
                **bounds,
            )
        targets = vtrace(  # a fifth of the time that torch needs for so few numbers
            ratios=chosen.numpy() / batch.fields["chances"],
            rewards=batch.fields["rewards"],
            values=values.detach().numpy(),
            lengths=batch.lengths,
            following=np.where(batch.terminated, 0.0, following.numpy()),
            **bounds,
        )
        returns, advantages = (torch.from_numpy(numbers.astype(np.float32)) for numbers in targets)
        return returns, advantages
