"""The same numbers on a GPU as on the CPU. Runs where CUDA is."""

import numpy as np
import pytest
import torch

from ga3c.engines.workers import Learner
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.stats import Stats
from ga3c.models.batches import Batches
from ga3c.settings.config import Config

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
SPEC = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(6))


def make(device):
    stats = Stats()
    return Learner(Config(device=device, min_batch=1), SPEC, stats), stats


def test_predictions_and_updates_agree_with_the_cpu():
    random = np.random.default_rng(0)
    observations = random.integers(0, 255, (16, 4, 84, 84), dtype=np.uint8)
    experiences = [
        Experience(
            agent=0,
            env=env,
            first_step=0,
            version=0,
            frames=random.integers(0, 255, (8, 84, 84), dtype=np.uint8),
            actions=random.integers(0, 6, 5).astype(np.int32),
            returns=random.normal(size=5).astype(np.float32),
        )
        for env in range(8)
    ]
    results = []
    for device in ("cpu", "cuda:0"):
        learner, stats = make(device)
        for _ in range(3):
            learner.trainer().train(experiences)
        batch = Batches(SPEC, learner.model.device).prediction([observations])
        results.append((stats.totals.updates, learner.model.predict(batch)))
    (updates, on_cpu), (same_updates, on_gpu) = results
    assert updates == same_updates == 3
    np.testing.assert_allclose(on_gpu.policies, on_cpu.policies, atol=1e-3)
    np.testing.assert_allclose(on_gpu.values, on_cpu.values, atol=1e-2)
