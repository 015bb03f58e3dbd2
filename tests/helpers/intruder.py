"""Those who connect to a server and are none of its agents: a process each, so that they take only their own time."""

import json
import os
import random
import select
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import zmq

from ga3c.games.spec import Discrete, EnvSpec
from ga3c.messages.links import identity
from tests.helpers.fuzzing import damaged, good_messages, noise

ROOT = Path(__file__).parent.parent.parent
NICENESS = 10  # below agents: what they send shall cost the run, not that they are there
PATIENCE = 120.0  # seconds for the server to take everything


class Sender:
    """A DEALER under any name. With ``patience`` it waits for room, and at its end until all has left."""

    def __init__(self, endpoint, name=None, patience=PATIENCE):
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        if name is not None:
            self.socket.setsockopt(zmq.IDENTITY, name)
        self.socket.setsockopt(zmq.LINGER, round(patience * 1000))
        self.socket.setsockopt(zmq.SNDTIMEO, round(patience * 1000))
        self.socket.connect(endpoint)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self._context.term()

    def send(self, parts):
        self.socket.send_multipart(parts)


def messages_of(way, run, agent, spec, chance):
    """The name to connect by, and a function that gives the next message."""
    if way == "noise":
        return None, lambda: noise(chance)
    if way == "another run":
        good = good_messages(spec, run ^ 1, agent)
        return identity(run ^ 1, agent), lambda: chance.choice(good)
    good = good_messages(spec, run, agent)
    if way == "replayed":  # what a living agent could have sent, by someone else
        return None, lambda: chance.choice(good)
    assert way in ("damaged", "duplicate")
    return identity(run, agent), lambda: damaged(good, chance)


def serve(order):
    """Send that many messages at each word, and say how many it could; leave when there is no further word."""
    chance = random.Random(order["seed"])
    frame, action = tuple(order["spec"]["frame"]), Discrete(**order["spec"]["action"])
    spec = EnvSpec(**{**order["spec"], "frame": frame, "action": action})
    name, following = messages_of(order["way"], order["run"], order["agent"], spec, chance)
    with Sender(order["endpoint"], name, patience=1.0 if order["way"] == "duplicate" else PATIENCE) as sender:
        print(0, flush=True)
        for _ in sys.stdin:
            print(burst(sender, following, order["count"], order["rate"]), flush=True)


def burst(sender, following, count, rate):
    started = time.monotonic()
    for sent in range(count):
        try:
            sender.send(following())
        except zmq.Again:  # the server reads nothing of it, and all that waits on the way is full
            return sent
        if rate:
            time.sleep(max(started + sent / rate - time.monotonic(), 0.0))
    return count


class Stranger:
    """Such a process, seen from the test. It connects at once, and stays until it is told to leave: ZeroMQ drops what
    it has not read yet of one that has gone."""

    def __init__(self, endpoint, run, spec, way, count, *, agent=0, seed=0, rate=0):
        order = {
            "endpoint": endpoint,
            "run": run,
            "spec": asdict(spec),
            "way": way,
            "count": count,
            "agent": agent,
            "seed": seed,
            "rate": rate,
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(order)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def ready(self):
        """Whether it waits for the next word: at first, and when all of a burst is sent."""
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def begin(self):
        """A burst; returns how many it sent in the one before."""
        before = int(os.read(self.process.stdout.fileno(), 100))
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        return before

    def leave(self):
        """Returns how many it sent in the last burst."""
        output, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return int(output)


if __name__ == "__main__":
    os.nice(NICENESS)
    serve(json.loads(sys.argv[1]))
