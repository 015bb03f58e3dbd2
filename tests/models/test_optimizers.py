"""Optimizers against numbers derived by hand, plain loops in double precision, and torch's own; and what is kept."""

import math

import numpy as np
import pytest
import torch

import ga3c
from ga3c.algorithms.rule import make_learning
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.models import optimizers
from ga3c.models.model import Model
from ga3c.models.optimizers import linear, make_optimizer
from ga3c.runs.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from ga3c.settings.config import Config, Resolved
from ga3c.settings.declare import ConfigError
from ga3c.settings.groups import OPTIMIZERS

CPU = torch.device("cpu")
each = pytest.mark.parametrize("name", OPTIMIZERS)


def config_of(name, **settings):
    return Resolved(**{"game": "CartPole-v1", "algo": "dqn", "optimizer": name, **settings})


def after(config, gradients, *, rate, start=0.0):
    """The weights after each of these gradients."""
    weights = torch.full_like(gradients[0], start)
    optimizer = make_optimizer(config, len(weights), CPU)
    memory = {name: torch.full_like(weights, first) for name, first in optimizer.initial.items()}
    found = []
    for number, gradient in enumerate(gradients, 1):
        new = torch.empty_like(weights)
        before = weights.clone(), gradient.clone()
        optimizer.step(new, weights, gradient, memory, rate, number=number)
        assert torch.equal(weights, before[0])
        assert torch.equal(gradient, before[1])
        weights = new
        found.append(weights)
    return found


def some_gradients(count, size=11):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(size, generator=generator) * 10.0 ** (number % 3 - 1) for number in range(count)]


# By hand: Δ = 2, and then Δ = 1, with η = 0.1


def test_centered_rmsprop_by_hand():
    # α = ½, ε = 1 inside the root, g₀ = m₀ = 0:
    #   g = ½·4 = 2,           m = ½·2 = 1,          g − m² + ε = 2 − 1 + 1 = 2,             θ = −0.1·2/√2
    #   g = ½·2 + ½·1 = 1.5,   m = ½·1 + ½·1 = 1,    g − m² + ε = 1.5 − 1 + 1 = 1.5,         θ −= 0.1·1/√1.5
    config = config_of("centered", rmsprop_decay=0.5, rmsprop_epsilon=1.0, rmsprop_initial=0.0)
    first, second = after(config, [torch.tensor([2.0]), torch.tensor([1.0])], rate=0.1)
    assert first.item() == pytest.approx(-0.2 / math.sqrt(2))
    assert second.item() == pytest.approx(-0.2 / math.sqrt(2) - 0.1 / math.sqrt(1.5))


def test_rmsprop_by_hand():
    # The same without the mean: g + ε = 3, and 1.5 + 1 = 2.5.
    config = config_of("rmsprop", rmsprop_decay=0.5, rmsprop_epsilon=1.0, rmsprop_initial=0.0)
    first, second = after(config, [torch.tensor([2.0]), torch.tensor([1.0])], rate=0.1)
    assert first.item() == pytest.approx(-0.2 / math.sqrt(3))
    assert second.item() == pytest.approx(-0.2 / math.sqrt(3) - 0.1 / math.sqrt(2.5))


def test_adam_by_hand():
    # β₁ = ½, β₂ = 0.999, ε = 1 beside the root, m₀ = v₀ = 0:
    #   m = 1,                v = 0.004,     m̂ = 1/½ = 2,         v̂ = 0.004/0.001 = 4,     θ = −0.1·2/(2 + 1)
    #   m = ½·1 + ½·1 = 1,    v = 0.003996 + 0.001 = 0.004996, m̂ = 1/¾, v̂ = 0.004996/0.001999 = 2.49925
    config = config_of("adam", adam_decay=0.5, adam_epsilon=1.0)
    first, second = after(config, [torch.tensor([2.0]), torch.tensor([1.0])], rate=0.1)
    assert first.item() == pytest.approx(-0.2 / 3)
    assert second.item() == pytest.approx(-0.2 / 3 - 0.1 * (4 / 3) / (math.sqrt(0.004996 / 0.001999) + 1))


# Against plain loops


def plain(name, gradients, *, rate, decay, epsilon, initial):
    """What the three do, each number by itself, in double precision."""
    found = []
    size = len(gradients[0])
    weights, means, squares = [0.0] * size, [0.0] * size, [initial] * size
    for number, gradient in enumerate(gradients, 1):
        for i, slope in enumerate(gradient.tolist()):
            square_decay = 0.999 if name == "adam" else decay
            means[i] = decay * means[i] + (1 - decay) * slope
            squares[i] = square_decay * squares[i] + (1 - square_decay) * slope * slope
            if name == "adam":
                mean, square = means[i] / (1 - decay**number), squares[i] / (1 - square_decay**number)
                weights[i] -= rate * mean / (math.sqrt(square) + epsilon)
            else:
                variance = squares[i] - (means[i] ** 2 if name == "centered" else 0.0)
                weights[i] -= rate * slope / math.sqrt(variance + epsilon)
        found.append(list(weights))
    return found


@each
@pytest.mark.parametrize("epsilon", [1e-3, 0.5])
def test_many_steps_are_those_of_a_plain_loop(name, epsilon):
    gradients = some_gradients(40)
    config = config_of(
        name, rmsprop_decay=0.9, adam_decay=0.9, rmsprop_epsilon=epsilon, adam_epsilon=epsilon, rmsprop_initial=0.0
    )
    found = after(config, gradients, rate=0.01)
    wanted = plain(name, gradients, rate=0.01, decay=0.9, epsilon=epsilon, initial=0.0)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=2e-5, atol=2e-6)


@each
def test_the_mean_square_begins_where_it_is_told_to(name):
    gradients = some_gradients(3)
    config = config_of(name, rmsprop_decay=0.9, adam_decay=0.9, rmsprop_epsilon=1e-6, adam_epsilon=1e-6)
    assert config.rmsprop_initial == 1.0
    initial = 0.0 if name == "adam" else 1.0  # which corrects for its beginning at 0
    wanted = plain(name, gradients, rate=0.01, decay=0.9, epsilon=1e-6, initial=initial)
    found = after(config, gradients, rate=0.01)
    np.testing.assert_allclose(found[-1].numpy(), wanted[-1], rtol=2e-5, atol=2e-6)


def by_torch(make, gradients):
    weights = torch.zeros_like(gradients[0], requires_grad=True)
    optimizer = make([weights])
    for gradient in gradients:
        weights.grad = gradient.clone()
        optimizer.step()
    return weights.detach()


@pytest.mark.parametrize("epsilon", [1.5e-4, 0.5])
def test_adam_is_torchs(epsilon):
    gradients = some_gradients(40)
    found = after(config_of("adam", adam_epsilon=epsilon), gradients, rate=0.01)[-1]
    wanted = by_torch(lambda weights: torch.optim.Adam(weights, lr=0.01, eps=epsilon), gradients)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_centered_rmsprop_is_not_torchs_whose_epsilon_is_beside_the_root():
    gradients = some_gradients(40)

    def both(epsilon):
        config = config_of("centered", rmsprop_decay=0.95, rmsprop_epsilon=epsilon, rmsprop_initial=0.0)
        theirs = by_torch(
            lambda weights: torch.optim.RMSprop(weights, lr=0.01, alpha=0.95, eps=epsilon, centered=True), gradients
        )
        return after(config, gradients, rate=0.01)[-1], theirs

    torch.testing.assert_close(*both(1e-12), rtol=1e-3, atol=1e-5)
    ours, theirs = both(0.01)
    assert (ours - theirs).abs().max() > 0.01 * theirs.abs().max()


@each
def test_the_size_of_a_piece_changes_nothing(name, monkeypatch):
    whole = after(config_of(name), some_gradients(5, size=50), rate=0.01)[-1]
    monkeypatch.setattr(optimizers, "UPDATE_PIECE", 7)
    assert torch.equal(after(config_of(name), some_gradients(5, size=50), rate=0.01)[-1], whole)


@each
def test_the_next_weights_may_be_written_over_the_old_ones(name):
    (gradient,) = some_gradients(1)
    (wanted,) = after(config_of(name), [gradient], rate=0.01)
    optimizer = make_optimizer(config_of(name), len(gradient), CPU)
    weights = torch.zeros_like(gradient)
    memory = {name: torch.full_like(weights, first) for name, first in optimizer.initial.items()}
    optimizer.step(weights, weights, gradient, memory, 0.01)
    assert torch.equal(weights, wanted)


@pytest.mark.parametrize(("steps", "wanted"), [(0, 4.0), (25, 3.25), (100, 1.0), (1000, 1.0)])
def test_a_value_that_changes_linearly_stays_at_its_end(steps, wanted):
    assert linear(4.0, 1.0, steps, 100) == wanted
    assert linear(4.0, None, steps, 100) == linear(4.0, 1.0, steps, 0) == 4.0


# What is kept

SPEC = EnvSpec(frame=(4,), stack=1, dtype="float32", action=Discrete(2))


def make_model(name):
    config = config_of(name, device="cpu", hidden=8)
    return Model(config, make_learning(config, SPEC).network)


def updated(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(3):
        model.apply(torch.randn(model.network.size, generator=generator), 0.01)
    return model


@each
def test_a_checkpoint_keeps_all_vectors_and_the_target(name, tmp_path):
    model = updated(make_model(name), 1)
    model.renew_target()
    target = model.version.weights.clone()
    updated(model, 2)
    number, arrays = model.state()
    assert arrays.keys() == {"weights", "mean_weights", "pixels", "target", *model._optimizer.initial}
    path = save_checkpoint(tmp_path, arrays, {"updates": number}, keep=1)

    restored = make_model(name)
    restored.load(number, load_checkpoint(path)[0])
    assert torch.equal(restored.target.weights, target)
    assert not torch.equal(restored.target.weights, restored.version.weights)
    # And so both go on alike.
    assert torch.equal(updated(model, 3).version.weights, updated(restored, 3).version.weights)
    assert not torch.equal(model.version.weights, updated(updated(make_model(name), 1), 2).version.weights)


def test_a_model_that_has_no_target_yet_keeps_none():
    assert "target" not in make_model("adam").state()[1]


def test_a_checkpoint_of_another_optimizer_does_not_fit():
    _, arrays = make_model("rmsprop").state()
    with pytest.raises(ConfigError, match="the checkpoint's mean_gradient do not fit this network"):
        make_model("adam").load(0, arrays)


def test_a_run_is_not_resumed_with_another_optimizer(tmp_path):
    words = ["GAME=CartPole-v1", "ALGO=dqn", "SERIAL=1", "HIDDEN=8", "DEVICE=cpu", "TENSORBOARD=0", "MAX_STEPS=40"]
    ga3c.train(Config.from_words([*words, f"RUN={tmp_path / 'run'}"]))
    before = sorted((tmp_path / "run").rglob("*"))
    with pytest.raises(CheckpointError, match=r"\.safetensors is of OPTIMIZER=adam, not centered$"):
        ga3c.train(Config.from_words([f"RESUME={tmp_path / 'run'}", "OPTIMIZER=centered", "MAX_STEPS=80"]))
    assert sorted((tmp_path / "run").rglob("*")) == before
    assert ga3c.train(Config.from_words([f"RESUME={tmp_path / 'run'}", "MAX_STEPS=80"]))["steps"] >= 80


def test_agents_that_share_one_mean_square_have_rmsprop():
    with pytest.raises(ConfigError, match="ALGO=a3c has one mean square for all agents: OPTIMIZER=adam is for others"):
        Config.from_words(["ALGO=a3c", "OPTIMIZER=adam"])
    assert Config.from_words(["ALGO=a3c", "OPTIMIZER=rmsprop"]).optimizer == "rmsprop"
