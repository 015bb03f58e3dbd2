"""NETWORK=module:Class: a torch module of the user as the body of a network, under the heads of the rule.

Its weights are views of the flat vector, as those of all networks are. So it must keep nothing itself: it is tried with
a few observations when it is made, and what does not fit is told before anything starts.
"""

from __future__ import annotations

import copy
import importlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from ga3c.games.spec import EnvSpec
from ga3c.settings.declare import ConfigError

TRIED = 3  # observations that it is tried with
TOLERANCE = 1e-3  # of features, alone and beside others: batches of other sizes round in other ways


class OwnBody:
    """From observations (n, stack, *frame) in float32 to features (n, k), by the first ``size`` numbers of a vector."""

    def __init__(self, name: str, spec: EnvSpec) -> None:
        self._name = name
        self._shape = spec.observation
        self._maker = _find(name)
        self._module = self._make(seed=0)
        self._shapes = {key: parameter.shape for key, parameter in self._module.named_parameters()}
        self._frozen = {key for key, parameter in self._module.named_parameters() if not parameter.requires_grad}
        self._constants: dict[torch.device, dict[str, Tensor]] = {}
        self._of_thread = threading.local()
        self.size = sum(map(math.prod, self._shapes.values()))
        self.features = self._try()

    def __call__(self, flat: Tensor, observations: Tensor) -> Tensor:
        features: Tensor = self._run(flat, observations)
        return features.flatten(1)

    def initial(self, seed: int) -> Tensor:
        """The first weights: those that the module is made with, whatever INIT says."""
        return _flat(self._make(seed))

    def _run(self, flat: Tensor, observations: Tensor) -> Any:
        parts = torch.split(flat[: self.size], [math.prod(shape) for shape in self._shapes.values()])
        given = dict(self._buffers(flat.device))
        for part, (key, shape) in zip(parts, self._shapes.items(), strict=True):
            given[key] = (part.detach() if key in self._frozen else part).view(shape)
        return torch.func.functional_call(self._structure(), given, (observations,))

    def _buffers(self, device: torch.device) -> dict[str, Tensor]:
        """Those of the module, which it never changes."""
        if device not in self._constants:
            self._constants[device] = {key: buffer.to(device) for key, buffer in self._module.named_buffers()}
        return self._constants[device]

    def _structure(self) -> nn.Module:
        """The module for this thread: while ``functional_call`` lasts, the weights that it is given stand in it."""
        if not hasattr(self._of_thread, "module"):
            shared = {id(tensor): tensor for tensor in (*self._module.parameters(), *self._module.buffers())}
            self._of_thread.module = copy.deepcopy(self._module, shared)
        module: nn.Module = self._of_thread.module
        return module

    def _make(self, seed: int) -> nn.Module:
        """Made and called once, which gives lazy layers their sizes. The dice of the process stay as they are."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            with self._blamed(f"could not be made for observations of {self._shape}"):
                module = self._maker(self._shape)
            if not isinstance(module, nn.Module):
                raise self._misfit(f"gives a {type(module).__name__}, not a torch.nn.Module")
            with torch.no_grad(), self._blamed(f"failed with observations of {(TRIED, *self._shape)}"):
                module(self._observations())
        return module

    def _observations(self) -> Tensor:
        return torch.rand((TRIED, *self._shape), generator=torch.Generator().manual_seed(1))

    def _try(self) -> int:
        """How many features it gives; refused where it does not fit."""
        for key, parameter in self._module.named_parameters():
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
                raise self._misfit(f"has {key} in {parameter.dtype} on {parameter.device}, not in float32 on the CPU")
        flat = _flat(self._module).requires_grad_()
        kept = {key: buffer.clone() for key, buffer in self._buffers(flat.device).items()}
        features = self._features(flat, self._observations())
        for key, buffer in self._buffers(flat.device).items():
            if not torch.equal(buffer, kept[key]):
                raise self._misfit(
                    f"changes its buffer {key}, as batch normalization does, but only weights are kept: "
                    "use LayerNorm or GroupNorm"
                )
        if not torch.equal(self._features(flat, self._observations()), features):
            raise self._misfit("gives other features when it is asked again, as dropout does: leave that out")
        alone = self._features(flat, self._observations()[:1])
        if not torch.allclose(alone, features[:1], rtol=TOLERANCE, atol=TOLERANCE):
            raise self._misfit("gives other features for an observation that is alone than beside others")
        self._try_training(flat)
        return features.shape[1]

    def _features(self, flat: Tensor, observations: Tensor) -> Tensor:
        count = len(observations)
        with self._blamed(f"failed with observations of {tuple(observations.shape)}"):
            features = self._run(flat, observations)
        if not isinstance(features, Tensor) or features.dtype != torch.float32:
            kind = features.dtype if isinstance(features, Tensor) else type(features).__name__
            raise self._misfit(f"returns {kind} instead of a tensor of float32")
        if features.ndim < 2 or len(features) != count or not features.numel():
            shape = tuple(features.shape)
            raise self._misfit(f"returns the shape {shape} for {count} observations, not ({count}, features)")
        if not torch.isfinite(features).all():
            raise self._misfit("returns features that are not finite")
        return features.flatten(1).detach()

    def _try_training(self, flat: Tensor) -> None:
        """A gradient, of observations as they lie in memory then: images with the stack last."""
        observations = self._observations().movedim(1, -1).contiguous().movedim(-1, 1)
        with self._blamed("failed with images whose channels are last in memory"):
            total = self._run(flat, observations).square().sum()
        if not total.requires_grad:
            return  # nothing in it is trained
        with self._blamed("has no gradient"):
            (gradient,) = torch.autograd.grad(total, flat)
        if not torch.isfinite(gradient).all():
            raise self._misfit("has a gradient that is not finite")

    def _misfit(self, reason: str) -> ConfigError:
        return ConfigError(f"NETWORK={self._name} {reason}")

    @contextmanager
    def _blamed(self, failed: str) -> Iterator[None]:
        """What the user's code raises, in a sentence."""
        try:
            yield
        except Exception as error:
            raise self._misfit(f"{failed}: {type(error).__name__}: {error}") from error


def _flat(module: nn.Module) -> Tensor:
    return torch.cat([torch.zeros(0), *(parameter.detach().flatten() for parameter in module.parameters())])


def _find(name: str) -> Callable[..., Any]:
    """What makes the module: a class, or a function."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = reduce(getattr, attribute.split("."), importlib.import_module(module))
    except AttributeError:
        again = ": define it anew, or write it to a file of its own" if module == "__main__" else ""
        raise ConfigError(f"NETWORK={name} cannot be found: {module} has no {attribute}{again}") from None
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"NETWORK={name} cannot be found: {error}. Is its file in the directory where you are?"
        ) from None
    except Exception as error:  # whatever the user's file does
        raise ConfigError(f"NETWORK={name} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found) or isinstance(found, nn.Module):
        raise ConfigError(
            f"NETWORK={name} is a {type(found).__name__}: name a class, or a function that makes a module"
        )
    maker: Callable[..., Any] = found
    return maker
