"""Serial servers in tests: what they work on, and what there is to compare of them."""

from functools import cache

import numpy as np

from ga3c.engines.serial import SerialServer
from ga3c.memory.stats import Stats
from ga3c.runs.checkpoint import load_newest, save_checkpoint
from ga3c.runs.resolve import probe
from ga3c.settings.config import Config, Resolved

CARTPOLE = {"game": "CartPole-v1", "agents": 2, "envs_per_agent": 3, "min_batch": 20, "hidden": 16, "t_max": 5}
PONG = {"game": "Pong", "agents": 1, "envs_per_agent": 2, "min_batch": 10, "t_max": 3}
TIMES = ("predictor_busy", "trainer_busy")


@cache
def spec_of(game):
    return probe(Config(game=game))


class SerialRun:
    """A serial server and what it works on; with a directory, one that goes on from the checkpoint there."""

    def __init__(self, resume=None, **settings):
        self.config = Resolved(**{"serial": True, "device": "cpu", **settings})
        spec = spec_of(self.config.game)
        self.stats = Stats()
        self.server = SerialServer(self.config, spec, self.stats)
        self.model = self.server.prepare()
        saved = None
        if resume is not None:
            _, arrays, state = load_newest(resume)
            self.stats.load(state["stats"])
            self.model.load(state["updates"], arrays)
            saved = state["play"]
        self.server.start(saved)
        for _ in self.server._starting:
            pass
        self.rounds = 0

    def play(self, *, rounds=0, updates=0):
        while self.rounds < rounds or self.stats.totals.updates < updates:
            self.server.round()
            self.rounds += 1
        return self

    def save(self, run):
        """Stop, and write a checkpoint as a run does."""
        self.server.stop()
        version, arrays = self.model.state()
        state = {"updates": version, "stats": self.stats.state(), "play": self.server.state()}
        save_checkpoint(run / "checkpoints", arrays, state, keep=1)

    @property
    def weights(self):
        return self.model.version.weights

    @property
    def kept_steps(self):
        """Steps in what a checkpoint keeps: half-built experiences, and those that wait for a batch."""
        state = self.server.state()
        waiting = [experience["fields"] for experience in state["experiences"]]
        half_built = [track for player in state["players"] for track in player["tracks"]]
        return sum(len(steps["actions"]) for steps in waiting + half_built)

    def everything(self):
        """All that has to be the same after the same rounds, however often the run was stopped."""
        version, arrays = self.model.state()
        return comparable(version, arrays, self.stats.state(), self.server.state())


def comparable(updates, arrays, stats, play):
    """A checkpoint without its times."""
    totals = {name: value for name, value in stats["totals"].items() if name not in TIMES}
    return {"updates": updates, "arrays": arrays, **stats, "totals": totals, "seconds": None, "play": play}


def differences(one, other, name=""):
    """The names of all values that are not the same to the bit."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same = (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        return [] if same else [name]
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differences(one[key], other[key], f"{name}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for place, pair in pairs for found in differences(*pair, f"{name}/{place}")]
    return [] if type(one) is type(other) and one == other else [name]
