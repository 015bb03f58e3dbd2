"""How Q-networks learn: Q(s, a) follows what n steps gave, and what the target network says of where they led."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.drawn import Batch
from ga3c.models.model import Loss
from ga3c.models.names import network_name
from ga3c.models.network import Head, Network
from ga3c.models.optimizers import linear
from ga3c.settings.config import Resolved

Q_GAIN = 0.01  # of the first weights: no preferences


class QNetwork(Network):
    """A Q-value for each action; dueling: a value, and by how much each action differs from the mean of all."""

    def __init__(self, name: str, spec: EnvSpec, hidden: int, *, dueling: bool, normalize: bool) -> None:
        assert isinstance(spec.action, Discrete)
        actions = Head(spec.action.n, Q_GAIN)
        heads = (actions, Head(1, Q_GAIN)) if dueling else (actions,)
        super().__init__(name, spec, hidden, heads, normalize=normalize, streams=len(heads))

    def outputs(self, flat: Tensor, observations: Tensor) -> Tensor:
        first, *value = self.heads(flat, observations)
        return first - first.mean(dim=1, keepdim=True) + value[0] if value else first


class Learning:
    def __init__(self, config: Resolved, spec: EnvSpec) -> None:
        name = network_name(config, spec)
        self.network = QNetwork(name, spec, config.hidden, dueling=config.dueling, normalize=config.normalize)
        self._config = config

    def exploration(self, steps: int) -> float:
        config = self._config
        if steps < config.replay_start:
            return 1.0
        return linear(config.epsilon, config.epsilon_end, steps, config.epsilon_steps)

    def loss(self, weights: Tensor, batch: Batch, steps: int, target: Tensor) -> Loss:
        values = self.network.outputs(weights, batch.observations).gather(1, batch.actions[:, None]).squeeze(1)
        errors = self.targets(weights.detach(), target, batch) - values
        each = functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
        losses = each if self._config.huber else 0.5 * errors.square()
        loss = losses.mean()
        return Loss(loss, {"loss": loss.detach(), "q_mean": values.detach().mean()}, errors.detach())

    @torch.no_grad()
    def targets(self, weights: Tensor, target: Tensor, batch: Batch) -> Tensor:
        """R + γᵏ·Q⁻(s', a*), where a* is the best action by the target network, or with ``double`` by the other one."""
        following = self.network.outputs(target, batch.next_observations)
        chooser = self.network.outputs(weights, batch.next_observations) if self._config.double else following
        best = chooser.argmax(dim=1, keepdim=True)
        return batch.returns + batch.discounts * following.gather(1, best).squeeze(1)
