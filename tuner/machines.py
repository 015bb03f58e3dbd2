"""Machines for the simulator: those of the paper, and ones drawn at random around what is usual."""

from __future__ import annotations

import numpy as np

from tuner.simulator import Machine

MS = 1e-3


def paper_system(cores: int, speed: float) -> Machine:
    """One of the paper's systems: a GPU, TensorFlow's overheads, a training queue that hardly holds anyone back.

    Its text tells an update of 11.1 ms, 59 % of it overhead; the other costs are such that System I does best where the
    paper says, with NA = 128 and NP = NT = 2.
    """
    return Machine(
        cores=cores,
        gpu=True,
        env_step=2.2 * MS / speed,
        agent_turn=1.0 * MS / speed,
        predict_host=2.7 * MS / speed,
        predict_host_each=0.29 * MS / speed,
        predict_base=2.9 * MS,
        predict_each=0.03 * MS,
        train_host=6.45 * MS / speed,
        train_base=3.65 * MS,
        train_each=0.26 * MS,
        lock=0.63,
        crowding=0.0055,
        switching=0.29,
        overlap=0.37,
        queue_batches=16,
    )


PAPER_SYSTEMS = {
    "System I": paper_system(16, 1.0),
    "System II": paper_system(8, 1.4),
    "System III": paper_system(16, 0.9),
    "System IV": paper_system(10, 1.1),
}


def usual_machine(random: np.random.Generator, cores: float, gpu: bool, breadth: float = 1.0) -> Machine:
    """A machine whose costs lie around the usual, by factors; ``breadth`` widens or narrows them."""

    def around(usual: float, factor: float) -> float:
        return usual * float(np.exp(random.uniform(-1, 1) * np.log(factor) * breadth))

    compute = around(1.0, 2.5)  # a larger network costs more everywhere
    device = 0.15 * compute if gpu else compute
    return Machine(
        cores=cores,
        gpu=gpu,
        env_step=around(1.0 * MS, 4.0),
        agent_turn=around(0.2 * MS, 2.0),
        predict_host=around(0.6 * MS, 4.0),
        predict_host_each=around(0.06 * MS, 2.0),
        predict_base=around(1.0 * MS if gpu else 0.3 * MS, 3.0),
        predict_each=around(0.13 * MS, 1.7) * device,
        train_host=around(1.2 * MS, 4.0),
        train_base=around(2.5 * MS if gpu else 1.5 * MS, 2.5),
        train_each=around(0.35 * MS, 1.7) * device,
        lock=around(0.5, 1.7),
        crowding=around(0.03, 3.0),
        switching=around(0.08, 3.0),
        overlap=random.uniform(0.0, 0.6) if gpu else 0.0,
        queue_batches=around(4.0, 2.0),
    )
