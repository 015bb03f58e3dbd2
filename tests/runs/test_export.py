"""``export``: the file gives what the checkpoint gives, for any number of observations, and needs none of us."""

import json
import subprocess
import sys

import numpy as np
import pytest

import ga3c
from ga3c.runs import export
from ga3c.runs.checkpoint import load_newest, save_checkpoint
from ga3c.settings.commands import ExportOptions
from ga3c.settings.declare import ConfigError
from ga3c.settings.recipes import RECIPES
from tests.runs.test_evaluate import make_run

OWN = "tests.helpers.own_networks"
each_kind = pytest.mark.parametrize("kind", ["onnx", "pt2"])


def needs(kind):
    if kind == "onnx":
        for name in export.PACKAGES:
            pytest.importorskip(name)


def measure_pixels(run):
    """As if some frames had been trained on: mean and scale of the pixels are at the end of the weights."""
    path, arrays, state = load_newest(run)
    random = np.random.default_rng(0)
    pixels = 84 * 84
    arrays["mean_weights"][-2 * pixels :] = np.concatenate(
        [random.uniform(0, 255, pixels), random.uniform(0, 1, pixels)]
    )
    save_checkpoint(path.parent, arrays, state, keep=1)


@pytest.mark.parametrize(
    ("kind", "game", "settings"),
    [
        ("onnx", "CartPole-v1", {}),
        ("pt2", "CartPole-v1", {"network": f"{OWN}:MLP"}),
        ("onnx", "Pong", {"network": "small"}),
        ("pt2", "Pong", {"network": "small"}),
        ("onnx", "Pong", {"network": "large-1", "normalize": False}),
        ("onnx", "Pong", {"network": f"{OWN}:Conv"}),
    ],
)
def test_it_gives_what_the_checkpoint_gives(kind, game, settings, tmp_path, capfd):
    needs(kind)
    run, out = make_run(tmp_path / "run", game, **settings), tmp_path / f"model.{kind}"
    if game == "Pong" and settings.get("normalize", True):
        measure_pixels(tmp_path / "run")
    assert export.main([f"RUN={run}", f"OUT={out}"]) == 0
    assert [path.name for path in tmp_path.iterdir() if path.name != "run"] == [out.name]
    policy = ga3c.load(run, device="cpu")
    printed, noise = capfd.readouterr()
    assert noise == ""
    assert f"gives outputs (n, {policy.acting.width}) of float32" in printed
    exported = (export.read_onnx if kind == "onnx" else export.read_pt2)(out)
    random = np.random.default_rng(1)
    for count in (1, 3, 17):
        if game == "Pong":
            observations = random.integers(0, 256, (count, *policy.spec.observation), dtype=np.uint8)
        else:
            observations = random.normal(size=(count, *policy.spec.observation)).astype(np.float32)
        np.testing.assert_allclose(exported(observations), policy.outputs(observations), atol=2e-5)


@pytest.mark.parametrize("algo", RECIPES)
def test_it_is_of_any_rule(algo, tmp_path):
    run = make_run(tmp_path, algo=algo)
    policy, difference = export.export(ExportOptions(run=run, out=str(tmp_path / "model.pt2")))
    assert difference <= 1e-6
    assert policy.config.algo == algo


@pytest.mark.processes
@each_kind
def test_it_says_what_it_is_of_and_needs_none_of_us(kind, tmp_path):
    needs(kind)
    run, out = make_run(tmp_path), tmp_path / f"model.{kind}"
    export.main([f"RUN={run}", f"OUT={out}"])
    reading = {
        "onnx": "import onnxruntime as r; s = r.InferenceSession(path);"
        "about = s.get_modelmeta().custom_metadata_map['ga3c.json']; (out,) = s.run(None, {'observations': x})",
        "pt2": "import torch; extra = {'ga3c.json': ''}; m = torch.export.load(path, extra_files=extra).module();"
        "about = extra['ga3c.json']; out = m(torch.from_numpy(x)).numpy()",
    }[kind]
    code = (
        f"import sys, numpy; path = sys.argv[1]; x = numpy.ones((2, 1, 4), numpy.float32); {reading};"
        "assert not any(name.split('.')[0] == 'ga3c' for name in sys.modules); print(about); print(out.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code, out], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    about, outputs = map(json.loads, done.stdout.splitlines()[-2:])
    assert about == {
        "game": "CartPole-v1",
        "algo": "ga3c",
        "network": "mlp",
        "steps": 1234,
        "checkpoint": "000000000000.safetensors",
    }
    expected = ga3c.load(run, device="cpu").outputs(np.ones((2, 1, 4), np.float32))
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


@each_kind
def test_a_file_that_gives_something_else_is_not_written(kind, tmp_path, monkeypatch):
    needs(kind)
    run, out = make_run(tmp_path), tmp_path / f"model.{kind}"
    whole = export.Whole
    monkeypatch.setattr(export, "Whole", lambda network, weights: whole(network, weights + 1e-3))
    with pytest.raises(RuntimeError, match=r"was not written: its outputs differ from those of .* by up to \d"):
        export.export(ExportOptions(run=run, out=str(out)))
    assert not list(tmp_path.glob("*model*"))


def test_packages_that_are_missing_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    run = make_run(tmp_path)
    with pytest.raises(ConfigError, match=r"needs onnx, onnxscript, onnxruntime, which './run\.sh export' installs"):
        export.export(ExportOptions(run=run, out=str(tmp_path / "model.onnx")))
    export.export(ExportOptions(run=run, out=str(tmp_path / "model.pt2")))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["OUT=a.onnx"], "RUN is missing"),
        (["RUN=."], "OUT is missing"),
        (["RUN=.", "OUT=a.h5"], "OUT=a.h5 is of no known kind: use a name that ends in .onnx or .pt2"),
        (["RUN=.", "OUT=nowhere/a.pt2"], "the directory nowhere does not exist"),
        (["RUN=nowhere", "OUT=a.pt2"], "nowhere is not a run directory"),
    ],
)
def test_wrong_words_are_told(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        export.main(words)
