"""The server: one model, the queues, and as many agents, predictors and trainers as wanted, also while it runs."""

from __future__ import annotations

import logging
import secrets
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ga3c.agents.crew import Agents
from ga3c.agents.places.place import Task
from ga3c.agents.player import halves
from ga3c.agents.process import AgentTask, run_agent
from ga3c.agents.visitors import RemoteAgents
from ga3c.algorithms.rule import make_acting
from ga3c.engines.engine import LOOK_SECONDS, STOP_SECONDS, LogQueue
from ga3c.games.spec import EnvSpec
from ga3c.memory.intake import Intake
from ga3c.memory.memory import make_memory
from ga3c.memory.queue import Queue
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Request
from ga3c.messages import wire
from ga3c.messages.compression import offered
from ga3c.messages.exchange import Exchange
from ga3c.settings.config import Resolved
from ga3c.system.limits import available_cores, resident_memory

if TYPE_CHECKING:
    from ga3c.engines.workers import Workers
    from ga3c.messages.gate import Gate
    from ga3c.models.model import TrainableModel

log = logging.getLogger(__name__)

BATCH_SECONDS = 60.0  # for all threads to finish what they are at: an update of a large network takes seconds


class Worker(threading.Thread):
    """A thread whose failure is kept and reported, never lost."""

    def __init__(
        self, name: str, body: Callable[[], None], leave: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        """``leave`` lets the body come to its end."""
        super().__init__(name=name, daemon=True)
        self.leave = leave
        self._body = body
        self._failed = failed

    def run(self) -> None:
        try:
            self._body()
        except BaseException as error:
            log.error("%s failed\n%s", self.name, traceback.format_exc())
            self._failed(error)


def _make_gate(config: Resolved, largest_message: int) -> Gate | None:
    """Where agents of other machines may join, if the settings say so."""
    if not config.listen:
        return None
    from ga3c.messages.gate import Gate
    from ga3c.messages.keys import read_server_keys

    keys = read_server_keys(config.keys) if config.keys else None
    return Gate(config.listen, keys, largest_message=largest_message)


class Server:
    """Owns everything of a parallel run.

    ``resize``, ``setting``, ``agents_started``, ``agents_playing`` and ``unsettled`` are for any thread; the rest for
    the one that ``wait``s.
    """

    def __init__(self, config: Resolved, spec: EnvSpec, stats: Stats, log_queue: LogQueue) -> None:
        self._config = config
        self._spec = spec
        self._stats = stats
        self._log_queue = log_queue
        self._failure: BaseException | None = None
        self._something = threading.Event()
        self._sizes = threading.Lock()
        self._workers: Workers | None = None
        self._predictors: list[Worker] = []
        self._trainers: list[Worker] = []
        self._retired: list[Worker] = []  # told to end, perhaps still at their last batch
        self.memory = make_memory(config, stats, bound=config.train_queue, on_room=lambda: self.requests.wake())
        # While trainers are behind, predictors wait, and with them the agents: that bounds memory and lag.
        self.requests: Queue[Request] = Queue(
            lambda request: len(request.observations),
            least=config.samplers if config.in_step else 1,
            most=config.max_prediction_batch,
            held=self.memory.hold,
        )
        self._run_id = secrets.randbits(64)
        largest_message = wire.largest_message(spec, config.envs_per_agent, config.t_max)
        self._exchange = Exchange(
            self._run_id,
            spec,
            make_acting(config, spec).schema,
            Intake(stats, self.requests.put, self.memory.add),
            stats,
            largest_message=largest_message,
            halves=len(halves(config)),
            gate=_make_gate(config, largest_message),
            welcome={**config.for_agents(), "compress": offered(config.compress)} if config.listen else None,
            on_leave=self._forget,
        )
        self._exchange_worker = Worker("exchange", self._exchange.run, self._exchange.close, self._fail)
        self._agents = Agents(config, self._exchange, stats, self._task)
        self._remote = RemoteAgents(config, self._exchange, stats)

    @property
    def setting(self) -> dict[str, int]:
        """NA, NP and NT as they are now; agents that still make their environments are counted."""
        crew = self._agents.crew
        return {
            "agents": crew.playing + crew.starting,
            "predictors": len(self._predictors),
            "trainers": len(self._trainers),
            "remote_agents": self._remote.playing,
        }

    @property
    def agents_started(self) -> int:
        """Agents of this machine, those included that took the place of others."""
        return self._agents.started

    @property
    def agents_playing(self) -> int:
        return self._agents.crew.playing

    def unsettled(self) -> str:
        """What still is not as ``resize`` wanted it, in words; empty: all agents play, and who had to leave is gone.

        Raises where agents were given up.
        """
        if self._agents.refusal:
            raise RuntimeError(self._agents.refusal)
        crew, wanted = self._agents.crew, self._agents.wanted
        with self._sizes:
            threads = sum(worker.is_alive() for worker in self._retired)
        parts = [
            f"{crew.playing} of {wanted} agents play" if crew.starting or crew.playing != wanted else "",
            f"{crew.leaving} agents have not left yet" if crew.leaving else "",
            f"{threads} threads have not left yet" if threads else "",
        ]
        return ", ".join(part for part in parts if part)

    def agent_memory(self) -> float:
        """Bytes of the largest agent; 0 where they cannot be read."""
        return max(map(resident_memory, self._agents.process_ids()), default=0.0)

    def prepare(self) -> TrainableModel:
        """Start as many agents as leave a core for making the model, which takes as long as their environments do."""
        self._exchange_worker.start()
        self._agents.want(min(self._config.agents, max(1, available_cores() - 1)))
        self._agents.tend()
        self._workers = self._make_workers()
        return self._workers.model

    def _make_workers(self) -> Workers:
        from ga3c.engines.workers import Workers  # torch, which takes as long to import as agents to start

        return Workers(self._config, self._spec, self.memory, self._stats)

    def start(self, saved: dict[str, Any] | None = None) -> None:
        """Start to predict and to train, with all agents. Games that were under way are not gone on with."""
        self.resize(agents=self._config.agents, predictors=self._config.predictors, trainers=self._config.trainers)

    def resize(self, *, agents: int | None = None, predictors: int | None = None, trainers: int | None = None) -> None:
        """Change NA, NP and NT of the running server: agents follow within a second, threads after their batch."""
        with self._sizes:
            self._retired = [worker for worker in self._retired if worker.is_alive()]
            if agents is not None:
                self._agents.want(agents)
                self._something.set()
            if predictors is not None:
                self._resize(self._predictors, predictors, self._make_predictor)
            if trainers is not None:
                self._resize(self._trainers, trainers, self._make_trainer)

    def wait(self, seconds: float) -> None:
        """Look after agents and queues for this long. Raises what a thread failed with."""
        until = time.monotonic() + seconds
        while True:
            self._agents.tend()
            self._remote.tend()
            self._stats.look(len(self.requests), len(self.memory), self.memory.full)
            if self._failure is not None:
                raise RuntimeError(f"a thread of the server failed: {self._failure}") from self._failure
            left = until - time.monotonic()
            if left <= 0:
                return
            self._something.wait(min(left, LOOK_SECONDS))
            self._something.clear()

    def stop(self) -> None:
        """End agents, threads and sockets. What waits in the training queue is counted as lost, and nothing else is."""
        self.requests.close()
        self._remote.tell_to_leave()
        self._agents.stop(STOP_SECONDS)
        self._remote.stop()
        self._exchange_worker.leave()
        if self._exchange_worker.ident is None:
            self._exchange.run()  # it never began, and so closes its sockets here
        self.memory.close()
        until = time.monotonic() + BATCH_SECONDS
        for worker in (*self._predictors, *self._trainers, *self._retired, self._exchange_worker):
            if worker.is_alive():
                worker.join(max(until - time.monotonic(), 0.0))
            if worker.is_alive():
                log.warning("%s did not end in time", worker.name)
        self.memory.give_up()
        self._stats.close_ledger()
        if self._workers is not None:
            self._workers.close()

    def state(self) -> None:
        """Where agents in other processes are cannot be told."""

    def _task(self, agent: int) -> Task:
        return run_agent, (AgentTask(self._config, self._exchange.endpoint, self._run_id, agent), self._log_queue)

    def _forget(self, agent: int) -> None:
        """An agent left: where all play in step, its place is that of another one now."""
        self.requests.discard(lambda request: request.agent == agent)
        self.memory.forget(agent)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._something.set()

    def _make_predictor(self) -> Worker:
        assert self._workers is not None
        queue, predictor = self.requests.consumer(), self._workers.predictor()
        return Worker("predictor", lambda: predictor.run(queue, self._exchange.reply), queue.close, self._fail)

    def _make_trainer(self) -> Worker:
        assert self._workers is not None
        queue, trainer = self.memory.consumer(), self._workers.trainer()
        return Worker("trainer", lambda: trainer.run(queue), queue.close, self._fail)

    def _resize(self, workers: list[Worker], count: int, make: Callable[[], Worker]) -> None:
        while len(workers) < count:
            worker = make()
            worker.start()
            workers.append(worker)
        while len(workers) > count:
            worker = workers.pop()
            worker.leave()
            self._retired.append(worker)
