"""``./run.sh agents``: agent processes for a server on another machine, replaced when they die. Never imports torch."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterable

from ga3c.agents.deaths import DEATHS_WINDOW
from ga3c.agents.joining import RUN_OVER, UNFIT, RemoteTask, run_remote_agent
from ga3c.agents.places.local import LocalPlace
from ga3c.agents.places.place import Place, how_it_ended
from ga3c.agents.supervision import Supervision
from ga3c.messages.keys import read_agent_keys
from ga3c.settings.commands import AgentsOptions
from ga3c.settings.declare import read_words
from ga3c.system.limits import available_cores, raise_limits, why_not_started
from ga3c.system.logs import RunLog, screen_handler
from ga3c.system.signals import stop_requests

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
START_AGAIN_SECONDS = 10.0  # after the system refused a process
LEAVE_SECONDS = 1.0  # for all to end, before they are killed


class RemoteCrew:
    """The processes of one machine."""

    def __init__(
        self,
        options: AgentsOptions,
        log_queue: multiprocessing.Queue[logging.LogRecord],
        interrupted: threading.Event,
        place: Place | None = None,
    ) -> None:
        self._server = options.server
        self._keys = read_agent_keys(options.keys) if options.keys else None
        self._count = options.agents or available_cores()
        raise_limits(self._count)
        self._log_queue = log_queue
        self._interrupted = interrupted
        self._supervision = Supervision(place or LocalPlace())
        self._steps = multiprocessing.get_context("spawn").RawArray(ctypes.c_uint64, self._count)

    def run(self) -> int:
        """Until the server's run is over (0), Ctrl-C (0), or there is no point in going on (1)."""
        log.info("%d agents for %s; Ctrl-C ends them", self._count, self._server)
        try:
            while not self._interrupted.is_set():
                self._start_missing()
                self._supervision.wait(LOOK_SECONDS)
                if (code := self._reap()) is not None:
                    return code
            return 0
        finally:
            self._stop()

    def _start_missing(self) -> None:
        if not self._supervision.may_start:
            return
        for number in range(self._count):
            if number not in self._supervision.agents:
                task = RemoteTask(self._server, self._keys, number, self._steps)
                try:
                    self._supervision.start(number, (run_remote_agent, (task, self._log_queue)))
                except OSError as error:
                    self._supervision.pause(START_AGAIN_SECONDS)
                    log.warning("%s", why_not_started(error, self._count))
                    return

    def _reap(self) -> int | None:
        """Notice who ended; returns the exit code if that is the end of all."""
        deaths = self._supervision.deaths
        for number, agent in list(self._supervision.agents.items()):
            if agent.process.is_alive():
                continue
            del self._supervision.agents[number]
            if agent.process.exitcode == RUN_OVER:
                log.info("the run of %s is over", self._server)
                return 0
            if agent.process.exitcode == UNFIT:
                return 1
            end = how_it_ended(agent.process)
            self._supervision.note_death(agent, end, sum(self._steps))
            if deaths.too_many(end, self._count):
                log.error("%d agents died within %.0f s; the last %s", deaths.count(end), DEATHS_WINDOW, end)
                return 1
            log.warning("an agent %s and is replaced", end)
        return None

    def _stop(self) -> None:
        until = time.monotonic() + LEAVE_SECONDS
        processes = [agent.process for agent in self._supervision.agents.values()]
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(max(until - time.monotonic(), 0.0))
        self._supervision.end()


def main(words: Iterable[str]) -> int:
    options = AgentsOptions(**read_words(AgentsOptions, words))
    run_log = RunLog(None, screen_handler(sys.stderr))
    try:
        with stop_requests(last=True) as interrupted:
            return RemoteCrew(options, run_log.queue, interrupted).run()
    finally:
        run_log.close()
