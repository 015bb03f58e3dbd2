"""Our training against a plain DQN: the same minibatches in, the same weights out."""

import numpy as np
import pytest
import torch

from ga3c.algorithms.rule import make_learning
from ga3c.engines.trainer import BadUpdates, Trainer
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.models.model import Model
from ga3c.settings.config import Resolved
from tests.helpers.plain_dqn import CenteredRMSProp, PlainDQN, QNetwork, Transition

SPEC = EnvSpec(frame=(3,), stack=2, dtype="float32", action=Discrete(4))
HIDDEN, BATCH, RATE = 16, 8, 0.01
PLAIN = {"double": False, "dueling": False, "n_step": 1, "huber": True, "optimizer": "adam"}


class Noted:
    """Experiences of random play, and the transitions that there are in them, in the order of their numbers."""

    def __init__(self, n_step, episodes=20):
        random = np.random.default_rng(5)
        self.experiences, self.transitions = [], []
        for episode in range(episodes):
            steps = int(random.integers(1, 9))
            terminated = bool(episode % 2)
            frames = random.normal(size=(SPEC.stack + steps, *SPEC.frame)).astype(np.float32)
            frames[: SPEC.stack - 1] = 0.0
            actions = random.integers(SPEC.action.n, size=steps).astype(np.int32)
            rewards = random.choice([-1.0, 0.0, 1.0], size=steps).astype(np.float32)
            fields = {"actions": actions, "rewards": rewards}
            ends = {"terminated": terminated, "truncated": not terminated}
            self.experiences.append(Experience(0, 0, sum(e.steps for e in self.experiences), 0, frames, fields, **ends))
            seen = [torch.from_numpy(frames[step : step + SPEC.stack]) for step in range(steps + 1)]
            for step in range(steps):
                end = min(step + n_step, steps)
                following = None if terminated and step + n_step >= steps else seen[end]
                window = rewards[step:end].tolist()
                self.transitions.append(Transition(seen[step], int(actions[step]), window, following))


def plain_of(config, network, weights):
    """The plain network with these weights, and its optimizer."""
    plain = QNetwork(SPEC.stack * SPEC.frame[0], HIDDEN, SPEC.action.n, config.dueling)
    for layer, (weight, bias) in zip(plain.children(), network.unflatten(weights), strict=True):
        layer.weight.data, layer.bias.data = weight.clone(), bias.clone()
    if config.optimizer == "adam":
        optimizer = torch.optim.Adam(plain.parameters(), lr=RATE, eps=config.adam_epsilon)
    else:
        optimizer = CenteredRMSProp(plain.parameters(), RATE, config.rmsprop_decay, config.rmsprop_epsilon)
    return PlainDQN(
        plain, optimizer, discount=config.discount, double=config.double, huber=config.huber, clip=config.grad_clip
    )


def flat(plain):
    return torch.cat([numbers.detach().flatten() for numbers in plain.network.parameters()])


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"double": True},
        {"dueling": True},
        {"n_step": 3},
        {"huber": False},
        {"optimizer": "centered", "rmsprop_decay": 0.95, "rmsprop_epsilon": 0.01, "rmsprop_initial": 0.0},
        {"grad_clip": 0.05},
        {"double": True, "dueling": True, "n_step": 3},  # as by default
    ],
    ids=["plain", "double", "dueling", "3 steps", "squared", "centered", "clipped", "defaults"],
)
def test_the_same_minibatches_give_the_same_weights(changed):
    config = Resolved(
        **{
            "game": "CartPole-v1",
            "algo": "dqn",
            "device": "cpu",
            "hidden": HIDDEN,
            "init": "paper",
            "batch": BATCH,
            "learning_rate": RATE,
            "discount": 0.9,
            "replay_steps": 100,
            "train_period": 1,
            "grad_clip": 0.0,
            **PLAIN,
            **changed,
        }
    )
    played, stats = Noted(config.n_step), Stats()
    learning, memory = make_learning(config, SPEC), make_memory(config, stats)
    model = Model(config, learning.network)
    memory.attach(model)
    trainer = Trainer(config, learning, model, memory, stats, BadUpdates())
    plain = plain_of(config, learning.network, model.version.weights)
    stats.ledger.open(0, 1)
    first = flat(plain)
    torch.testing.assert_close(first, model.version.weights, rtol=0, atol=0)
    memory.add(played.experiences)
    assert memory.hold()
    while (sample := memory.take()) is not None:
        trainer.train(sample)
        plain.update([played.transitions[number] for number in sample.numbers])
        torch.testing.assert_close(model.version.weights, flat(plain), rtol=0, atol=1e-5)
        if model.updates % 20 == 0:
            model.renew_target()
            plain.renew_target()
    assert model.updates == len(played.transitions) > 60
    assert stats.totals.bad_updates == 0
    assert (flat(plain) - first).abs().mean() > 0.01  # so that it means something
