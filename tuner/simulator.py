"""A discrete-event model of the whole system: agents, queues, predictors, trainers, cores and device.

Many settings are simulated side by side, one event of each per round, with one array element per setting: a machine's
whole landscape takes seconds. What is modelled:

- Agents play, ask for a prediction and wait for it. They share the cores with all else that computes there; the
  server's threads have the better priority.
- A predictor takes all requests that wait as one batch, a trainer a batch of experiences. Each batch is first prepared
  on the host (partly under Python's lock, so threads hold each other up), then computed on the device: a GPU that all
  threads share, or a core of their own.
- While the training queue is full, predictors wait.

Agents are alike, so it is enough to count how many play and how many wait; what they play flows into the training
queue evenly, as staggered experiences do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tuner.space import Setting
from tuner.strategy import System

Array = NDArray[np.float64]

IDLE, HOST, DEVICE = 0, 1, 2  # what a thread does
# Durations vary by up to this share; if they did not, agents and threads would fall into step with each other.
TURNS_VARY, WORK_VARIES = 0.8, 0.3
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Machine:
    """What things cost on a machine, in seconds."""

    cores: float
    gpu: bool
    env_step: float  # one step of one environment, on a core
    agent_turn: float  # one request and its reply in an agent, on a core
    predict_host: float  # of a batch
    predict_host_each: float  # of each request in it, with its part of the exchange
    predict_base: float  # on the device, of a batch
    predict_each: float  # of each observation in it
    train_host: float
    train_base: float
    train_each: float
    lock: float  # share of the host's work that holds Python's lock
    crowding: float  # a core's loss to each doubling of agents per core: caches, switches
    switching: float  # loss of host and device to each further thread that is at work there
    priority: float = 3.0  # weight of a thread of the server against an agent, where cores are short
    overlap: float = 0.0  # how much of a GPU's time a second batch at once can still use
    largest_prediction: int = 256  # observations
    queue_batches: float = 2.0  # training batches that may wait


COSTS = tuple(field.name for field in fields(Machine))


@dataclass(frozen=True)
class SteadyRates:
    """Steady rates, one element per setting."""

    tps: Array
    pps: Array
    prediction_batch: Array  # observations, mean
    training_queue: Array  # experiences, mean


def simulate(
    machines: Machine | Sequence[Machine], system: System, settings: Sequence[Setting], *, rounds: int = 6000
) -> SteadyRates:
    """Run each setting for that many events, and measure the last three quarters of them.

    Several machines have all settings of the first one first, then those of the second, and so on.
    """
    simulation = _Simulation([machines] if isinstance(machines, Machine) else machines, system, settings)
    for _ in range(rounds // 4):
        simulation.advance()
    simulation.reset_counts()
    for _ in range(rounds - rounds // 4):
        simulation.advance()
    return simulation.rates()


class _Simulation:
    """All settings at once: arrays have a row for each (of each machine), and threads as columns, predictors first."""

    def __init__(self, machines: Sequence[Machine], system: System, settings: Sequence[Setting]) -> None:
        numbers = np.array(settings, dtype=np.int64).reshape(-1, 3)
        predictors, trainers = int(numbers[:, 1].max()), int(numbers[:, 2].max())
        count = len(numbers) * len(machines)
        self._rows = np.arange(count)
        self._costs = {
            name: np.repeat([float(getattr(machine, name)) for machine in machines], len(numbers)) for name in COSTS
        }
        self._gpu = self._costs["gpu"] > 0
        numbers = np.tile(numbers, (len(machines), 1))
        self._agents = numbers[:, 0].astype(float)
        self._predictors = predictors
        thread = np.arange(predictors + trainers)
        # The threads that a setting has.
        self._there = np.where(thread < predictors, thread < numbers[:, 1:2], thread - predictors < numbers[:, 2:3])

        halves = 2 if system.envs_per_agent > 1 else 1
        self._envs = system.envs_per_agent / halves  # of a player, the part of an agent that waits as one
        self._t_max = system.t_max
        self._batch = -(-system.min_batch // system.t_max) * system.t_max  # whole experiences
        self._queue_bound = self._costs["queue_batches"] * self._batch
        self._most_players = np.maximum(1.0, self._costs["largest_prediction"] // self._envs)
        crowd = 1 + self._costs["crowding"] * np.log2(np.maximum(self._agents / self._costs["cores"], 1.0))
        self._turn = (self._costs["env_step"] * self._envs + self._costs["agent_turn"]) * crowd

        self._spread = 0.5
        self._playing = np.zeros(count)
        self._asking = self._agents * halves  # every player asks for its first prediction at the start
        self._queue = np.zeros(count)  # samples
        self._next_turn = np.full(count, self._vary(TURNS_VARY))
        self._phase = np.zeros(self._there.shape, dtype=np.int8)
        self._left = np.full(self._there.shape, np.inf)  # work left in the phase
        self._size = np.zeros(self._there.shape)  # players of a predictor's batch
        self.reset_counts()
        self._start_predictions()

    def reset_counts(self) -> None:
        self._time = np.zeros(len(self._agents))
        self._steps = np.zeros_like(self._time)
        self._batches = np.zeros_like(self._time)
        self._predicted = np.zeros_like(self._time)
        self._queued = np.zeros_like(self._time)  # samples × seconds

    def rates(self) -> SteadyRates:
        # In a steady state all that is played is trained; steps are counted more finely than updates.
        pps = self._steps / self._time
        queue = self._queued / self._time
        return SteadyRates(
            tps=pps / self._batch,
            pps=pps,
            prediction_batch=self._predicted * self._envs / np.maximum(self._batches, 1),
            training_queue=queue / self._t_max,
        )

    def advance(self) -> None:
        """To the next event of every setting."""
        turn_rate, thread_rate = self._speeds()
        with np.errstate(divide="ignore", invalid="ignore"):
            until_turn = np.where(turn_rate > 0, self._next_turn / turn_rate, np.inf)
            until_thread = np.where(thread_rate > 0, self._left / thread_rate, np.inf)
        thread = until_thread.argmin(axis=1)
        first_thread = until_thread[self._rows, thread]
        turns = until_turn <= first_thread
        step = np.minimum(until_turn, first_thread)
        self._time += step
        self._queued += step * self._queue
        self._next_turn -= step * turn_rate
        self._left -= step[:, None] * thread_rate
        self._end_turns(turns)
        self._end_phases(~turns, thread)
        self._start_predictions()
        self._start_trainings()

    def _speeds(self) -> tuple[Array, Array]:
        """How quickly agents take turns, and each thread's work gets done, by who else computes."""
        host = self._phase == HOST
        device = self._phase == DEVICE
        hosts, devices = host.sum(axis=1), device.sum(axis=1)
        players = np.minimum(self._playing, self._agents)  # the two halves of an agent are one process
        unlocked = np.minimum(hosts, 1 / self._costs["lock"])
        threads = unlocked + np.where(self._gpu, 0, devices)
        speed, turn_speed = _share(self._costs["cores"], self._costs["priority"], threads, players)
        switching, overlap = self._costs["switching"], self._costs["overlap"]
        host_speed = speed * unlocked / np.maximum(hosts, 1) / (1 + switching * np.maximum(hosts - 1, 0))
        at_once = (1 + overlap * (devices > 1)) / (1 + switching * np.maximum(devices - 1, 0))
        device_speed = np.where(self._gpu, at_once / np.maximum(devices, 1), speed)
        rates = host * host_speed[:, None] + device * device_speed[:, None]
        return turn_speed * players / self._turn, rates

    def _end_turns(self, ended: NDArray[np.bool_]) -> None:
        self._playing -= ended
        self._asking += ended
        self._steps += ended * self._envs
        self._queue += ended * self._envs
        # The same work for all settings, so that they compare.
        self._next_turn = np.where(ended, self._vary(TURNS_VARY), self._next_turn)

    def _end_phases(self, ended: NDArray[np.bool_], thread: NDArray[np.int64]) -> None:
        rows = self._rows[ended]
        columns = thread[ended]
        prepared = self._phase[rows, columns] == HOST
        self._begin_device(rows[prepared], columns[prepared])
        rows, columns = rows[~prepared], columns[~prepared]
        self._phase[rows, columns] = IDLE
        self._left[rows, columns] = np.inf
        self._playing[rows] += self._size[rows, columns]  # answers; a trainer's size is 0
        self._size[rows, columns] = 0

    def _begin_device(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> None:
        costs = self._costs
        predicts = columns < self._predictors
        samples = np.where(predicts, self._size[rows, columns] * self._envs, self._batch)
        self._phase[rows, columns] = DEVICE
        self._left[rows, columns] = self._vary(WORK_VARIES) * np.where(
            predicts,
            costs["predict_base"][rows] + costs["predict_each"][rows] * samples,
            costs["train_base"][rows] + costs["train_each"][rows] * samples,
        )

    def _start_predictions(self) -> None:
        idle = self._there[:, : self._predictors] & (self._phase[:, : self._predictors] == IDLE)
        rows = np.flatnonzero(idle.any(axis=1) & (self._asking > 0) & (self._queue < self._queue_bound))
        columns = idle[rows].argmax(axis=1)
        players = np.minimum(self._asking[rows], self._most_players[rows])
        self._asking[rows] -= players
        self._size[rows, columns] = players
        self._phase[rows, columns] = HOST
        work = self._costs["predict_host"][rows] + self._costs["predict_host_each"][rows] * players
        self._left[rows, columns] = self._vary(WORK_VARIES) * work
        self._batches[rows] += 1
        self._predicted[rows] += players

    def _start_trainings(self) -> None:
        idle = self._there[:, self._predictors :] & (self._phase[:, self._predictors :] == IDLE)
        rows = np.flatnonzero(idle.any(axis=1) & (self._queue >= self._batch))
        columns = self._predictors + idle[rows].argmax(axis=1)
        self._queue[rows] -= self._batch
        self._phase[rows, columns] = HOST
        self._left[rows, columns] = self._vary(WORK_VARIES) * self._costs["train_host"][rows]

    def _vary(self, width: float) -> float:
        """A factor around 1. Evenly spread rather than drawn, so that rates settle quickly."""
        self._spread = (self._spread + GOLDEN) % 1.0
        return 1.0 + width * (2.0 * self._spread - 1.0)


def _share(cores: Array, priority: Array, threads: Array, players: Array) -> tuple[Array, Array]:
    """The speed of each of the server's threads and of each agent that wants a core."""
    weights = priority * threads + players
    speed = np.minimum(1.0, cores * priority / np.maximum(weights, 1e-9))
    return speed, np.minimum(1.0, (cores - threads * speed) / np.maximum(players, 1e-9))
