"""V-trace against numbers derived by hand, closed forms, and a reference that sums up equation 3 as it is written.

By hand: two steps with γ = ½, V = (1, 2), rewards (1, 0), and V = 4 of what they reached. π/μ = (½, 3), ρ̄ = 2, c̄ = 1,
so ρ = (½, 2) and c = (½, 1):

    δ₁ = 2·(0 + ½·4 − 2) = 0        v₁ = 2 + 0 = 2
    δ₀ = ½·(1 + ½·2 − 1) = ½        v₀ = 1 + ½ + ½·½·(v₁ − 2) = 1.5
    advantages: ½·(1 + ½·2 − 1) = ½ and 2·(0 + ½·4 − 2) = 0

With a reward of 1 in the second step as well: δ₁ = 2·(1 + 2 − 2) = 2, v₁ = 4, v₀ = 1 + ½ + ½·½·(4 − 2) = 2, and the
advantages are ½·(1 + ½·4 − 1) = 1 and 2.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ga3c.algorithms.actor_critic import learning
from ga3c.algorithms.actor_critic.acting import n_step_returns
from ga3c.algorithms.actor_critic.vtrace import vtrace, vtrace_on_device
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from tests.engines.test_trainer import SPEC, Bench, make_experience


def hand(rewards, **changes):
    given = {
        "ratios": np.array([0.5, 3.0]),
        "rewards": np.array(rewards, dtype=float),
        "values": np.array([1.0, 2.0]),
        "lengths": np.array([2]),
        "following": np.array([4.0]),
        "discount": 0.5,
        "rho_bar": 2.0,
        "c_bar": 1.0,
    }
    return vtrace(**{**given, **changes})


def test_by_hand():
    for rewards, targets, advantages in (([1, 0], [1.5, 2], [0.5, 0]), ([1, 1], [2, 4], [1, 2])):
        result = hand(rewards)
        np.testing.assert_allclose(result.values, targets)
        np.testing.assert_allclose(result.advantages, advantages)


def test_nothing_follows_the_end_of_an_episode():
    # v₁ = 2 + 2·(1 + 0 − 2) = 0, v₀ = 1 + ½·(1 + ½·2 − 1) + ¼·(0 − 2) = 1
    result = hand([1, 1], following=np.array([0.0]))
    np.testing.assert_allclose(result.values, [1, 0])
    np.testing.assert_allclose(result.advantages, [0.0, -2.0])


def test_a_policy_that_would_never_have_done_it_learns_nothing():
    result = hand([1, 1], ratios=np.zeros(2))
    np.testing.assert_allclose(result.values, [1, 2])  # V itself
    np.testing.assert_allclose(result.advantages, 0)


def random_experiences(seed, count=7, longest=6):
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, longest + 1, size=count)
    steps = lengths.sum()
    return {
        "ratios": np.exp(chance.normal(size=steps)),
        "rewards": chance.normal(size=steps),
        "values": chance.normal(size=steps),
        "lengths": lengths,
        "following": chance.normal(size=count) * chance.integers(0, 2, size=count),
        "discount": 0.9,
    }


@pytest.mark.parametrize("seed", range(5))
def test_on_policy_it_is_the_n_step_return(seed):
    given = {**random_experiences(seed), "rho_bar": 1.0, "c_bar": 1.0}
    given["ratios"] = np.ones_like(given["ratios"])
    result = vtrace(**given)
    ends = given["lengths"].cumsum()
    returns = np.concatenate(
        [
            n_step_returns(given["rewards"][end - length : end].tolist(), following, 0.9)
            for length, end, following in zip(given["lengths"], ends, given["following"], strict=True)
        ]
    )
    np.testing.assert_allclose(result.values, returns, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result.advantages, returns - given["values"], rtol=1e-5, atol=1e-6)


def reference(ratios, rewards, values, following, discount, rho_bar, c_bar):
    """Equation 3 of one experience: the sum with its products, for each step anew."""
    values = [*values, following]
    targets = []
    for first in range(len(rewards)):
        target = values[first]
        for t in range(first, len(rewards)):
            trace = math.prod(min(c_bar, ratios[i]) for i in range(first, t))
            error = min(rho_bar, ratios[t]) * (rewards[t] + discount * values[t + 1] - values[t])
            target += discount ** (t - first) * trace * error
        targets.append(target)
    after = [*targets[1:], following]
    advantages = [
        min(rho_bar, ratio) * (reward + discount * target - value)
        for ratio, reward, target, value in zip(ratios, rewards, after, values, strict=False)
    ]
    return targets, advantages


@pytest.mark.parametrize(("rho_bar", "c_bar"), [(1.0, 1.0), (2.0, 0.5), (1e9, 1e9), (0.7, 0.0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_as_it_is_written(seed, rho_bar, c_bar):
    given = random_experiences(seed)
    result = vtrace(**given, rho_bar=rho_bar, c_bar=c_bar)
    start = 0
    for length, following in zip(given["lengths"], given["following"], strict=True):
        part = slice(start, start + length)
        one = {name: given[name][part].tolist() for name in ("ratios", "rewards", "values")}
        targets, advantages = reference(**one, following=following, discount=0.9, rho_bar=rho_bar, c_bar=c_bar)
        np.testing.assert_allclose(result.values[part], targets, rtol=1e-9)
        np.testing.assert_allclose(result.advantages[part], advantages, rtol=1e-9, atol=1e-12)
        start += length
    assert start == len(result.values)


# In the trainer


def corrected(seed, *, steps, chances, terminated=False):
    chance = np.random.default_rng(seed)
    experience = make_experience(seed, steps=steps)
    frames = np.concatenate([experience.frames, chance.random((1, *SPEC.frame), dtype=np.float32)])
    return replace(
        experience,
        frames=frames,
        fields={
            **experience.fields,
            "returns": np.full(steps, 1e6, np.float32),  # which must not count
            "rewards": chance.normal(size=steps).astype(np.float32),
            "chances": np.asarray(chances, np.float32),
        },
        terminated=terminated,
    )


def plain_loss(weights, bench, experiences):
    """The loss of all experiences, step by step, with the reference above."""
    config, total = bench.config, 0.0
    for experience in experiences:
        observations = np.stack([experience.frames[i : i + SPEC.stack] for i in range(experience.steps + 1)])
        policies, values = bench.model.network.forward(weights, torch.from_numpy(observations))
        chosen = policies[range(experience.steps), experience.fields["actions"].tolist()]
        targets, advantages = reference(
            (chosen.detach().double().numpy() / experience.fields["chances"]).tolist(),
            experience.fields["rewards"].tolist(),
            values[:-1].tolist(),
            0.0 if experience.terminated else values[-1].item(),
            config.discount,
            config.rho_bar,
            config.c_bar,
        )
        entropy = -(policies[:-1] * torch.log(policies[:-1] + config.log_epsilon)).sum()
        gain = (torch.log(chosen + config.log_epsilon) * torch.tensor(advantages)).sum()
        errors = torch.tensor(targets) - values[:-1]
        total = total + config.value_cost * errors.square().sum() - gain - config.beta * entropy
    return total


def test_the_gradient_of_a_batch_is_that_of_its_experiences_one_by_one():
    bench = Bench(correction="vtrace", rho_bar=1.2, c_bar=0.8, beta=0.05)
    experiences = [
        corrected(1, steps=3, chances=[0.1, 0.9, 0.25]),
        corrected(2, steps=1, chances=[0.3], terminated=True),
        corrected(3, steps=5, chances=[0.5, 0.05, 0.2, 0.7, 0.3]),
    ]
    bench.trainer.train(experiences)
    weights = bench.model.network.initial(bench.config.seed, bench.config.init).requires_grad_()
    (expected,) = torch.autograd.grad(plain_loss(weights, bench, experiences), weights)
    torch.testing.assert_close(bench.model.gradients[0][1], expected.float(), rtol=1e-4, atol=1e-6)
    assert bench.stats.totals.samples == 9


# On a device


@pytest.mark.parametrize(("rho_bar", "c_bar"), [(1.0, 0.95), (2.0, 0.5), (1e9, 1e9), (0.7, 0.0)])
@pytest.mark.parametrize(("count", "longest"), [(1, 1), (7, 6), (40, 20)])
@pytest.mark.parametrize("seed", range(5))
def test_on_a_device_it_gives_the_same_numbers(seed, count, longest, rho_bar, c_bar):
    bounds = {"discount": 0.99, "rho_bar": rho_bar, "c_bar": c_bar}
    given = {**random_experiences(seed, count, longest), **bounds}  # some of which were terminated: 0 follows
    single = {name: given[name].astype(np.float32) for name in ("ratios", "rewards", "values", "following")}
    expected = vtrace(**{**given, **single})
    found = vtrace_on_device(**{**given, **{name: torch.from_numpy(numbers) for name, numbers in single.items()}})
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        np.testing.assert_array_equal(one.numpy(), other.astype(np.float32))


class Far(torch.Tensor):
    """On another device, as far as anyone can see."""

    device = SimpleNamespace(type="far")


@pytest.mark.parametrize("seed", range(5))
def test_the_whole_loss_is_the_same_where_nothing_leaves_the_device(seed, monkeypatch):
    chance = np.random.default_rng(seed)
    experiences = [
        corrected(place, steps=steps, chances=chance.uniform(0.05, 0.9, steps), terminated=bool(chance.integers(2)))
        for place, steps in enumerate(chance.integers(1, 20, size=12))
    ]
    assert len({experience.terminated for experience in experiences}) == 2

    def update():
        bench = Bench(correction="vtrace", c_bar=0.95, seed=seed)
        forward = bench.learning.network.forward
        monkeypatch.setattr(
            bench.learning.network,
            "forward",
            lambda *given: tuple(numbers.as_subclass(kind) for numbers in forward(*given)),
        )
        bench.trainer.train(experiences)
        return bench

    def from_afar(**given):
        called.append(True)
        there = {name: some.as_subclass(torch.Tensor) for name, some in given.items() if isinstance(some, torch.Tensor)}
        return vtrace_on_device(**{**given, **there})

    called = []
    monkeypatch.setattr(learning, "vtrace_on_device", from_afar)
    kind = torch.Tensor
    near = update()
    assert not called
    kind = Far
    far = update()
    assert called
    (_, expected), (_, found) = near.model.gradients[0], far.model.gradients[0]
    assert torch.equal(found.as_subclass(torch.Tensor), expected)
    assert far.stats.losses == near.stats.losses
    assert torch.equal(far.model.version.weights, near.model.version.weights)
    assert far.stats.totals.updates == 1


@pytest.mark.parametrize("words", [["RHO_BAR=0.5", "C_BAR=1"], ["RHO_BAR=0"], ["CORRECTION=retrace"], ["C_BAR=-1"]])
def test_words_that_make_no_sense_are_refused(words):
    with pytest.raises(ConfigError):
        Config.from_words(["CORRECTION=vtrace", *words])
