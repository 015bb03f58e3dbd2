"""Q-learning against numbers derived by hand.

Most tests have γ = ½, and Q-values that stand in a table: a row for each state, a column for each of two actions.

    state   online Q    best    target Q⁻    best
      0     ( 1,  2)     1      ( 3,  5)      1
      1     ( 4,  3)     0      (10, 20)      1
      2     ( 0,  6)     1      (30,  8)      0
      3     ( 5,  1)     0      ( 7,  9)      1
"""

import numpy as np
import pytest
import torch

from ga3c.algorithms.q_learning.acting import Acting
from ga3c.algorithms.q_learning.learning import Learning
from ga3c.algorithms.rule import with_exploration
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.ring import Batch, Replay
from ga3c.settings.config import Resolved

SPEC = EnvSpec(frame=(1,), stack=1, dtype="float32", action=Discrete(2))  # an observation is the number of a state
ONLINE = torch.tensor([1.0, 2, 4, 3, 0, 6, 5, 1])
TARGET = torch.tensor([3.0, 5, 10, 20, 30, 8, 7, 9])


class Table:
    """Instead of a network: its weights are the Q-values."""

    def outputs(self, weights, observations):
        return weights.view(-1, 2)[observations.flatten().long()]


def learning_by_table(**settings):
    learning = Learning(Resolved(**{"game": "CartPole-v1", "algo": "dqn", "network": "mlp", **settings}), SPEC)
    learning.network = Table()
    return learning


def batch(*rows):
    """Of (state, action, return, discount, next state)."""
    states, actions, returns, discounts, following = zip(*rows, strict=True)

    def observations(numbers):
        return torch.tensor(numbers, dtype=torch.float32).view(-1, 1, 1)

    numbers = torch.arange(len(rows))
    discounts = torch.tensor(discounts, dtype=torch.float32)
    returns = torch.tensor(returns, dtype=torch.float32)
    return Batch(observations(states), observations(following), torch.tensor(actions), returns, discounts, numbers)


def played(states, actions, rewards, *, n_step, **end):
    """What the replay memory makes of one run of steps through these states, all of its transitions."""
    replay = Replay(SPEC, 10, n_step=n_step, discount=0.5)
    ends = {"terminated": False, "truncated": False, **end}
    frames = np.array(states, dtype=np.float32)[:, None]
    replay.add(0, frames, np.array(actions), np.array(rewards, dtype=np.float32), **ends)
    replay.flush()
    return replay.fetch(torch.arange(len(replay)))


def targets(transitions, **settings):
    return learning_by_table(**settings).targets(ONLINE, TARGET, transitions).tolist()


# Targets


@pytest.mark.parametrize(("double", "wanted"), [(True, 1 + 10 / 2), (False, 1 + 20 / 2)])
def test_a_target_of_one_step(double, wanted):
    # R = 1, then state 1, of which the online network prefers action 0, and the target network action 1.
    assert targets(batch((0, 1, 1.0, 0.5, 1)), double=double) == [wanted]


@pytest.mark.parametrize(
    ("double", "wanted"),
    [
        # 0 → 1 → 2 → 3 with R = 1, 2, 4: windows of two steps.
        (True, [1 + 2 / 2 + 8 / 4, 2 + 4 / 2 + 7 / 4]),
        (False, [1 + 2 / 2 + 30 / 4, 2 + 4 / 2 + 9 / 4]),
    ],
)
def test_a_target_of_two_steps(double, wanted):
    # With a step more, whose window is not complete, nor is the one before it.
    transitions = played([0, 1, 2, 3], [0, 1, 0, 1], [1.0, 2.0, 4.0, 8.0], n_step=2)
    assert targets(transitions, double=double) == wanted


def test_nothing_follows_a_terminal_state():
    # 0 → 1 → end with R = 1, 2, in windows of three steps: 1 + 2/2, and 2.
    transitions = played([0, 1, 3], [0, 1], [1.0, 2.0], n_step=3, terminated=True)
    assert targets(transitions) == [2.0, 2.0]


@pytest.mark.parametrize(
    ("double", "wanted"), [(True, [1 + 2 / 2 + 8 / 4, 2 + 8 / 2]), (False, [1 + 2 / 2 + 30 / 4, 2 + 30 / 2])]
)
def test_a_truncated_episode_goes_on_from_its_last_observation(double, wanted):
    # 0 → 1 → 2, where it was cut, with R = 1, 2: the windows end there, with the discount of their own length.
    transitions = played([0, 1, 2], [0, 1], [1.0, 2.0], n_step=3, truncated=True)
    assert targets(transitions, double=double) == wanted


def test_no_gradient_goes_through_a_target():
    online, target = ONLINE.clone().requires_grad_(), TARGET.clone().requires_grad_()
    loss = learning_by_table(huber=False).loss(online, batch((0, 1, 1.0, 0.5, 1)), 0, target)
    of_online, of_target = torch.autograd.grad(loss.total, [online, target], allow_unused=True)
    # ∂/∂Q(0, 1) of ½·(6 − 2)² is −4, and state 1 is not moved.
    assert of_online.tolist() == [0, -4, 0, 0, 0, 0, 0, 0]
    assert of_target is None


# Losses: of three transitions that terminate, so that their targets are their returns.

ENDED = [(0, 0, 1.5, 0.0, 0), (0, 1, 5.0, 0.0, 0), (1, 0, 2.0, 0.0, 0)]  # errors: ½, 3 and −2


@pytest.mark.parametrize(
    ("huber", "losses"),
    [
        (True, [0.5 * 0.25, 3 - 0.5, 2 - 0.5]),  # ½δ² up to 1, |δ| − ½ beyond
        (False, [0.5 * 0.25, 0.5 * 9, 0.5 * 4]),
    ],
    ids=["Huber", "squared"],
)
def test_the_loss_is_the_mean_of_the_errors(huber, losses):
    learning = learning_by_table(huber=huber)
    loss = learning.loss(ONLINE, batch(*ENDED), 0, TARGET)
    assert loss.total.item() == pytest.approx(sum(losses) / 3)
    assert loss.figures["loss"].item() == loss.total.item()
    assert loss.figures["q_mean"].item() == pytest.approx((1 + 2 + 4) / 3)
    assert loss.errors.tolist() == [0.5, 3.0, -2.0]
    for row, alone in zip(ENDED, losses, strict=True):
        assert learning.loss(ONLINE, batch(row), 0, TARGET).total.item() == pytest.approx(alone)


@pytest.mark.parametrize(
    ("huber", "slopes"),
    [(True, [-0.5 / 3, -1 / 3, 1 / 3]), (False, [-0.5 / 3, -3 / 3, 2 / 3])],
    ids=["Huber", "squared"],
)
def test_the_gradient_of_the_loss(huber, slopes):
    online = ONLINE.clone().requires_grad_()
    loss = learning_by_table(huber=huber).loss(online, batch(*ENDED), 0, TARGET)
    (gradient,) = torch.autograd.grad(loss.total, online)
    torch.testing.assert_close(gradient, torch.tensor([*slopes, 0, 0, 0, 0, 0]))


# The network

VECTORS = EnvSpec(frame=(3,), stack=2, dtype="float32", action=Discrete(4))


def network(**settings):
    config = Resolved(**{"game": "CartPole-v1", "algo": "dqn", "hidden": 8, "init": "paper", **settings})
    net = Learning(config, VECTORS).network
    return (
        net,
        net.initial(1, "paper"),
        torch.randn(5, *VECTORS.observation, generator=torch.Generator().manual_seed(2)),
    )


def test_dueling_is_the_value_and_by_how_much_an_advantage_differs_from_their_mean():
    net, weights, observations = network(dueling=True)
    first, second, advantage, value = net.unflatten(weights)
    hidden = observations.flatten(1)
    for weight, bias in (first, second):
        hidden = torch.relu(hidden @ weight.T + bias)
    # Each of the two has its own half of the hidden units.
    advantages = hidden[:, :4] @ advantage[0].T + advantage[1]
    values = hidden[:, 4:] @ value[0].T + value[1]
    wanted = values + advantages - advantages.sum(dim=1, keepdim=True) / 4
    found = net.outputs(weights, observations)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(found.mean(dim=1, keepdim=True), values)
    assert advantages.std() > 1e-2


def test_without_it_each_action_has_its_output():
    net, weights, observations = network(dueling=False)
    hidden = observations.flatten(1)
    *layers, (weight, bias) = net.unflatten(weights)
    for layer in layers:
        hidden = torch.relu(hidden @ layer[0].T + layer[1])
    torch.testing.assert_close(net.outputs(weights, observations), hidden @ weight.T + bias)


def test_nothing_is_preferred_at_first():
    for dueling in (True, False):
        net, _, observations = network(dueling=dueling)
        assert net.outputs(net.initial(0, "orthogonal"), observations).abs().max() < 0.1


# How it acts


@pytest.mark.parametrize(
    ("steps", "wanted"), [(0, 1.0), (99, 1.0), (100, 0.91), (500, 0.55), (1000, 0.1), (10**9, 0.1)]
)
def test_epsilon_falls_linearly_from_the_start_of_training_on(steps, wanted):
    learning = learning_by_table(replay_start=100, epsilon=1.0, epsilon_end=0.1, epsilon_steps=1000)
    assert learning.exploration(steps) == pytest.approx(wanted)


def test_until_then_all_is_chance_however_small_epsilon_is():
    learning = learning_by_table(replay_start=100, epsilon=0.5, epsilon_end=0.0, epsilon_steps=1000)
    assert learning.exploration(99) == 1.0
    assert learning.exploration(100) == pytest.approx(0.45)


def acting(actions):
    spec = EnvSpec(frame=(1,), stack=1, dtype="float32", action=Discrete(actions))
    return Acting(Resolved(algo="dqn"), spec)


def counts(epsilon, values, number=60_000):
    rows = np.tile(np.array(values, dtype=np.float32), (number, 1))
    taken, kept = acting(len(values)).act(with_exploration(rows, epsilon), np.random.default_rng(7))
    assert kept == {}
    return np.bincount(taken, minlength=len(values))


def test_without_chance_the_largest_value_is_taken():
    assert counts(0.0, [0.5, -3.0, 2.0, 1.9]).tolist() == [0, 0, 60_000, 0]


def chi_square(found, wanted):
    return float((np.square(found - wanted) / wanted).sum())


def test_by_chance_all_actions_are_equally_likely():
    # χ² with 5 degrees of freedom is above 20.5 once in a thousand times.
    assert chi_square(counts(1.0, [0.5, -3.0, 9.0, 1.9, 0.0, 0.0]), np.full(6, 10_000)) < 20.5


def test_epsilon_is_the_chance_of_any_action_the_best_one_among_them():
    # ε = 0.3 over three actions: 0.1 for each, and 0.7 more for the best; χ²₂ is above 13.8 once in a thousand times.
    assert chi_square(counts(0.3, [1.0, 2.0, 0.0]), np.array([6_000, 48_000, 6_000])) < 13.8


def test_each_row_has_its_own_chance():
    outputs = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0]] * 500, dtype=np.float32)
    taken, _ = acting(2).act(outputs, np.random.default_rng(0))
    assert set(taken[::2]) == {1}
    assert set(taken[1::2]) == {0, 1}


def test_the_best_action_has_nothing_to_do_with_chance():
    outputs = with_exploration(np.array([[3.0, 1.0], [0.0, 0.5]], dtype=np.float32), 1.0)
    assert acting(2).best(outputs).tolist() == [0, 1]  # and never the chance itself, which is the largest number
