"""The replay memory on a GPU: the same bits as on the CPU, and no input comes from the host. Runs where CUDA is."""

import itertools

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from ga3c.memory.priorities import Priorities
from ga3c.memory.replay_file import load_replay, save_replay
from ga3c.memory.ring import Replay
from tests.helpers.replayed import SPEC, Player, all_numbers

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def filled(devices):
    """Memories that were given the same."""
    rng = np.random.default_rng(0)
    numbers = itertools.count()
    players = [Player(lane, rng, numbers) for lane in range(5)]
    replays = [Replay(SPEC, 400, n_step=3, block=20, headroom=60, **where) for where in devices]
    for turn in range(800):
        run, ends = players[turn % 5].run(5)
        for replay in replays:
            replay.add(*run, **ends)
    for replay in replays:
        replay.flush()
    return replays


def test_the_same_transitions_as_on_the_cpu():
    replays = filled([{"device": "cpu"}, {"device": "cuda"}, {"device": "cpu", "to": "cuda", "buffers": 2}])
    numbers = torch.from_numpy(all_numbers(replays[0]))
    here, *others = (replay.fetch(numbers) for replay in replays)
    for batch in others:
        assert batch.observations.is_cuda
        for part, same in zip(batch, here, strict=True):
            assert torch.equal(part.cpu(), same)


def test_a_draw_copies_nothing_from_the_host():
    (replay,) = filled([{"device": "cuda"}])
    generator = torch.Generator("cuda").manual_seed(0)
    replay.sample(32, generator)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(5):
            replay.sample(32, generator)
        torch.cuda.synchronize()
    assert not [event.key for event in profiler.key_averages() if "HtoD" in event.key]


def test_a_memory_goes_on_from_its_file(tmp_path):
    (replay,) = filled([{"device": "cuda"}])
    save_replay(replay, tmp_path / "memory")
    other = Replay(SPEC, 400, n_step=3, block=20, headroom=60, device="cuda")
    load_replay(other, tmp_path / "memory")
    batches = [memory.sample(100, torch.Generator("cuda").manual_seed(1)) for memory in (replay, other)]
    assert all(torch.equal(part, same) for part, same in zip(*batches, strict=True))


def test_priorities_are_drawn_as_on_the_cpu():
    drawn = []
    for device in ("cpu", "cuda"):
        memory = Priorities(5_000, alpha=0.6, device=device)
        memory.add(torch.arange(5_000, device=device), torch.linspace(0, 1, 5_000, dtype=torch.float64, device=device))
        memory.update(torch.tensor([7, 8, 7], device=device), torch.tensor([5.0, 6.0, 9.0], device=device))
        memory.remove_between(0, 5)
        drawn.append(memory._sums.find(torch.linspace(0, 0.999, 1_000, dtype=torch.float64, device=device)).cpu())
    assert (drawn[0] - drawn[1]).abs().max() <= 1  # but for the order in which sums are added up
