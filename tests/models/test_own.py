"""NETWORK=module:Class: a user's module computes with views of the flat vector, and what does not fit is refused."""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from torch.nn import functional

from ga3c.algorithms.rule import make_acting, make_learning
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.models.model import Loss, Model
from ga3c.models.own import OwnBody
from ga3c.runs.resolve import resolve
from ga3c.runs.training import run_training
from ga3c.settings.config import Config, Resolved
from ga3c.settings.declare import ConfigError
from ga3c.settings.recipes import RECIPES
from tests.helpers import own_networks
from tests.helpers.command_line import QUICK, ROOT, run, summary_of
from tests.helpers.machines import Machines
from tests.helpers.serial_run import CARTPOLE, PONG, SerialRun, differences

HERE = "tests.helpers.own_networks"
IMAGES = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(6))
VECTORS = EnvSpec(frame=(4,), stack=1, dtype="float32", action=Discrete(2))
STACKED = EnvSpec(frame=(2,), stack=3, dtype="float32", action=Discrete(2))
FIT = [
    ("Conv", IMAGES),
    ("MLP", VECTORS),
    ("Normed", VECTORS),
    ("FixedNorm", VECTORS),
    ("function", STACKED),
    ("Nothing", VECTORS),
]
each_that_fits = pytest.mark.parametrize(("name", "spec"), FIT)


def make_model(name, spec, **settings):
    config = Resolved(network=f"{HERE}:{name}", device="cpu", **settings)
    return Model(config, make_learning(config, spec).network)


def some(spec, count, seed=0):
    random = np.random.default_rng(seed)
    if spec.is_image:
        return torch.from_numpy(random.integers(0, 256, (count, *spec.observation), dtype=np.uint8))
    return torch.from_numpy(random.normal(size=(count, *spec.observation)).astype(np.float32))


def plain(name, model, spec):
    """The module itself, and the two heads, with the weights of the model."""
    module = getattr(own_networks, name)(spec.observation)
    with torch.no_grad():
        module(torch.zeros(2, *spec.observation))  # lazy layers get their sizes
        parameters = list(module.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        flat = model.version.weights
        for parameter, part in zip(parameters, torch.split(flat[: sum(sizes)], sizes), strict=True):
            parameter.copy_(part.view(parameter.shape))
    features = module(torch.zeros(1, *spec.observation)).flatten(1).shape[1]
    actions = spec.action.n
    heads = torch.split(flat[sum(sizes) : model.network.weights], [actions * features, actions, features, 1])

    def compute(observations):
        x = module(observations.float() / 255 if spec.is_image else observations.clone()).flatten(1)
        preferences = functional.linear(x, heads[0].view(actions, features), heads[1])
        values = functional.linear(x, heads[2].view(1, features), heads[3])
        return torch.cat([functional.softmax(preferences, dim=1), values], dim=1)

    return module, compute


# What it computes


@each_that_fits
def test_it_computes_what_the_module_computes(name, spec):
    model = make_model(name, spec, seed=3, normalize=False)
    model.apply(torch.randn(model.network.size, generator=torch.Generator().manual_seed(0)), 1e-3)
    observations = some(spec, 5)
    _, compute = plain(name, model, spec)
    expected = compute(observations).detach()
    layouts = [observations, observations.movedim(1, -1).contiguous().movedim(-1, 1)]
    for given in layouts:
        torch.testing.assert_close(torch.from_numpy(model.predict(given).outputs), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("name", "spec"), FIT[:-1])  # the last has nothing to train
def test_its_gradient_is_that_of_the_module(name, spec):
    model = make_model(name, spec, seed=3, normalize=False)
    observations = some(spec, 5)
    module, compute = plain(name, model, spec)
    weigh = torch.randn((5, spec.action.n + 1), generator=torch.Generator().manual_seed(1))
    _, gradient, _ = model.gradient(lambda flat: Loss((model.network.outputs(flat, observations) * weigh).sum(), {}))
    (compute(observations) * weigh).sum().backward()
    place = 0
    for key, parameter in module.named_parameters():
        mine = gradient[place : place + parameter.numel()].view(parameter.shape)
        place += parameter.numel()
        if parameter.requires_grad:
            torch.testing.assert_close(mine, parameter.grad, atol=1e-5, rtol=1e-4, msg=key)
            assert mine.any()
        else:
            assert not mine.any()
    assert gradient[place : model.network.weights].any()


def test_what_is_not_trained_stays_and_what_is_shared_is_there_once():
    body = OwnBody(f"{HERE}:MLP", VECTORS)
    assert body.size == 4 * 16 + 16 + 16 * 16 + 16 + 16 + 16
    model = make_model("MLP", VECTORS)
    before = model.version.weights
    _, gradient, _ = model.gradient(lambda flat: Loss(model.network.heads(flat, some(VECTORS, 3))[0].sum(), {}))
    model.apply(gradient, 0.1)
    frozen = torch.zeros(body.size, dtype=torch.bool)
    frozen[:16] = True  # a module's own parameters come before those of its parts
    assert torch.equal(model.version.weights[: body.size][frozen], before[: body.size][frozen])
    assert not torch.equal(model.version.weights[: body.size][~frozen], before[: body.size][~frozen])


def test_normalized_pixels_are_what_it_gets():
    model = make_model("Nothing", EnvSpec((4, 4), 2, "uint8", Discrete(2)), normalize=True)
    observations = some(model.network.spec, 3)
    model.apply(torch.zeros(model.network.size), 0.1, observations[:, -1])
    flat = model.version.weights
    seen = model.network._input(flat, observations).flatten(1)
    assert seen.abs().max() > 1
    weight, bias = model.network.unflatten(flat)[0]
    torch.testing.assert_close(model.network.heads(flat, observations)[0], functional.linear(seen, weight, bias))


def test_it_cannot_write_to_the_batch():
    model, observations = make_model("InPlace", VECTORS), some(VECTORS, 3)
    before = observations.clone()
    outputs = model.predict(observations).outputs
    assert torch.equal(observations, before)
    np.testing.assert_array_equal(model.predict(observations).outputs, outputs)


def test_its_first_weights_are_its_own_by_the_seed():
    dice = torch.random.get_rng_state()
    one, again, other = (make_model("Conv", IMAGES, seed=seed).version.weights for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), dice)  # of the caller
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    torch.default_generator.manual_seed(1)
    module = own_networks.Conv(IMAGES.observation)
    torch.random.set_rng_state(dice)
    assert torch.equal(one[: module[0].weight.numel()].view_as(module[0].weight), module[0].weight)


def test_threads_compute_with_the_version_that_they_took():
    """While a call lasts, its weights stand in the module: each thread has one."""
    model, observations = make_model("MLP", VECTORS), some(VECTORS, 8)
    versions, found = [model.version], [[], [], []]
    stop = threading.Event()

    def predict(mine):
        while not stop.is_set():
            mine.append(model.predict(observations))

    threads = [threading.Thread(target=predict, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for number in range(100):
        direction = torch.randn(model.network.size, generator=torch.Generator().manual_seed(number))
        model.apply(direction, 0.01)
        model.gradient(lambda flat: Loss(model.network.heads(flat, observations)[0].sum(), {}))
        versions.append(model.version)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert len({prediction.version for mine in found for prediction in mine}) > 5
    for mine in found:
        for prediction in mine[:: max(1, len(mine) // 50)]:
            with torch.no_grad():
                expected = model.network.outputs(versions[prediction.version].weights, observations)
            np.testing.assert_allclose(prediction.outputs, expected, atol=1e-6)


@pytest.mark.parametrize("algo", RECIPES)
@each_that_fits
def test_every_rule_puts_its_heads_on_it(algo, name, spec):
    config = resolve(Config(game="CartPole-v1", algo=algo, network=f"{HERE}:{name}", device="cpu"), spec)
    learning = make_learning(config, spec)
    weights = learning.network.initial(0, config.init).requires_grad_()
    outputs = learning.network.outputs(weights, some(spec, 6))
    explores = learning.exploration(0) is not None  # the chance of it is no output of the network
    assert outputs.shape == (6, make_acting(config, spec).width - explores)
    (gradient,) = torch.autograd.grad(outputs.square().sum(), weights)
    assert torch.isfinite(gradient).all()
    assert gradient.any()


@pytest.mark.parametrize(("name", "settings"), [("MLP", CARTPOLE), ("Conv", PONG)])
def test_a_run_that_was_stopped_ends_with_the_same_bits(name, settings, tmp_path):
    settings = {**settings, "network": f"{HERE}:{name}"}
    whole = SerialRun(seed=5, **settings).play(rounds=40)
    whole.server.stop()
    assert whole.stats.totals.updates > 2
    SerialRun(seed=5, **settings).play(rounds=17).save(tmp_path)
    resumed = SerialRun(resume=tmp_path, seed=5, **settings).play(rounds=23)
    resumed.server.stop()
    assert differences(whole.everything(), resumed.everything()) == []


# What does not fit


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none", "own_networks has no none"),
        ("made", "is a Linear: name a class, or a function"),
        ("number", "is a int: name a class"),
        ("NoShape", r"could not be made for observations of \(1, 4\): TypeError: .*takes 1 positional argument"),
        ("no_module", "gives a tuple, not a torch.nn.Module"),
        ("BatchNorm", "changes its buffer 2.running_mean, .* use LayerNorm or GroupNorm"),
        ("Dropout", "gives other features when it is asked again, as dropout does"),
        ("Centred", "gives other features for an observation that is alone than beside others"),
        ("Double", "has 1.weight in torch.float64 on cpu, not in float32"),
        ("Raises", r"failed with observations of \(3, 1, 4\): KeyError: 'on purpose'"),
        ("Conv", "failed with observations"),
        ("Two", "returns tuple instead of a tensor of float32"),
        ("Integers", "returns torch.int64 instead of a tensor of float32"),
        ("Flat", r"returns the shape \(3,\) for 3 observations, not \(3, features\)"),
        ("Merged", r"returns the shape \(1, 8\) for 3 observations, not \(3, features\)"),
        ("NotFinite", "returns features that are not finite"),
        ("Steep", "has a gradient that is not finite"),
    ],
)
def test_what_does_not_fit_is_told(name, told):
    with pytest.raises(ConfigError, match=f"^NETWORK={HERE}:{name} .*{told}"):
        OwnBody(f"{HERE}:{name}", VECTORS)


def test_a_view_that_wants_another_order_in_memory_is_told():
    with pytest.raises(ConfigError, match=r"channels are last in memory: .*Use .reshape\(...\) instead"):
        OwnBody(f"{HERE}:Viewed", IMAGES)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be found: No module named 'mine'. Is its file in the directory where you are?"),
        ("import nowhere", "cannot be found: No module named 'nowhere'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("class Net:\n  pass", "mine:Net could not be made for observations of (1, 4): TypeError"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(text, told, tmp_path, monkeypatch):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=re.escape(told)):
        OwnBody("mine:Net", VECTORS)
    sys.modules.pop("mine", None)


def test_a_run_is_refused_before_anything_is_written(tmp_path):
    config = Config(game="CartPole-v1", network=f"{HERE}:Dropout", run=str(tmp_path / "here"), device="cpu")
    with pytest.raises(ConfigError, match="as dropout does"):
        run_training(config, threading.Event())
    assert not (tmp_path / "here").exists()


# Its name


def test_a_class_stands_for_its_name():
    assert Config(network=own_networks.MLP).network == f"{HERE}:MLP"
    assert Config(network=own_networks.function).network == f"{HERE}:function"


def test_what_has_no_name_is_refused():
    class Local(own_networks.MLP):
        pass

    for nameless in (Local, lambda shape: own_networks.MLP(shape)):
        with pytest.raises(ConfigError, match="has no name by which it could be found again"):
            Config(network=nameless)


def test_a_class_of_the_main_module_is_for_one_process(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "Mine", own_networks.MLP, raising=False)
    assert OwnBody("__main__:Mine", VECTORS).features == 16
    with pytest.raises(ConfigError, match="ALGO=a3c trains in agent processes, which cannot import NETWORK=__main__"):
        Config(algo="a3c", network="__main__:Mine")
    with pytest.raises(ConfigError, match="__main__ has no Other: define it anew, or write it to a file of its own"):
        OwnBody("__main__:Other", VECTORS)


def test_a_wrong_name_tells_all_that_would_be_right():
    with pytest.raises(ConfigError, match=r"Did you mean small\?.* or your own as module:Class"):
        Config(network="smal")
    with pytest.raises(ConfigError, match="is unknown"):
        Config(network="my file:Net")


# Whole runs

FILE = """
import os
from torch import nn

open(f"imported-{os.getpid()}", "w").close()


class Net(nn.Sequential):
    def __init__(self, shape):
        super().__init__(nn.Flatten(), nn.Linear(shape[-1], 16), nn.Tanh())
"""


@pytest.mark.processes
def test_only_who_computes_imports_it(tmp_path):
    """It stands where the user does. Agents of GA3C never need it, nor torch; those of A3C compute themselves."""
    (tmp_path / "mine.py").write_text(FILE)
    for algo, importing in (("ga3c", {1}), ("a3c", {2, 3})):  # it may end before the second agent begins
        words = [*QUICK, f"ALGO={algo}", "NETWORK=mine:Net", "MAX_STEPS=400", f"RUN={algo}"]
        code, output = run(tmp_path, *words)
        assert code == 0, output
        assert summary_of(tmp_path / algo)["updates"] > 0
        imported = list(tmp_path.glob("imported-*"))
        assert len(imported) in importing
        for path in imported:
            path.unlink()
    code, output = run(tmp_path, "RESUME=ga3c", "MAX_STEPS=600")
    assert code == 0, output
    assert "resumed at step" in output
    code, output = run(tmp_path, "RESUME=ga3c", "MAX_STEPS=800", "NETWORK=mlp")
    assert code == 2
    assert "is of NETWORK=mine:Net, not mlp" in output
    assert run(tmp_path, "eval", "RUN=a3c", "EPISODES=2")[0] == 0


@pytest.mark.processes
def test_agents_of_other_machines_do_without_it(tmp_path):
    here, there = Machines(tmp_path / "here"), Machines(tmp_path / "there")
    for machines in (here, there):
        machines.path.mkdir()
    (here.path / "mine.py").write_text(FILE)
    try:
        server, address = here.serve("AGENTS=0", "NETWORK=mine:Net")
        joined = there.start("joined", "agents", f"SERVER={address}", "AGENTS=1")
        here.wait_for_remote(1)
        assert server.end() == 0, server.said
        assert joined.process.wait(60) == 0, joined.said
    finally:
        here.close()
        there.close()
    assert "Traceback" not in server.said + joined.said


@pytest.mark.processes
def test_the_console_script_finds_it_too(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    words = [*QUICK, "SERIAL=1", "NETWORK=mine:Net", "MAX_STEPS=50", "RUN=here"]
    code = "import sys; from ga3c.__main__ import run; sys.exit(run())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}  # as there, '' is not on the path
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
