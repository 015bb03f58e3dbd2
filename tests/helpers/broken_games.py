"""A game that breaks: in each agent in the way that is next in the list which stands beside the module."""

import multiprocessing
import random
import shutil
import time
from pathlib import Path

import gymnasium
import numpy as np

RARELY = 500  # steps, of which one breaks at random
STEPS = 30  # of each environment that are played well before
LIST = "faults.txt"


def install(path, *faults, then="none"):
    """Make the game importable from there, with the faults of the first agents and of all that follow."""
    shutil.copy(__file__, path)
    (path / LIST).write_text("\n".join([*faults, then]))


def fault_of_this_process():
    if multiprocessing.parent_process() is None:
        return "none"  # not an agent
    path = Path(__file__).parent
    *first, then = (path / LIST).read_text().split("\n")
    for number, fault in enumerate(first):
        try:
            (path / f"fault-{number}-taken").touch(exist_ok=False)
        except FileExistsError:
            continue
        return fault
    return then


FAULT = fault_of_this_process()
RANDOM = random.Random()


class Faulty(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if FAULT == "raise in reset":
            raise KeyError("a level that is not there")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self._steps += 1
        if FAULT == "raise rarely" and RANDOM.random() < 1 / RARELY:
            raise ValueError(f"the game broke at {RANDOM.random()}")
        observation, reward = np.zeros(2, np.float32), 1.0
        if self._steps > STEPS:
            if FAULT == "raise in step":
                raise ValueError("the game broke")
            if FAULT == "hang in step":
                time.sleep(3600)
            observation = {
                "nan": np.full(2, np.nan, np.float32),
                "infinity": np.full(2, np.inf, np.float32),
                "wrong shape": np.zeros(3, np.float32),
                "wrong dtype": np.full(2, "left"),
            }.get(FAULT, observation)
            reward = {
                "nan as reward": np.nan,
                "infinity as reward": -np.inf,
                "no reward": None,
                "huge reward": 3e38,  # finite, unlike the sum of two
            }.get(FAULT, reward)
        return observation, reward, self._steps % 20 == 0, False, {}


gymnasium.register("Faulty-v0", Faulty)
