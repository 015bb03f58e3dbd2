"""The same numbers on a GPU as on the CPU. Runs where CUDA is."""

import numpy as np
import pytest
import torch

from ga3c.algorithms.rule import make_learning
from ga3c.engines.workers import Workers
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.models.batches import Batches
from ga3c.models.model import Model
from ga3c.settings.config import Resolved

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
SPEC = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(6))


def make(device, correction):
    config, stats = Resolved(device=device, correction=correction), Stats()
    return Workers(config, SPEC, make_memory(config, stats), stats), stats


def some_experiences(random, correction):
    """Of different lengths, some of which ended their episodes."""
    reached = correction == "vtrace"
    experiences = []
    for env, steps in enumerate((5, 1, 4, 5, 2, 5, 3, 5)):
        fields = {
            "actions": random.integers(0, 6, steps).astype(np.int32),
            "returns": random.normal(size=steps).astype(np.float32),
        }
        if reached:
            fields["rewards"] = random.normal(size=steps).astype(np.float32)
            fields["chances"] = random.uniform(0.05, 0.5, size=steps).astype(np.float32)
        frames = random.integers(0, 255, (3 + steps + reached, 84, 84), dtype=np.uint8)
        experiences.append(Experience(0, env, 0, 0, frames, fields, terminated=env % 3 == 0))
    return experiences


@pytest.mark.parametrize("correction", ["none", "vtrace"])
def test_predictions_and_updates_agree_with_the_cpu(correction):
    random = np.random.default_rng(0)
    observations = random.integers(0, 255, (16, 4, 84, 84), dtype=np.uint8)
    experiences = some_experiences(random, correction)
    results = []
    for device in ("cpu", "cuda:0"):
        workers, stats = make(device, correction)
        trainer = workers.trainer()
        for _ in range(3):
            trainer.train(experiences)
        workers.close()
        batch = Batches(SPEC, workers.model.device).prediction([observations])
        results.append((stats, workers.model.predict(batch)))
    (stats, on_cpu), (same_stats, on_gpu) = results
    assert stats.totals.updates == same_stats.totals.updates == 3
    np.testing.assert_allclose(on_gpu.outputs[:, :-1], on_cpu.outputs[:, :-1], atol=1e-3)
    np.testing.assert_allclose(on_gpu.outputs[:, -1], on_cpu.outputs[:, -1], atol=1e-2)
    for name, amount in stats.losses.items():
        assert same_stats.losses[name] == pytest.approx(amount, rel=0.05, abs=0.05), name


@pytest.mark.parametrize("correction", ["none", "vtrace"])
def test_a_loss_waits_for_nothing_on_the_device(correction):
    config = Resolved(device="cuda:0", correction=correction)
    learning = make_learning(config, SPEC)
    model = Model(config, learning.network)
    batch = Batches(SPEC, model.device).training(some_experiences(np.random.default_rng(0), correction))
    model.gradient(lambda weights: learning.loss(weights, batch, 0))  # what is done once only
    try:
        torch.cuda.set_sync_debug_mode("error")
        model.gradient(lambda weights: learning.loss(weights, batch, 0))
    finally:
        torch.cuda.set_sync_debug_mode("default")
