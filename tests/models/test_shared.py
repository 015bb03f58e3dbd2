"""The model in shared memory: the arithmetic of the other one, with numbers that several processes have."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from ga3c.algorithms.rule import make_learning
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.models import shared as shared_model
from ga3c.models.model import Loss, Model
from ga3c.models.shared import LOCK_SECONDS, ProcessLock, SharedModel, SharedNumbers
from ga3c.settings.config import Resolved
from ga3c.settings.declare import ConfigError
from tests.helpers.waiting import wait_until

PIXELS = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(3))
VECTORS = EnvSpec(frame=(4,), stack=1, dtype="float32", action=Discrete(2))
SETTINGS = Resolved(device="cpu", hidden=16, rmsprop_epsilon=0.01)
FRAMES = 6  # of a batch


def network_of(spec, config=SETTINGS):
    return make_learning(config, spec).network


def some_gradients(size, count):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, generator=generator) for _ in range(count)]


def some_frames():
    return torch.randint(256, (FRAMES, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))


def assert_same_state(one, other):
    (number, arrays), (other_number, other_arrays) = one.state(), other.state()
    assert number == other_number
    assert arrays.keys() == other_arrays.keys()
    for name in arrays:
        assert arrays[name].tobytes() == other_arrays[name].tobytes(), name


@pytest.fixture
def make(tmp_path):
    """Ends of one shared model, as processes have them."""
    numbers = {}

    def end(spec, config=SETTINGS):
        if spec not in numbers:
            numbers[spec] = SharedNumbers.make(config, network_of(spec, config))
        return SharedModel(config, network_of(spec, config), numbers[spec], ProcessLock(tmp_path / "lock"))

    return end


@pytest.mark.parametrize("spec", [PIXELS, VECTORS], ids=["pixels", "vectors"])
def test_updates_have_the_bits_of_the_other_model(make, spec):
    model, shared = Model(SETTINGS, network_of(spec)), make(spec)
    assert_same_state(shared, model)
    for gradient in some_gradients(model.network.size, 21):
        frames = some_frames() if spec is PIXELS else None
        assert shared.apply(gradient, 0.01, frames) == model.apply(gradient, 0.01, frames)
    assert_same_state(shared, model)
    shared.catch_up()
    assert shared.version.number == 21
    assert torch.equal(shared.version.weights, model.version.weights)


def test_predictions_and_gradients_are_of_the_copy_and_the_lag_is_told(make):
    mine, other = make(VECTORS), make(VECTORS)
    before = mine.version.weights.clone()
    for gradient in some_gradients(mine.network.size, 3):
        other.apply(gradient, 0.01)
    assert torch.equal(mine.version.weights, before)
    observations = torch.ones(2, 1, 4)
    prediction = mine.predict(observations)
    policies, values = mine.network.forward(before, observations)
    assert prediction.version == 0
    assert prediction.outputs[:, :-1].tolist() == policies.tolist()
    assert prediction.outputs[:, -1].tolist() == values.tolist()
    number, gradient, _ = mine.gradient(lambda weights: Loss((weights**2).sum() / 2, {}))
    assert number == mine.updates == 3  # what it will be applied to
    assert torch.equal(gradient, before)
    mine.catch_up()
    assert mine.version.number == 3
    assert not torch.equal(mine.version.weights, before)
    assert torch.equal(mine.version.weights, torch.from_numpy(other.state()[1]["weights"]))


def test_a_state_goes_from_one_kind_of_model_to_the_other_and_back(make):
    model, shared = Model(SETTINGS, network_of(PIXELS)), make(PIXELS)
    for gradient in some_gradients(model.network.size, 3):
        model.apply(gradient, 0.01, some_frames())
    shared.load(*model.state())
    assert_same_state(shared, model)
    assert shared.version.number == 3
    assert torch.equal(make(PIXELS).version.weights, model.version.weights)  # of another process
    (gradient,) = some_gradients(model.network.size, 1)
    back = Model(SETTINGS, network_of(PIXELS))
    back.load(*shared.state())
    back.apply(gradient, 0.01)
    shared.apply(gradient, 0.01)
    assert_same_state(shared, back)


def test_a_state_of_another_network_is_refused(make):
    shared, small = make(VECTORS), SETTINGS.replace(hidden=8)
    with pytest.raises(ConfigError, match="weights do not fit"):
        shared.load(*Model(small, network_of(VECTORS, small)).state())


@pytest.mark.alone
def test_the_memory_has_no_name_that_could_stay_behind(make):
    before = set(Path("/dev/shm").iterdir())
    make(PIXELS)
    assert not [path for path in set(Path("/dev/shm").iterdir()) - before if "torch" in path.name]


UPDATES = 150


def update_often(numbers, lock, ready, go):
    torch.set_num_threads(1)
    shared_model.LOCK_SECONDS = 120.0  # on a loaded machine, too, the holder of the lock is to be waited for
    model = SharedModel(SETTINGS, network_of(PIXELS), numbers, ProcessLock(lock))
    frames, gradient = some_frames(), torch.ones(model.network.size)
    ready.set()
    go.wait()
    for _ in range(UPDATES):
        model.apply(gradient, 1e-6, frames)


def hold_the_lock(lock, ready):
    with ProcessLock(lock).held():
        ready.set()
        signal.pause()


@pytest.mark.processes
def test_no_update_of_two_processes_is_forgotten_and_a_killed_one_holds_nobody_up(make, tmp_path):
    shared = make(PIXELS)
    context = multiprocessing.get_context("spawn")
    ready, go, lock = [context.Event() for _ in range(3)], context.Event(), tmp_path / "lock"
    processes = [
        context.Process(target=update_often, args=(shared._numbers, lock, ready[place], go), daemon=True)
        for place in (0, 1)
    ]
    holder = context.Process(target=hold_the_lock, args=(lock, ready[2]), daemon=True)
    try:
        for process in (*processes, holder):
            process.start()
        wait_until(lambda: all(event.is_set() for event in ready), 120)
        go.set()
        processes[0].join(0.5)
        assert processes[0].is_alive()
        assert shared.updates == 0  # both wait for the holder of the lock
        os.kill(holder.pid, signal.SIGKILL)
        wait_until(lambda: not any(process.is_alive() for process in processes), 120)
        assert [process.exitcode for process in processes] == [0, 0]
    finally:
        for process in (*processes, holder):
            process.kill()
    number, arrays = shared.state()
    assert number == 2 * UPDATES
    assert arrays["pixels"][0] == 2 * UPDATES * FRAMES
    means = arrays["pixels"][1:].reshape(2, 84, 84)[0]
    assert means == pytest.approx(some_frames().float().mean(dim=0).numpy(), abs=0.1)
    # Of each weight at least one process's updates arrived, and none twice.
    moved = Model(SETTINGS, network_of(PIXELS)).version.weights - torch.from_numpy(arrays["weights"])
    trained = moved[: shared.network.weights]
    assert trained.min() > 0


def test_a_holder_of_the_lock_that_was_stopped_is_not_waited_for_forever(tmp_path):
    stopped, other = ProcessLock(tmp_path / "lock"), ProcessLock(tmp_path / "lock")
    with stopped.held():
        for _ in range(2):  # who did not get it does not release it either
            started = time.monotonic()
            with other.held():
                assert LOCK_SECONDS <= time.monotonic() - started < LOCK_SECONDS + 5
    started = time.monotonic()
    with other.held():
        assert time.monotonic() - started < LOCK_SECONDS
