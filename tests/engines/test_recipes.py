"""The table of recipes: what each ALGO names is there and fits together, and its settings come out decided."""

import dataclasses
import queue
import typing

import numpy as np
import pytest
import torch

from ga3c.algorithms.rule import make_acting, make_learning
from ga3c.engines.engine import ENGINES, make_engine
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.memory import MEMORIES, make_memory
from ga3c.memory.rollout import Steps
from ga3c.memory.stats import Stats
from ga3c.models.batches import Batches
from ga3c.runs.resolve import resolve
from ga3c.settings.config import Config, Resolved
from ga3c.settings.declare import settings_that
from ga3c.settings.groups import TUNERS
from ga3c.settings.recipes import RECIPES
from tests.engines.test_trainer import make_experience

SPEC = EnvSpec(frame=(5,), stack=3, dtype="float32", action=Discrete(4))
IMAGES = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(6))
# Where None means that it stays where it begins, and what agents of other machines decide.
ENDS = {"learning_rate_end", "beta_end", "compress"}
MAY_BE_AUTO = {field.name for field in dataclasses.fields(Config) if field.default is None}
GIVEN = {
    "sticky": 0.5,
    "agents": 7,
    "envs_per_agent": 3,
    "tuner_lag": 2.5,
    "compress": True,
    "min_batch": 11,
    "learning_rate_end": 1e-5,
    "beta_end": 1e-4,
    "correction": "vtrace",
    "torch_threads": 2,
    "train_queue": 13,
    "samplers": 21,
    "learning_rate": 2e-4,
    "optimizer": "rmsprop",
    "replay_start": 300,
    "target_period": 200,
    "epsilon_steps": 400,
}
each_algo = pytest.mark.parametrize("algo", RECIPES)
each_with_a_queue = pytest.mark.parametrize("algo", [algo for algo in RECIPES if not RECIPES[algo].replays])


def resolved(spec=SPEC, **settings):
    return resolve(Config(**{"game": "CartPole-v1", "device": "cpu", "hidden": 8, **settings}), spec)


# The recipes


@pytest.mark.parametrize(
    ("algo", "serial"),
    [(algo, serial) for algo in RECIPES for serial in (False, True) if not (serial and RECIPES[algo].agents_learn)],
)
def test_its_engine_can_be_made_and_stopped_before_it_begins(algo, serial, temporary):
    config, stats = resolved(algo=algo, serial=serial), Stats()
    assert RECIPES[algo].engine in ENGINES
    engine = make_engine(config, SPEC, stats, queue.Queue())
    assert engine.setting.keys() == {"agents", "predictors", "trainers", "remote_agents"}
    engine.stop()
    assert engine.state() is None
    assert not list(temporary.iterdir())  # its sockets and locks
    assert stats.totals.steps == stats.totals.unaccounted_steps == 0


@each_with_a_queue
def test_its_memory_gives_back_what_it_takes(algo):
    stats = Stats()
    assert RECIPES[algo].memory in MEMORIES
    memory = make_memory(resolved(algo=algo, min_batch=3), stats)
    first, second = make_experience(1, steps=2), make_experience(2, steps=1)
    memory.add([first])
    assert memory.take() is None
    memory.add([second])
    assert len(memory) == 2
    assert memory.take() == [first, second]


@each_with_a_queue
@pytest.mark.parametrize("spec", [SPEC, IMAGES], ids=["vectors", "images"])
@pytest.mark.parametrize("correction", ["none", "vtrace"])
def test_its_rule_learns_from_what_it_makes_of_its_actions(algo, spec, correction):
    config = resolved(spec, algo=algo, correction=correction)
    acting, learning = make_acting(config, spec), make_learning(config, spec)
    steps = 6
    frames = np.zeros((spec.stack - 1 + steps + acting.schema.reached, *spec.frame), spec.dtype)
    observations = np.stack([frames[step : step + spec.stack] for step in range(steps)])
    weights = learning.network.initial(0, config.init).requires_grad_()
    outputs = learning.network.outputs(weights, torch.from_numpy(observations)).detach().numpy()
    assert outputs.shape == (steps, acting.width)
    actions, kept = acting.act(outputs, np.random.default_rng(0))
    assert actions.shape == acting.best(outputs).shape == (steps,)

    fields = acting.finish(Steps(list(actions), [1.0] * steps, kept, terminated=False), outputs[-1])
    assert list(fields) == [field.name for field in acting.schema.fields]
    for field in acting.schema.fields:
        assert fields[field.name].dtype == np.dtype(field.dtype)
        assert fields[field.name].shape == (steps, *field.shape)
        assert field.misfit(fields[field.name]) == ""
    batch = Batches(spec, torch.device("cpu")).training([Experience(0, 0, 0, 0, frames, fields)])
    assert (batch.reached is not None) == acting.schema.reached
    loss = learning.loss(weights, batch, steps=0)
    assert loss.figures.keys() == {figure.name for figure in acting.figures}
    (gradient,) = torch.autograd.grad(loss.total, weights)
    assert torch.isfinite(gradient).all()
    assert gradient.any()


@each_algo
def test_what_is_usual_with_it_are_settings_that_it_decides(algo):
    usual = {**RECIPES[algo].usual, **RECIPES[algo].usual_vectors}
    assert set(usual) <= set(settings_that(Config, "by_algo")) & MAY_BE_AUTO
    config = resolved(algo=algo)
    assert {name: getattr(config, name) for name in usual} == usual
    given = {name: GIVEN[name] for name in usual}
    config = resolved(algo=algo, **given)
    assert {name: getattr(config, name) for name in given} == given


@each_algo
@pytest.mark.parametrize("tuner", TUNERS)
def test_it_is_tuned_unless_it_says_why_not(algo, tuner):
    assert resolved(algo=algo, tuner=tuner).tuner == ("off" if RECIPES[algo].untuned else tuner)


# Settings that are resolved


@each_algo
@pytest.mark.parametrize(("game", "spec"), [("CartPole-v1", SPEC), ("Pong", IMAGES)], ids=["CartPole", "Pong"])
def test_nothing_is_left_open_but_the_two_ends(algo, game, spec):
    config = resolved(spec, algo=algo, game=game)
    assert {name for name in MAY_BE_AUTO if getattr(config, name) is None} == ENDS
    assert config.network != "auto"
    types = typing.get_type_hints(Resolved)
    assert {name for name in types if type(None) in typing.get_args(types[name])} == ENDS


@each_algo
def test_what_is_given_stays(algo):
    assert GIVEN.keys() == MAY_BE_AUTO
    config = resolved(algo=algo, max_steps=100, **GIVEN)
    assert {name: getattr(config, name) for name in GIVEN} == GIVEN
    assert resolve(config, SPEC) == config  # as where a run is resumed
