"""A server at work in the process of the test."""

import os
import time
from pathlib import Path

from ga3c.engines.engine import make_engine
from ga3c.memory.stats import Stats
from ga3c.runs.display import PlainDisplay
from ga3c.runs.resolve import probe, resolve
from ga3c.settings.config import Config
from ga3c.system.logs import RunLog, screen_handler
from tests.helpers.waiting import wait_until

CARTPOLE = {"game": "CartPole-v1", "hidden": 16, "envs_per_agent": 2, "min_batch": 10, "agents": 2}


class Run:
    """Its log is in a file, and the thread of the test is the one that waits."""

    def __init__(self, path: Path, **settings):
        config = Config(**{**CARTPOLE, **settings})
        spec = probe(config)
        self.config = resolve(config, spec)
        self.log_path = path / "log.txt"
        with open(os.devnull, "w") as nowhere:
            handler = screen_handler(PlainDisplay(nowhere).stream)
        self.log = RunLog(self.log_path, handler)
        self.stats = Stats()
        self.server = make_engine(self.config, spec, self.stats, self.log.queue)
        self.model = self.server.prepare()
        self.server.start()

    def wait_until(self, condition, seconds=60.0):
        def tended():
            self.server.wait(0)
            return condition()

        return wait_until(tended, seconds)

    def processes(self):
        return {number: agent.process for number, agent in self.server._agents._agents.items()}

    def speed(self, seconds):
        """Steps per second from now on."""
        before, since = self.stats.totals.steps, time.monotonic()
        self.server.wait(seconds)
        return (self.stats.totals.steps - before) / (time.monotonic() - since)

    def close(self):
        self.server.stop()
        self.log.close()
