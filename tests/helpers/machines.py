"""A server and agents for it as on several machines, in tests: each a process of its own, ended after the test."""

import json
import os
import re
import signal

from tests.helpers.command_line import rows_of, start
from tests.helpers.waiting import wait_until

QUICK = ["GAME=CartPole-v1", "ENVS_PER_AGENT=2", "MIN_BATCH=10", "HIDDEN=16"]
QUICK += ["LOG_SECONDS=0.2", "TENSORBOARD=0", "TUNER=off"]


class Program:
    """One command, and what it says."""

    def __init__(self, path, name, words, through):
        self.said_path = path / f"{name}.txt"
        with self.said_path.open("a") as output:
            # What agents load is looked at, and it is little.
            self.process = start(path, *words, output=output, through=through, afresh=words[0] == "agents")

    @property
    def said(self):
        return self.said_path.read_text()

    def wait_for(self, pattern, seconds=120.0):
        return wait_until(lambda: re.search(pattern, self.said), seconds, f"{pattern!r} in\n{self.said}")

    def end(self, number=signal.SIGINT, seconds=60.0):
        """Its exit code, after this signal."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Machines:
    def __init__(self, path):
        self.path = path
        self._programs = []

    def start(self, name, *words, through=()):
        self._programs.append(Program(self.path, name, words, through))
        return self._programs[-1]

    def serve(self, *words, listen="tcp://127.0.0.1:*", name="server", run="run", through=()):
        """A server that listens, and its address."""
        server = self.start(name, *QUICK, f"LISTEN={listen}", f"RUN={run}", *words, through=through)
        return server, server.wait_for(r"may join at (\S+)")[1]

    def rows(self, run="run"):
        return rows_of(self.path / run)

    def newest(self, run="run"):
        rows = self.rows(run)
        return rows[-1] if rows else {"updates": 0, "remote_agents": 0}

    def wait_for_remote(self, count, run="run", seconds=60.0):
        """Until so many agents of other machines play, and are trained on from there."""
        wait_until(lambda: self.newest(run)["remote_agents"] == count, seconds, f"{count} remote agents")
        before = self.newest(run)["updates"]
        wait_until(lambda: self.newest(run)["updates"] > before, seconds, "an update")

    def summary(self, run="run"):
        return json.loads((self.path / run / "summary.json").read_text())

    def close(self):
        for program in self._programs:
            program.kill()
