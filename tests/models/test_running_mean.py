"""The running mean of the weights: over how many versions it is, and that it follows while it is young."""

import numpy as np
import pytest
import torch

from ga3c.algorithms.rule import make_learning
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.models.model import Model
from ga3c.models.running_mean import RunningMean
from ga3c.settings.config import Resolved

VECTORS = EnvSpec(frame=(4,), stack=1, dtype="float32", action=Discrete(2))


def mean_of(updates, numbers, start=0.0):
    """What the mean is after versions 1, 2, … with these weights."""
    mean = RunningMean(torch.tensor([start]), updates)
    for number, weights in enumerate(numbers, start=1):
        mean.add(number, torch.tensor([float(weights)]))
    return mean.weights.item()


def test_of_one_update_it_is_the_newest_version():
    assert mean_of(1, range(7)) == 6
    assert mean_of(1, range(1234)) == 1233


def test_at_the_start_it_is_the_newest_version_that_counts():
    assert mean_of(1000, range(9)) == 8
    assert mean_of(1000, range(95)) == 89  # version 90, the last of every tenth
    # 110 is the first that is not taken whole, but as 10 of 11 updates.
    assert mean_of(1000, range(1, 111)) == pytest.approx(100 + 10 * 10 / 11)


def test_it_is_over_about_so_many_updates():
    """Of a step from 0 to 1, 1 − 1/e has arrived after as many updates, a tenth of it from version to version."""
    zeros = [0.0] * 5000
    assert mean_of(100, zeros + [1.0] * 100) == pytest.approx(1 - 0.9**10)
    assert mean_of(100, zeros + [1.0] * 1000) == pytest.approx(1, abs=1e-4)
    assert mean_of(1000, [0.0] * 20_000 + [1.0] * 1000) == pytest.approx(1 - 0.99**100, rel=1e-5)


def test_the_first_weights_are_soon_forgotten():
    assert mean_of(1000, [1.0] * 300, start=1000.0) == 1
    # As the window is a tenth of the updates up to now, a fall at 100 is gone at 200, by (1/2)^10.
    assert mean_of(100_000, [1000.0] * 100 + [1.0] * 100) < 2


def test_noise_of_the_versions_is_hardly_in_it():
    noise = np.random.default_rng(3).normal(size=30_000)
    means = [mean_of(1000, noise[:end]) for end in (24_000, 26_000, 28_000, 30_000)]
    assert max(np.abs(means)) < 0.25  # their deviation is √(0.01 / 1.99) = 0.07


def make_model(**settings):
    config = Resolved(device="cpu", hidden=8, **settings)
    return Model(config, make_learning(config, VECTORS).network)


def test_a_model_trains_as_if_there_were_none_and_keeps_it_across_a_checkpoint():
    models = [make_model(mean_updates=updates) for updates in (1, 50)]
    generator = torch.Generator().manual_seed(1)
    for _ in range(700):
        gradient = torch.randn(models[0].network.size, generator=generator)
        for model in models:
            model.apply(gradient, 0.01)
    (_, plain), (number, arrays) = (model.state() for model in models)
    assert np.array_equal(plain["weights"], arrays["weights"])
    assert np.array_equal(plain["mean_weights"], plain["weights"])
    assert not np.array_equal(arrays["mean_weights"], arrays["weights"])
    other = make_model(mean_updates=50, seed=9)
    other.load(number, arrays)
    gradient = torch.ones(other.network.size)
    for _ in range(10):
        for model in (models[1], other):
            model.apply(gradient, 0.01)
    assert np.array_equal(other.state()[1]["mean_weights"], models[1].state()[1]["mean_weights"])
