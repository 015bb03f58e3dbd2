"""What each stage of the way of a step costs on one thread: environments, messages, predictions and updates.

``calibrate`` takes some of them for the simulator, with every core busy; ``bench`` shows them all, on an idle machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from torch import Tensor

from experiments.bench.sizes import PREDICTED, QUICKLY_STEPPED, RATIO_BATCH, STEPPED, networks_of
from experiments.processes import Orders
from ga3c.algorithms.actor_critic.loss import actor_critic_loss
from ga3c.engines.workers import Learner
from ga3c.games.make import make_games
from ga3c.games.spec import EnvSpec, Games
from ga3c.memory.experience import Experience
from ga3c.memory.stats import Stats
from ga3c.messages import wire
from ga3c.messages.wire import Header, Kind, Request
from ga3c.models.batches import Batches
from ga3c.models.pixels import MEASURED_FRAMES
from ga3c.settings.config import Config
from ga3c.system.private_directory import PrivateDirectory

Stages = dict[str, Callable[[], Any]]


def make_learner(config: Config, spec: EnvSpec) -> Learner:
    """A model to measure on, with weights that hardly move and no experience that is too old for them."""
    learner = Learner(config.replace(max_lag=0, learning_rate=1e-9, torch_threads=1), spec, Stats())
    settle(learner)
    return learner


def settle(learner: Learner) -> None:
    """As after the first frames of a run: the pixels' mean and deviation are measured at its start only."""
    number, arrays = learner.model.state()
    arrays["pixels"][0] = MEASURED_FRAMES
    learner.model.load(number, arrays)


def make_experiences(spec: EnvSpec, samples: int, t_max: int) -> list[Experience]:
    """Experiences of ``t_max`` steps, and a shorter last one, that together have this many samples."""
    random = np.random.default_rng(samples)
    experiences = []
    for first in range(0, samples, t_max):
        steps = min(t_max, samples - first)
        frames = random.integers(0, 255, (spec.stack - 1 + steps, *spec.frame)).astype(spec.dtype)
        actions = random.integers(spec.actions, size=steps, dtype=np.int32)
        experiences.append(Experience(0, 0, 0, 0, frames, actions, random.random(steps, dtype=np.float32)))
    return experiences


def make_observations(spec: EnvSpec, count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 255, (count, *spec.observation)).astype(spec.dtype)


def step_stage(games: Games, seed: int) -> Callable[[], Any]:
    """One step of all these environments with random actions."""
    games.reset(seed)
    random = np.random.default_rng(seed)
    return lambda: games.step(random.integers(games.spec.actions, size=games.count))


def forward_stage(learner: Learner, count: int) -> Callable[[], Any]:
    """The model alone, on a batch that is there."""
    spec = learner.model.network.spec
    batch = Batches(spec, learner.model.device).prediction([make_observations(spec, count)])
    return partial(learner.model.predict, batch)


def predict_stage(learner: Learner, count: int) -> Callable[[], Any]:
    """All that a predictor does for this many requests of one observation: batch, forward, replies."""
    observations = make_observations(learner.model.network.spec, count)
    requests = [Request(agent, 0, 0, b"\1", observations[agent : agent + 1]) for agent in range(count)]
    return partial(learner.predictor(0).predict, requests)


def update_stage(learner: Learner, config: Config, samples: int) -> Callable[[], Any]:
    """All that a trainer does for one update."""
    return partial(learner.trainer().train, make_experiences(learner.model.network.spec, samples, config.t_max))


def gradient_stage(learner: Learner, config: Config, samples: int) -> Callable[[], Any]:
    """Forward and backward alone, on a batch that is there."""
    model = learner.model
    experiences = make_experiences(model.network.spec, samples, config.t_max)
    batch = Batches(model.network.spec, model.device).training(experiences)

    def loss(weights: Tensor) -> Tensor:
        policies, values = model.network.forward(weights, batch.observations)
        return actor_critic_loss(
            policies,
            values,
            batch.actions,
            batch.returns,
            beta=config.beta,
            log_epsilon=config.log_epsilon,
            value_cost=config.value_cost,
        ).total

    return lambda: model.gradient(loss)[1].sum().item()  # which also waits for a device


def message_stages(spec: EnvSpec, counts: tuple[int, ...], t_max: int) -> Stages:
    """To encode and decode a request with its reply, and an experience: what each costs both ends together."""
    header, answer = Header(Kind.REQUEST, 1, 1).pack(), Header(Kind.REPLY, 1, 1)

    def request(observations: np.ndarray, policies: np.ndarray, values: np.ndarray) -> None:
        head, body = wire.encode_request(header, 0, b"\1" * len(observations), observations)
        wire.decode_request(wire.read_header(head), head, body, spec)
        head, _ = wire.encode_reply(answer, policies, values)
        wire.decode_reply(wire.read_header(head), head)

    def experience(whole: Experience) -> None:
        head, body = wire.encode_experience(1, 0, whole)
        wire.decode_experience(wire.read_header(head), head, body, spec)

    stages: Stages = {}
    for count in counts:
        policies = np.full((count, spec.actions), 1 / spec.actions, np.float32)
        stages[f"code request {count}"] = partial(
            request, make_observations(spec, count), policies, np.zeros(count, np.float32)
        )
    stages[f"code experience {t_max}"] = partial(experience, make_experiences(spec, t_max, t_max)[0])
    return stages


class Wire:
    """ZeroMQ alone: both ends of a connection in one thread, of the kind that agents and server have."""

    def __init__(self, spec: EnvSpec, directory: Path) -> None:
        self._spec = spec
        self._context = zmq.Context()
        self._router, self._dealer = self._context.socket(zmq.ROUTER), self._context.socket(zmq.DEALER)
        for end in (self._router, self._dealer):
            end.setsockopt(zmq.LINGER, 0)
        endpoint = f"ipc://{directory / 'wire'}" if zmq.has("ipc") else "tcp://127.0.0.1:*"
        self._router.bind(endpoint)
        self._dealer.connect(self._router.getsockopt_string(zmq.LAST_ENDPOINT))

    def stages(self, counts: tuple[int, ...]) -> Stages:
        """A request of so many observations to the server's end, and its reply back."""
        return {f"wire {count}": partial(self._round, make_observations(self._spec, count)) for count in counts}

    def _round(self, observations: np.ndarray) -> None:
        self._dealer.send_multipart([b"head", observations.data.cast("B")])
        sender, _, _ = self._router.recv_multipart(copy=False)
        self._router.send_multipart([sender.bytes, bytes(4 * len(observations) * (self._spec.actions + 1))])
        self._dealer.recv()

    def close(self) -> None:
        self._dealer.close()
        self._router.close()
        self._context.term()


def seconds_of(stage: Callable[[], Any], seconds: float) -> float:
    """The mean of the calls that begin within this time; at least one."""
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() - start < seconds:
        stage()
        count += 1
    return (time.perf_counter() - start) / count


def network_stages(config: Config, spec: EnvSpec, network: str, *, quick: bool) -> Stages:
    """Forwards, gradients and updates of one network by batch size."""
    config = config.replace(network=network)
    learner = make_learner(config, spec)
    stages = {f"forward {network} {count}": forward_stage(learner, count) for count in PREDICTED}
    for samples in {RATIO_BATCH} if quick else sorted({RATIO_BATCH, config.min_batch or 1}):
        stages[f"gradient {network} {samples}"] = gradient_stage(learner, config, samples)
        stages[f"update {network} {samples}"] = update_stage(learner, config, samples)
    return stages


def measure_stages(orders: Orders, config: Config, seconds: float, quick: bool) -> None:
    """The body of a process: with each order, the seconds of every stage once more."""
    counts = QUICKLY_STEPPED if quick else STEPPED
    games = [make_games(config, count) for count in counts]
    spec = games[0].spec
    stages: Stages = {f"step {some.count}": step_stage(some, config.seed) for some in games}
    stages |= message_stages(spec, counts, config.t_max)
    with contextlib.closing(PrivateDirectory()) as directory:
        sockets = Wire(spec, directory.path)
        stages |= sockets.stages(counts)
        for network in networks_of(spec):
            stages |= network_stages(config, spec, network, quick=quick)
        for stage in stages.values():
            stage()  # the first call of each prepares more than it computes
        orders.answer()
        while orders.next()[0] == "measure":
            orders.answer({name: seconds_of(stage, seconds) for name, stage in stages.items()})
        sockets.close()
