"""``export``: the model of a checkpoint as a file that needs none of us, for onnxruntime or ``torch.export.load``.

The file takes observations as ``Policy.make_env`` gives them, any number at a time, and gives the outputs that the rule
acts by. What is done to pixels is part of it. It is written only if it gives what the checkpoint gives.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from ga3c.models.network import Network
from ga3c.runs.policy import Policy, Saved
from ga3c.runs.resolve import probe
from ga3c.settings.commands import ExportOptions
from ga3c.settings.declare import ConfigError, read_words
from ga3c.system.files import replacing

INPUT, OUTPUT, ABOUT = "observations", "outputs", "ga3c.json"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # those of the extra "export"
GAMES, STEPS = 8, 8  # whose observations the file is checked with
SIZES = (1, 7, GAMES * STEPS)  # of the batches
MOST = 1e-4  # that an output may differ by, as a part of the largest one where that is above 1

Outputs = Callable[[np.ndarray], np.ndarray]


class Whole(nn.Module):
    """A network with its weights."""

    def __init__(self, network: Network, weights: Tensor) -> None:
        super().__init__()
        self._network = network
        self.register_buffer("weights", weights)

    def forward(self, observations: Tensor) -> Tensor:
        return self._network.outputs(self.get_buffer("weights"), observations)


def export(options: ExportOptions) -> tuple[Policy, float]:
    """Write the file; returns the policy, and the largest difference to it."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if options.onnx and missing:
        raise ConfigError(
            f"OUT={options.out} needs {', '.join(missing)}, which './run.sh export' installs, and pip as ga3c[export]; "
            "a name that ends in .pt2 needs nothing"
        )
    saved = Saved.load(options)
    policy = Policy(saved, probe(saved.config))
    with replacing(Path(options.out).expanduser()) as path:
        program = trace(policy)
        if options.onnx:
            write_onnx(program, path, about(policy))
        else:
            torch.export.save(program, path, extra_files={ABOUT: json.dumps(about(policy))})
        difference, largest = compare(policy, read_onnx(path) if options.onnx else read_pt2(path))
        if not difference <= MOST * max(largest, 1.0):  # also where it is no number
            raise RuntimeError(
                f"{options.out} was not written: its outputs differ from those of {policy.checkpoint} by up to "
                f"{difference:.1e}"
            )
    return policy, difference


def trace(policy: Policy) -> ExportedProgram:
    whole = Whole(policy.model.network, policy.model.version.weights)
    example = torch.zeros((2, *policy.spec.observation), dtype=getattr(torch, policy.spec.dtype))
    with torch.no_grad():
        return torch.export.export(whole, (example,), dynamic_shapes=({0: Dim("n")},))


def about(policy: Policy) -> dict[str, Any]:
    """What the file is of; other programs may read it, so its keys are an interface."""
    config = policy.config
    return {
        "game": config.game,
        "algo": config.algo,
        "network": config.network,
        "steps": policy.steps,
        "checkpoint": policy.checkpoint.name,
    }


def write_onnx(program: ExportedProgram, path: Path, what: dict[str, Any]) -> None:
    quiet = logging.getLogger("torch.onnx")  # it tells of packages that are not needed
    before = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.onnx.export(program, input_names=[INPUT], output_names=[OUTPUT], verbose=False)
    finally:
        quiet.setLevel(before)
    assert made is not None
    made.model.metadata_props[ABOUT] = json.dumps(what)
    made.save(path)


def read_onnx(path: Path) -> Outputs:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def outputs(observations: np.ndarray) -> np.ndarray:
        (found,) = session.run([OUTPUT], {INPUT: observations})
        return np.asarray(found)

    return outputs


def read_pt2(path: Path) -> Outputs:
    module = torch.export.load(path).module()

    def outputs(observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found: Tensor = module(torch.from_numpy(observations))
        return found.numpy()

    return outputs


def compare(policy: Policy, exported: Outputs) -> tuple[float, float]:
    """The largest difference between the two, and the largest output, with observations of the game."""
    observations = play_some(policy)
    differences, largest = [], 0.0
    for size in SIZES:
        ours = policy.outputs(observations[:size])
        differences.append(np.abs(exported(observations[:size]) - ours).max())
        largest = max(largest, float(np.abs(ours).max()))
    return float(np.max(differences)), largest


def play_some(policy: Policy) -> np.ndarray:
    env = policy.make_env(GAMES)
    try:
        observations, _ = env.reset(seed=0)
        seen = [observations]
        for _ in range(STEPS - 1):
            observations, *_ = env.step(policy.act(observations))
            seen.append(observations)
    finally:
        env.close()
    return np.concatenate(seen)


def main(words: list[str]) -> int:
    options = ExportOptions(**read_words(ExportOptions, words))
    policy, difference = export(options)
    spec = policy.spec
    width = policy.outputs(np.zeros(spec.observation, spec.dtype)).size
    print(f"{policy.config.game}, {policy.checkpoint}, {policy.steps} steps trained")
    print(f"takes {INPUT} (n, {', '.join(map(str, spec.observation))}) of {spec.dtype}")
    print(f"gives {OUTPUT} (n, {width}) of float32")
    print(f"they differ from those of the checkpoint by {difference:.1e} at most, for {SIZES[-1]} observations")
    print(f"written to {options.out}")
    return 0
