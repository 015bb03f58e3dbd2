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

from experiments.bench.stage_sizes import PREDICTED, QUICKLY_STEPPED, RATIO_BATCH, STEPPED, networks_of
from experiments.processes import Orders
from ga3c.algorithms.rule import make_acting, make_learning
from ga3c.engines.workers import Workers
from ga3c.games.make import make_games
from ga3c.games.spec import Discrete, EnvSpec, Games
from ga3c.memory.experience import Experience, Schema
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Request
from ga3c.messages import wire
from ga3c.messages.wire import Header, Kind
from ga3c.models.batches import Batches
from ga3c.models.model import TrainableModel
from ga3c.models.pixels import MEASURED_FRAMES
from ga3c.runs.resolve import resolve
from ga3c.settings.config import Config
from ga3c.system.private_directory import PrivateDirectory

Stages = dict[str, Callable[[], Any]]


def make_workers(config: Config, spec: EnvSpec) -> Workers:
    """A model to measure on, with weights that hardly move and no experience that is too old for them."""
    resolved = resolve(config.replace(max_lag=0, learning_rate=1e-9, torch_threads=1), spec)
    stats = Stats()
    workers = Workers(resolved, spec, make_memory(resolved, stats), stats)
    settle(workers.model)
    return workers


def settle(model: TrainableModel) -> None:
    """As after the first frames of a run: the pixels' mean and deviation are measured at its start only."""
    number, arrays = model.state()
    arrays["pixels"][0] = MEASURED_FRAMES
    model.load(number, arrays)


def make_experiences(config: Config, spec: EnvSpec, samples: int) -> tuple[list[Experience], Schema]:
    """Experiences of T_MAX steps, and a shorter last one, that together have this many samples."""
    random = np.random.default_rng(samples)
    schema = make_acting(resolve(config, spec), spec).schema
    experiences = []
    for first in range(0, samples, config.t_max):
        steps = min(config.t_max, samples - first)
        frames = random.integers(0, 255, (spec.stack - 1 + steps + schema.reached, *spec.frame)).astype(spec.dtype)
        fields = {
            field.name: random.uniform(max(0, field.low), min(1, field.high), (steps, *field.shape)).astype(field.dtype)
            for field in schema.fields
        }
        experiences.append(Experience(0, 0, 0, 0, frames, fields))
    return experiences, schema


def make_observations(spec: EnvSpec, count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 255, (count, *spec.observation)).astype(spec.dtype)


def step_stage(games: Games, seed: int) -> Callable[[], Any]:
    """One step of all these environments with random actions."""
    games.reset(seed)
    random = np.random.default_rng(seed)
    assert isinstance(games.spec.action, Discrete)
    actions = games.spec.action.n
    return lambda: games.step(random.integers(actions, size=games.count))


def forward_stage(workers: Workers, count: int) -> Callable[[], Any]:
    """The model alone, on a batch that is there."""
    spec = workers.model.network.spec
    batch = Batches(spec, workers.model.device).prediction([make_observations(spec, count)])
    return partial(workers.model.predict, batch)


def predict_stage(workers: Workers, count: int) -> Callable[[], Any]:
    """All that a predictor does for this many requests of one observation: batch, forward, an answer for each."""
    observations = make_observations(workers.model.network.spec, count)
    requests = [Request(agent, 0, 0, b"\1", observations[agent : agent + 1]) for agent in range(count)]
    return partial(workers.predictor().predict, requests)


def update_stage(workers: Workers, config: Config, samples: int) -> Callable[[], Any]:
    """All that a trainer does for one update."""
    experiences, _ = make_experiences(config, workers.model.network.spec, samples)
    return partial(workers.trainer().train, experiences)


def gradient_stage(workers: Workers, config: Config, samples: int) -> Callable[[], Any]:
    """Forward and backward alone, on a batch that is there."""
    model, spec = workers.model, workers.model.network.spec
    experiences, _ = make_experiences(config, spec, samples)
    batch = Batches(spec, model.device).training(experiences)
    learning = make_learning(resolve(config, spec), spec)
    # which also waits for a device
    return lambda: (
        model.gradient(lambda weights: learning.loss(weights, batch, 0, model.target.weights)).vector.sum().item()
    )


def message_stages(config: Config, spec: EnvSpec, counts: tuple[int, ...]) -> Stages:
    """To encode and decode a request with its reply, and an experience: what each costs both ends together."""
    answer = Header(Kind.REPLY, 1, 1)

    def request(asked: Request, outputs: np.ndarray) -> None:
        head, body = wire.encode_request(1, asked)
        wire.decode_request(wire.read_header(head), head, body, spec)
        head, _ = wire.encode_reply(answer, outputs)
        wire.decode_reply(wire.read_header(head), head)

    def experience(whole: Experience, schema: Schema) -> None:
        head, body = wire.encode_experience(1, 0, whole, schema)
        wire.decode_experience(wire.read_header(head), head, body, spec, schema)

    width = make_acting(resolve(config, spec), spec).width
    stages: Stages = {}
    for count in counts:
        asked = Request(1, 0, 0, b"\1" * count, make_observations(spec, count))
        stages[f"code request {count}"] = partial(request, asked, np.full((count, width), 1 / width, np.float32))
    (whole, *_), schema = make_experiences(config, spec, config.t_max)
    stages[f"code experience {config.t_max}"] = partial(experience, whole, schema)
    return stages


class Wire:
    """ZeroMQ alone: both ends of a connection in one thread, of the kind that agents and server have."""

    def __init__(self, spec: EnvSpec, width: int, directory: Path) -> None:
        self._spec, self._width = spec, width  # and the numbers of a prediction
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
        self._router.send_multipart([sender.bytes, bytes(4 * len(observations) * self._width)])
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
    workers = make_workers(config, spec)
    stages = {f"forward {network} {count}": forward_stage(workers, count) for count in PREDICTED}
    for samples in {RATIO_BATCH} if quick else sorted({RATIO_BATCH, resolve(config, spec).min_batch}):
        stages[f"gradient {network} {samples}"] = gradient_stage(workers, config, samples)
        stages[f"update {network} {samples}"] = update_stage(workers, config, samples)
    return stages


def measure_stages(orders: Orders, config: Config, seconds: float, quick: bool) -> None:
    """The body of a process: with each order, the seconds of every stage once more."""
    counts = QUICKLY_STEPPED if quick else STEPPED
    games = [make_games(config, count) for count in counts]
    spec = games[0].spec
    stages: Stages = {f"step {some.count}": step_stage(some, config.seed) for some in games}
    stages |= message_stages(config, spec, counts)
    with contextlib.closing(PrivateDirectory()) as directory:
        sockets = Wire(spec, make_acting(resolve(config, spec), spec).width, directory.path)
        stages |= sockets.stages(counts)
        for network in networks_of(spec):
            stages |= network_stages(config, spec, network, quick=quick)
        for stage in stages.values():
            stage()  # the first call of each prepares more than it computes
        orders.answer()
        while orders.next()[0] == "measure":
            orders.answer({name: seconds_of(stage, seconds) for name, stage in stages.items()})
        sockets.close()
