"""An exchange at work in the process of the test, and what agents say to it."""

import threading

import numpy as np

from ga3c.algorithms.rule import make_acting
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.intake import Intake
from ga3c.memory.queue import Queue
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Reply, Request
from ga3c.messages import wire
from ga3c.messages.exchange import Exchange
from ga3c.messages.links import AgentLink
from ga3c.settings.config import Resolved

RUN = 0x1234
ENVS = 2  # of an agent
HALVES = 4
SPEC = EnvSpec(frame=(3,), stack=1, dtype="float32", action=Discrete(2))
SCHEMA = make_acting(Resolved(correction="none"), SPEC).schema
LARGEST = wire.largest_message(SPEC, envs=8, steps=5)


class Office:
    """An exchange with its thread and queues, and agents connected to it."""

    def __init__(self, spec=SPEC, **more):
        """``more`` is for the exchange: a gate and its welcome."""
        self.stats = Stats()
        self.requests = Queue(lambda request: len(request.observations), most=100)
        self.experiences = Queue(lambda experience: experience.steps)
        given = {"largest_message": LARGEST, "halves": HALVES, **more}
        intake = Intake(self.stats, self.requests.put, self.experiences.put)
        self.exchange = Exchange(RUN, spec, SCHEMA, intake, self.stats, **given)
        self.thread = threading.Thread(target=self.exchange.run, daemon=True)
        self.thread.start()
        self.links = []

    def agent(self, number, run=RUN, admit=True, patience=5.0):
        if admit:
            self.exchange.admit(number, ENVS)
        link = AgentLink(self.exchange.endpoint, run, number, patience=patience)
        self.links.append(link)
        return link

    def answer(self, agent, version=0):
        """What a predictor does; returns the outputs."""
        outputs = np.array([[0.5, 0.5, 1], [0.5, 0.5, 2]], dtype=np.float32)
        self.exchange.reply([(agent, Reply(1, version, outputs))])
        return outputs

    def close(self):
        for link in self.links:
            link.close()
        self.exchange.close()
        self.thread.join(5)
        assert not self.thread.is_alive()


def request(agent=0, run=RUN, half=0, real=b"\0\0", first_env=0):
    observations = np.arange(3 * len(real), dtype=np.float32).reshape(len(real), 1, 3)
    return wire.encode_request(run, Request(agent, half, first_env, real, observations))


PLAYED = request(real=b"\1\1")


def experience(agent=0, steps=1, first_step=0, env=0, version=0):
    frames = np.ones((steps, 3), dtype=np.float32)
    fields = {"actions": np.zeros(steps, dtype=np.int32), "returns": np.zeros(steps, dtype=np.float32)}
    return Experience(agent, env, first_step, version, frames, fields)


def delivery(half=0, **what):
    """The message with such an experience."""
    return wire.encode_experience(RUN, half, experience(**what), SCHEMA)


def bad_messages(office):
    return office.stats.totals.bad_messages
