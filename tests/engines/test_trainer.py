"""The trainer: batches, annealing, stale experiences, broken losses, and four trainers at once."""

import logging
import math
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from ga3c.algorithms.rule import make_learning
from ga3c.engines.trainer import BadUpdates, Trainer, UpdatesNotFinite
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.figures import Window
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.models.batches import Batches
from ga3c.models.model import Model
from ga3c.models.optimizers import linear
from ga3c.settings.config import Resolved

SPEC = EnvSpec(frame=(5,), stack=3, dtype="float32", action=Discrete(4))
IMAGES = EnvSpec(frame=(7, 6), stack=4, dtype="uint8", action=Discrete(4))
COLORS = EnvSpec(frame=(3, 7, 6), stack=4, dtype="uint8", action=Discrete(4))


def make_experience(seed=0, *, spec=SPEC, steps=5, version=0, returns=None):
    chance = np.random.default_rng(seed)
    frames = chance.random((spec.stack - 1 + steps, *spec.frame))
    return Experience(
        agent=0,
        env=0,
        first_step=0,
        version=version,
        frames=(255 * frames if spec.dtype == "uint8" else frames).astype(spec.dtype),
        fields={
            "actions": chance.integers(spec.action.n, size=steps).astype(np.int32),
            "returns": np.full(steps, returns, "f4") if returns is not None else chance.normal(size=steps).astype("f4"),
        },
    )


class RecordingModel(Model):
    """A model that notes each gradient with its version, and what was applied to make each version."""

    def __init__(self, config, network):
        super().__init__(config, network)
        self.gradients = []  # (version, gradient)
        self.applied = {}  # version made: (gradient, learning rate)

    def gradient(self, loss):
        found = super().gradient(loss)
        self.gradients.append((found.version, found.vector.clone()))
        return found

    def apply(self, gradient, learning_rate, frames=None):
        number = super().apply(gradient, learning_rate, frames)
        assert number not in self.applied
        self.applied[number] = (gradient.clone(), learning_rate)
        return number


class Bench:
    """A trainer with all that it needs."""

    def __init__(self, **settings):
        base = {"game": "CartPole-v1", "device": "cpu", "hidden": 16, "preset": "paper"}
        self.config = Resolved.from_mapping({**base, "network": "auto", "value_cost": 0.5, "max_lag": 100, **settings})
        self.learning = make_learning(self.config, SPEC)
        self.model = RecordingModel(self.config, self.learning.network)
        self.stats = Stats()
        self.memory = make_memory(self.config, self.stats)
        self.bad_updates = BadUpdates()
        self.trainer = self.another_trainer()

    def another_trainer(self):
        return Trainer(self.config, self.learning, self.model, self.memory, self.stats, self.bad_updates)

    def play(self, *experiences):
        """Let an agent have played these and delivered them, each in an environment of its own; returns them."""
        ledger = self.stats.ledger
        ledger.open(0, len(experiences))
        experiences = [replace(experience, env=env) for env, experience in enumerate(experiences)]
        for env, experience in enumerate(experiences):
            for _ in range(experience.steps):
                ledger.play(0, env, b"\1")
            ledger.deliver(experience)
        self.stats.add(steps=sum(experience.steps for experience in experiences))
        return experiences

    def unaccounted(self):
        """Steps that neither were trained on nor counted as thrown away, or more than once."""
        self.stats.close_ledger()
        return self.stats.totals.unaccounted_steps, self.stats.totals.under_way

    def advance(self, updates):
        """Other trainers' updates, which change nothing."""
        for _ in range(updates):
            self.model.apply(torch.zeros(self.model.network.size), 0.1)


# Batches


def observations_of(experience, spec):
    """The observations of all its steps, (steps, stack, *frame), the plain way."""
    return np.stack([experience.frames[i : i + spec.stack] for i in range(experience.steps)])


@pytest.mark.parametrize("spec", [SPEC, IMAGES, COLORS])
def test_training_batches(spec):
    batches = Batches(spec, torch.device("cpu"))
    # Also many steps, for which the buffer has to grow, and then few again, when it holds old data.
    for lengths in ([5, 1, 3], [5] * 30, [2]):
        experiences = [make_experience(i, spec=spec, steps=steps) for i, steps in enumerate(lengths)]
        batch = batches.training(experiences)
        expected = np.concatenate([observations_of(experience, spec) for experience in experiences])
        assert batch.observations.dtype == getattr(torch, spec.dtype)
        np.testing.assert_array_equal(batch.observations, expected)
        assert batch.fields.keys() == {"actions", "returns"}
        for name, dtype in (("actions", np.int32), ("returns", np.float32)):
            np.testing.assert_array_equal(batch.fields[name], np.concatenate([e.fields[name] for e in experiences]))
            assert batch.fields[name].dtype == dtype
        assert batch.lengths.tolist() == lengths


@pytest.mark.parametrize("spec", [SPEC, IMAGES, COLORS])
def test_prediction_batches(spec):
    batches = Batches(spec, torch.device("cpu"))
    chance = np.random.default_rng(0)
    for counts in ([3, 1, 4], [40, 30], [1]):
        requests = [(255 * chance.random((count, spec.stack, *spec.frame))).astype(spec.dtype) for count in counts]
        np.testing.assert_array_equal(batches.prediction(requests), np.concatenate(requests))


# Annealing


@pytest.mark.parametrize(
    ("steps", "value"), [(0, 0.8), (250, 0.65), (500, 0.5), (1000, 0.2), (1001, 0.2), (10_000, 0.2)]
)
def test_annealing_is_linear_and_stays_at_its_end(steps, value):
    # From 0.8 to 0.2 over 1000 steps: a quarter of the way is 0.8 − 0.15.
    assert linear(0.8, 0.2, steps, 1000) == pytest.approx(value)


def test_nothing_is_annealed_without_an_end():
    assert linear(0.8, None, 500, 1000) == 0.8
    assert linear(0.8, 0.2, 500, 0) == 0.8
    assert linear(0.8, 0.0, 1000, 1000) == 0.0  # an end of 0 is an end


def test_the_learning_rate_is_annealed_by_steps_played():
    bench = Bench(learning_rate=0.4, learning_rate_end=0.0, max_steps=100)
    for _ in range(3):
        bench.trainer.train([make_experience()])
        bench.stats.add(steps=50)
    assert [rate for _, rate in bench.model.applied.values()] == pytest.approx([0.4, 0.2, 0.0])


def test_beta_is_annealed_by_steps_played():
    annealed = Bench(beta=0.5, beta_end=0.1, max_steps=100)
    annealed.stats.add(steps=50)
    fixed, start = Bench(beta=0.3), Bench(beta=0.5)
    for bench in (annealed, fixed, start):
        bench.trainer.train([make_experience()])
    (_, at_half), (_, at_fixed), (_, at_start) = (bench.model.gradients[0] for bench in (annealed, fixed, start))
    torch.testing.assert_close(at_half, at_fixed)
    assert not torch.allclose(at_half, at_start)


# The update


def plain_gradient(model, weights, experiences, config):
    """The gradient of equation 5, written down as it stands: one sample after the other."""
    weights = weights.clone().requires_grad_()
    total = torch.zeros(())
    for experience in experiences:
        observations = torch.from_numpy(observations_of(experience, SPEC))
        for observation, action, target in zip(observations, *experience.fields.values(), strict=True):
            policies, values = model.network.forward(weights, observation[None])
            policy, value = policies[0], values[0]
            advantage = float(target) - value
            total = total - torch.log(policy[int(action)] + config.log_epsilon) * advantage.item()
            total = total + config.beta * (policy * torch.log(policy + config.log_epsilon)).sum()
            total = total + config.value_cost * advantage**2
    return torch.autograd.grad(total, weights)[0]


def test_an_update_is_the_sum_over_all_steps_of_all_experiences():
    bench = Bench(beta=0.1)
    experiences = [make_experience(1, steps=5), make_experience(2, steps=2)]
    expected = plain_gradient(bench.model, bench.model.version.weights, experiences, bench.config)
    bench.trainer.train(experiences)
    gradient, rate = bench.model.applied[1]
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)
    assert rate == 3e-4
    totals = bench.stats.totals
    assert (totals.updates, totals.samples, totals.experiences) == (1, 7, 2)


def test_run_trains_each_batch_of_the_queue():
    bench = Bench()
    bench.trainer.run(iter([[make_experience(1)], [make_experience(2, steps=3), make_experience(3)]]))
    assert (bench.stats.totals.updates, bench.stats.totals.samples) == (2, 5 + 3 + 5)
    assert bench.stats.totals.trainer_busy > 0


def test_what_the_loss_tells_is_summed_over_updates():
    bench, batches, told = Bench(), Batches(SPEC, torch.device("cpu")), []
    for experience in (make_experience(1), make_experience(2, steps=3)):
        loss = bench.learning.loss(bench.model.version.weights, batches.training([experience]), steps=0)
        told.append({name: value.item() for name, value in loss.figures.items()})
        bench.trainer.train([experience])
    assert dict(bench.stats.losses) == pytest.approx({name: told[0][name] + told[1][name] for name in told[0]})
    assert told[0]["value_loss"] != told[1]["value_loss"]


@pytest.mark.parametrize("clip", [0.0, 0.01, 1e6])
def test_a_gradient_is_clipped_to_its_largest_norm(clip):
    bench = Bench(grad_clip=clip)
    bench.trainer.train([make_experience()])
    ((_, computed),) = bench.model.gradients
    applied, _ = bench.model.applied[1]
    if clip == 0.01:
        assert applied.norm().item() == pytest.approx(0.01, rel=1e-4)
        torch.testing.assert_close(applied / applied.norm(), computed / computed.norm())  # the direction stays
    else:
        assert torch.equal(applied, computed)
    assert bench.stats.totals.gradient_norm == pytest.approx(computed.norm().item(), rel=1e-5)


# Age


def test_stale_experiences_are_dropped_and_counted():
    bench = Bench(max_lag=4, min_batch=8)
    bench.advance(10)
    stale, fresh = make_experience(1, steps=5, version=5), make_experience(2, steps=3, version=6)
    expected = plain_gradient(bench.model, bench.model.version.weights, [fresh], bench.config)
    bench.trainer.train([stale, fresh])  # lags 5 and 4
    totals = bench.stats.totals
    assert (totals.stale_steps, totals.samples, totals.updates, totals.experiences) == (5, 3, 1, 1)
    assert totals.full_updates == 0  # fewer samples than MIN_BATCH were left
    torch.testing.assert_close(bench.model.gradients[0][1], expected, atol=1e-5, rtol=1e-4)


def test_every_step_of_a_batch_ends_once_trained_or_stale():
    bench = Bench(max_lag=4)
    bench.advance(10)
    bench.trainer.train(bench.play(make_experience(1, version=5), make_experience(2, steps=3, version=6)))
    assert (bench.stats.totals.stale_steps, bench.stats.totals.samples) == (5, 3)
    assert bench.unaccounted() == (0, 0)


def test_updates_of_at_least_the_minimum_batch_are_counted_apart():
    bench = Bench(min_batch=5)
    bench.trainer.train([make_experience(1, steps=5)])
    bench.trainer.train([make_experience(2, steps=4)])
    assert (bench.stats.totals.updates, bench.stats.totals.full_updates) == (2, 1)


def test_a_batch_of_stale_experiences_alone_is_no_update():
    bench = Bench(max_lag=4)
    bench.advance(10)
    bench.trainer.train([make_experience(1, version=0), make_experience(2, version=5)])
    assert (bench.stats.totals.stale_steps, bench.stats.totals.updates) == (10, 0)
    assert bench.model.version.number == 10


def test_without_a_limit_nothing_is_stale():
    bench = Bench(max_lag=0)
    bench.advance(1000)
    bench.trainer.train([make_experience(version=0)])
    assert (bench.stats.totals.stale_steps, bench.stats.totals.samples) == (0, 5)


def test_lag_is_counted_in_updates_between_acting_and_training():
    bench = Bench()
    bench.advance(10)
    first = bench.stats.snapshot()
    bench.trainer.train([make_experience(1, version=10), make_experience(2, version=7)])  # lags 0 and 3
    bench.trainer.train([make_experience(3, version=9)])  # at version 11 by now: lag 2
    totals = bench.stats.totals
    assert (totals.lag, totals.experiences) == (5, 3)
    second = bench.stats.snapshot()
    assert Window(first, second, {}).lag_max == 3
    bench.trainer.train([make_experience(4, version=11)])  # at version 12
    third = bench.stats.snapshot()
    assert Window(second, third, {}).lag_max == 1  # of its own window
    assert Window(first, third, {}).lag_max == 3  # for one who looks over a longer one
    assert bench.stats.lag_max_ever == 3


# Losses that are not finite


@pytest.mark.parametrize("returns", [math.nan, math.inf, -math.inf, 1e30])
def test_a_loss_that_is_not_finite_is_not_applied(returns, caplog):
    bench = Bench()
    before = bench.model.version
    with caplog.at_level(logging.WARNING, logger="ga3c"):
        bench.trainer.train([make_experience(returns=returns)])  # 1e30 is finite, but its square is not
    assert bench.model.version is before
    assert not bench.model.applied
    assert (bench.stats.totals.bad_updates, bench.stats.totals.updates) == (1, 0)
    assert "update skipped" in caplog.text
    # What goes into means must not be spoilt for good.
    assert math.isfinite(bench.stats.losses["value_loss"])
    assert math.isfinite(bench.stats.totals.gradient_norm)


def test_a_gradient_that_is_not_finite_is_not_applied_though_the_loss_is(caplog):
    bench = Bench()
    before = bench.model.version
    with caplog.at_level(logging.WARNING, logger="ga3c"):
        bench.trainer.train([make_experience(steps=1, returns=1.5e19)])  # its square is finite, a sum of several is not
    assert re.search(r"loss \S+e\+38, gradient norm inf ", caplog.text)
    assert bench.model.version is before
    assert (bench.stats.totals.bad_updates, bench.stats.totals.updates) == (1, 0)


def fail(loss):
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("returns", [math.nan, None], ids=["bad", "failed"])
def test_every_step_of_a_batch_ends_once_where_it_could_not_be_trained(returns):
    bench = Bench()
    experiences = bench.play(make_experience(1, returns=returns), make_experience(2, steps=3))
    if returns is None:
        bench.model.gradient = fail
        with pytest.raises(ZeroDivisionError):
            bench.trainer.train(experiences)
    else:
        bench.trainer.train(experiences)
    assert (bench.stats.totals.lost_steps, bench.stats.totals.samples) == (8, 0)
    assert bench.unaccounted() == (0, 0)


def test_five_bad_updates_in_a_row_end_training():
    bench = Bench()
    for _ in range(4):
        bench.trainer.train([make_experience(returns=math.nan)])
    with pytest.raises(UpdatesNotFinite, match="5 updates in a row"):
        bench.trainer.train([make_experience(returns=math.nan)])
    assert bench.stats.totals.bad_updates == 5
    assert bench.model.version.number == 0


def test_a_good_update_begins_the_count_anew():
    bench = Bench()
    for _ in range(3):
        for _ in range(4):
            bench.trainer.train([make_experience(returns=math.nan)])
        bench.trainer.train([make_experience()])
    assert (bench.stats.totals.bad_updates, bench.stats.totals.updates) == (12, 3)
    assert torch.isfinite(bench.model.version.weights).all()


def test_bad_updates_of_all_trainers_count_together():
    bench = Bench()
    trainers = [bench.trainer, bench.another_trainer()]
    for i in range(4):
        trainers[i % 2].train([make_experience(returns=math.nan)])
    with pytest.raises(UpdatesNotFinite):
        trainers[0].train([make_experience(returns=math.nan)])


# Several trainers at once


class Contest(RecordingModel):
    """A model whose trainers all have their gradient before any of them applies it, and then apply it at once."""

    def __init__(self, config, network, threads):
        super().__init__(config, network)
        self._all_have_theirs = threading.Barrier(threads, timeout=30)
        self.current = threading.local()  # the experiences that this thread trains on
        self.trained = []  # (version, experiences, gradient)

    def gradient(self, loss):
        found = super().gradient(loss)
        self.trained.append((found.version, self.current.experiences, found.vector.clone()))
        self._all_have_theirs.wait()
        return found


@pytest.fixture
def busy_threads(monkeypatch):
    """Threads that change as often as possible, above all in the midst of an update."""
    plain = torch.addcdiv

    def interrupted(*args, **kwargs):
        threading.Event().wait(0.001)
        return plain(*args, **kwargs)

    monkeypatch.setattr(torch, "addcdiv", interrupted)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("busy_threads")
@pytest.mark.parametrize("initial", [0.0, 1.0])
def test_four_trainers_lose_nothing_and_mix_nothing(initial):
    threads, rounds = 4, 15
    bench = Bench(learning_rate=0.02, beta=0.1, max_lag=0, rmsprop_initial=initial)
    bench.model = model = Contest(bench.config, bench.learning.network, threads)
    first = model.version.weights.clone()

    def queue(thread):
        for i in range(rounds):
            seeds = 100 * thread + 10 * np.arange(1, 4) + 1000 * i
            model.current.experiences = [make_experience(seed, steps=1 + seed % 5) for seed in seeds]
            yield model.current.experiences

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(bench.another_trainer().run, queue(thread)) for thread in range(threads)]:
            done.result(timeout=60)

    # No update is lost: as many versions as gradients, each made by one of them.
    updates = threads * rounds
    assert model.version.number == bench.stats.totals.updates == len(model.trained) == updates
    assert sorted(model.applied) == list(range(1, updates + 1))

    # The weights are those of the same gradients one after the other, by an RMSProp of our own in double precision.
    weights, mean_square = first.double(), torch.full_like(first, initial).double()
    versions = [weights]
    for number in range(1, updates + 1):
        gradient = model.applied[number][0].double()
        mean_square = 0.99 * mean_square + 0.01 * gradient**2
        weights = weights - 0.02 * gradient / torch.sqrt(mean_square + 0.1)
        versions.append(weights)
    torch.testing.assert_close(model.version.weights.double(), weights, atol=1e-5, rtol=1e-4)

    # Each gradient is that of its own experiences at the one version that it names, and of no other.
    for version, experiences, gradient in model.trained:
        expected = plain_gradient(model, versions[version].float(), experiences, bench.config)
        torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-3)
    others = [
        (gradient - plain_gradient(model, versions[version - 1].float(), experiences, bench.config)).abs().max()
        for version, experiences, gradient in model.trained
        if version
    ]
    assert max(others) > 1e-2  # the version before would not do, or the comparison would mean nothing
    assert len({version for version, _, _ in model.trained}) > rounds // 2
