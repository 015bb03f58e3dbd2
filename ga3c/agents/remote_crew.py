"""``./run.sh agents``: agent processes for a server on another machine, replaced when they die. Never imports torch."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import sys
import threading
import time
from collections.abc import Iterable
from multiprocessing.context import SpawnProcess

from ga3c.agents.crew import clean_start
from ga3c.agents.deaths import DEATHS_WINDOW, Deaths, how_it_ended
from ga3c.agents.joining import RUN_OVER, UNFIT, RemoteTask, run_remote_agent
from ga3c.messages.keys import read_agent_keys
from ga3c.settings.commands import AgentsOptions
from ga3c.settings.declare import read_words
from ga3c.system.limits import available_cores, make_room, why_not_started
from ga3c.system.logs import SHORT, RunLog
from ga3c.system.signals import stop_requests

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
START_AGAIN_SECONDS = 10.0  # after the system refused a process
LEAVE_SECONDS = 1.0  # for all to end, before they are killed


class RemoteCrew:
    """The processes of one machine."""

    def __init__(
        self, options: AgentsOptions, log_queue: multiprocessing.Queue[logging.LogRecord], interrupted: threading.Event
    ) -> None:
        self._server = options.server
        self._keys = read_agent_keys(options.keys) if options.keys else None
        self._count = options.agents or available_cores()
        make_room(self._count)
        self._log_queue = log_queue
        self._interrupted = interrupted
        self._spawn = multiprocessing.get_context("spawn")
        self._processes: dict[int, SpawnProcess] = {}
        self._deaths = Deaths()
        self._started = 0.0  # the last of them
        self._start_after = 0.0

    def run(self) -> int:
        """Until the server's run is over (0), Ctrl-C (0), or there is no point in going on (1)."""
        log.info("%d agents for %s; Ctrl-C ends them", self._count, self._server)
        try:
            while not self._interrupted.is_set():
                self._start_missing()
                sentinels = [process.sentinel for process in self._processes.values()]
                multiprocessing.connection.wait(sentinels, timeout=LOOK_SECONDS)
                if (code := self._reap()) is not None:
                    return code
            return 0
        finally:
            self._stop()

    def _start_missing(self) -> None:
        if time.monotonic() < self._start_after:
            return
        for number in range(self._count):
            if number not in self._processes:
                task = RemoteTask(self._server, self._keys, speaks=number == 0)
                process = self._spawn.Process(
                    target=run_remote_agent, args=(task, self._log_queue), name=f"remote-{number}", daemon=True
                )
                try:
                    with clean_start():
                        process.start()
                except OSError as error:
                    self._start_after = time.monotonic() + START_AGAIN_SECONDS
                    log.warning("%s", why_not_started(error, self._count))
                    return
                self._processes[number] = process
                self._started = time.monotonic()

    def _reap(self) -> int | None:
        """Notice who ended; returns the exit code if that is the end of all."""
        for number, process in list(self._processes.items()):
            if process.is_alive():
                continue
            del self._processes[number]
            if process.exitcode == RUN_OVER:
                log.info("the run of %s is over", self._server)
                return 0
            if process.exitcode == UNFIT:
                return 1
            now, end = time.monotonic(), how_it_ended(process)
            self._deaths.add(end, now, started=self._started)
            if self._deaths.too_many(end, self._count):
                log.error("%d agents died within %.0f s; the last %s", self._deaths.count(end), DEATHS_WINDOW, end)
                return 1
            self._start_after = now + self._deaths.backoff
            log.warning("an agent %s and is replaced", end)
        return None

    def _stop(self) -> None:
        until = time.monotonic() + LEAVE_SECONDS
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.join(max(until - time.monotonic(), 0.0))
            process.kill()
            process.join(1.0)


def main(words: Iterable[str]) -> int:
    options = AgentsOptions(**read_words(AgentsOptions, words))
    screen = logging.StreamHandler(sys.stderr)
    screen.setFormatter(logging.Formatter(SHORT, "%H:%M:%S"))
    run_log = RunLog(None, screen)
    try:
        with stop_requests(last=True) as interrupted:
            return RemoteCrew(options, run_log.queue, interrupted).run()
    finally:
        run_log.close()
