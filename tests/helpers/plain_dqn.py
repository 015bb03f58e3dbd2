"""DQN as one would write it down to understand it: the plain loop that ours is compared with.

It knows nothing of the project: torch's own layers, autograd, and an optimizer written out in four lines. Transitions
are tuples, the minibatch is a list of them, targets are made one by one in Python.
"""

import copy
import math
from typing import NamedTuple

import torch
from torch import nn


class Transition(NamedTuple):
    observation: torch.Tensor
    action: int
    rewards: list[float]  # of the window: up to n
    following: torch.Tensor | None  # where the window ended; None: the episode terminated in it


class QNetwork(nn.Module):
    """Two hidden layers, and a Q-value for each action: at once, or as a value and advantages."""

    def __init__(self, inputs, hidden, actions, dueling):
        super().__init__()
        self.first, self.second = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
        self.dueling = dueling
        if dueling:
            self.advantage, self.value = nn.Linear(hidden // 2, actions), nn.Linear(hidden // 2, 1)
        else:
            self.q = nn.Linear(hidden, actions)

    def forward(self, observations):
        x = torch.relu(self.first(observations.flatten(1)))
        x = torch.relu(self.second(x))
        if not self.dueling:
            return self.q(x)
        half = x.shape[1] // 2
        advantages, values = self.advantage(x[:, :half]), self.value(x[:, half:])
        return values + (advantages - advantages.mean(dim=1, keepdim=True))


class CenteredRMSProp:
    """Of Mnih et al. 2015, with ε inside the root; torch's has it beside."""

    def __init__(self, parameters, rate, decay, epsilon):
        self.parameters, self.rate, self.decay, self.epsilon = list(parameters), rate, decay, epsilon
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]

    @torch.no_grad()
    def step(self):
        for weights, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            mean.copy_(self.decay * mean + (1 - self.decay) * weights.grad)
            square.copy_(self.decay * square + (1 - self.decay) * weights.grad**2)
            weights.sub_(self.rate * weights.grad / torch.sqrt(square - mean**2 + self.epsilon))


class PlainDQN:
    def __init__(self, network, optimizer, *, discount, double, huber, clip):
        self.network, self.optimizer = network, optimizer
        self.discount, self.double, self.huber, self.clip = discount, double, huber, clip
        self.renew_target()

    def renew_target(self):
        self.target = copy.deepcopy(self.network)

    @torch.no_grad()
    def target_of(self, transition):
        rewards = transition.rewards
        value = sum(self.discount**i * reward for i, reward in enumerate(rewards))
        if transition.following is None:
            return value
        following = transition.following[None]
        by_target = self.target(following)[0]
        chooser = self.network(following)[0] if self.double else by_target
        return value + self.discount ** len(rewards) * by_target[chooser.argmax()].item()

    def update(self, minibatch):
        """One step; returns the loss."""
        wanted = torch.tensor([self.target_of(transition) for transition in minibatch])
        values = self.network(torch.stack([transition.observation for transition in minibatch]))
        taken = values[torch.arange(len(minibatch)), [transition.action for transition in minibatch]]
        losses = (nn.SmoothL1Loss if self.huber else nn.MSELoss)(reduction="none")(taken, wanted)
        loss = losses.mean() if self.huber else losses.mean() / 2
        self.network.zero_grad()
        loss.backward()
        if self.clip:
            norm = math.sqrt(sum(parameter.grad.square().sum().item() for parameter in self.network.parameters()))
            for parameter in self.network.parameters():
                parameter.grad *= min(self.clip / norm, 1.0)
        self.optimizer.step()
        return loss.item()
