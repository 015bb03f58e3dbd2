"""By hand: ``python -m tests.same_bits [COMMIT] [ONLY=part of a name]``. Trains with the code of an older commit and
with that here, with SERIAL=1 and the same settings, and compares what the last checkpoints hold.

Ends with 1 if weights, the optimizer's arrays, the running means, or a total or a part of the saved play that both have
is not the same to the bit. What only one of them has is counted, and times are left out.
"""

import hashlib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ga3c.runs.checkpoint import load_newest
from tests.helpers.commits import Running, code_of

COMMIT = "5392fc6"
LIMIT = 600  # seconds of one run, at most
TIMES = ("predictor_busy", "trainer_busy")
CARTPOLE = ["GAME=CartPole-v1", "AGENTS=2", "ENVS_PER_AGENT=4", "MIN_BATCH=40"]
PONG = ["GAME=Pong", "AGENTS=1", "ENVS_PER_AGENT=4", "MIN_BATCH=40", "T_MAX=10"]


@dataclass(frozen=True)
class Case:
    """What both train, and how."""

    name: str
    words: list[str]
    steps: int
    middle: int = 0  # steps after which both are stopped and resumed
    crossed: bool = False  # the code here resumes what that of the commit has stopped


CASES = [
    Case("CartPole", CARTPOLE, 12_000),
    Case("CartPole, seed 7", [*CARTPOLE, "SEED=7"], 12_000),
    Case("CartPole, CORRECTION=none", [*CARTPOLE, "CORRECTION=none"], 12_000),
    Case("CartPole, falling rates", [*CARTPOLE, "LEARNING_RATE_END=0", "BETA_END=0", "MAX_LAG=0"], 12_000),
    Case("CartPole, PRESET=paper", ["GAME=CartPole-v1", "PRESET=paper", "NETWORK=mlp", "AGENTS=3"], 8_000),
    Case("CartPole, resumed", CARTPOLE, 12_000, middle=5_003),
    Case("CartPole, resumed from a checkpoint of the commit", CARTPOLE, 12_000, middle=5_003, crossed=True),
    Case("Pong", PONG, 3_000),
    Case("Pong, seed 7", [*PONG, "SEED=7"], 3_000),
    Case("Pong, CORRECTION=none", [*PONG, "CORRECTION=none"], 3_000),
    Case("Pong, PRESET=paper", ["GAME=Pong", "PRESET=paper", "AGENTS=3"], 2_000),
    Case("Pong, NETWORK=large-4", [*PONG, "NETWORK=large-4"], 1_000),
    Case("Pong, resumed", PONG, 3_000, middle=1_301),
    Case("Pong, resumed from a checkpoint of the commit", PONG, 3_000, middle=1_301, crossed=True),
    Case("Breakout, lives and sticky", ["GAME=Breakout", *PONG[1:], "EPISODIC_LIFE=1", "STICKY=0.25"], 3_000),
]


@dataclass(frozen=True)
class Outcome:
    """What the last checkpoint of a run holds, without times."""

    arrays: dict[str, np.ndarray]
    totals: dict[str, object]
    play: dict[str, object]  # each part by the way to it

    @classmethod
    def of(cls, run):
        _, arrays, state = load_newest(run)
        totals = {name: value for name, value in state["stats"]["totals"].items() if name not in TIMES}
        return cls(arrays, totals, dict(parts(state["play"])))

    @property
    def digest(self):
        return hashlib.sha256(np.ascontiguousarray(self.arrays["weights"]).data).hexdigest()


def parts(value, way=""):
    """What stands in nested dicts and lists, each by the way to it."""
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from parts(item, f"{way}/{key}")
    else:
        yield way, (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def differences(old, new):
    """The names of what is not the same, and in words how much was compared."""
    names = [name for name in old.arrays if name not in new.arrays or differ(old.arrays[name], new.arrays[name])]
    counted = [f"{len(old.arrays)} arrays"]
    for title, ours, theirs in (("totals", old.totals, new.totals), ("parts of play", old.play, new.play)):
        both = ours.keys() & theirs.keys()
        names += sorted(f"{title}: {name}" for name in both if ours[name] != theirs[name])
        counted.append(f"{len(both)} of {len(ours)} {title}")
    return names, ", ".join(counted)


def differ(one, other):
    return (one.dtype, one.shape, one.tobytes()) != (other.dtype, other.shape, other.tobytes())


def trained(case, codes, directory):
    """Both runs after their last step, one beside the other: each is one thread."""
    runs = [directory / side for side in ("old", "new")]
    fixed = [*case.words, "SERIAL=1", "DEVICE=cpu", "TENSORBOARD=0", "LOG_SECONDS=1"]
    if case.middle:
        side_by_side(codes, [[*fixed, f"RUN={run}", f"MAX_STEPS={case.middle}"] for run in runs])
        if case.crossed:
            shutil.rmtree(runs[1])
            shutil.copytree(*runs)
        side_by_side(codes, [[f"RESUME={run}", f"MAX_STEPS={case.steps}"] for run in runs])
    else:
        side_by_side(codes, [[*fixed, f"RUN={run}", f"MAX_STEPS={case.steps}"] for run in runs])
    return [Outcome.of(run) for run in runs]


def side_by_side(codes, words):
    processes = [Running(code, *given) for code, given in zip(codes, words, strict=True)]
    try:
        for process in processes:
            process.finish(LIMIT)
    finally:
        for process in processes:
            process.kill()


def main(words):
    commit = next((word for word in words if "=" not in word), COMMIT)
    only = next((word.removeprefix("ONLY=") for word in words if word.startswith("ONLY=")), "")
    cases = [case for case in CASES if only in case.name]
    if not cases:
        sys.exit(f"no case has '{only}' in its name")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ga3c-same-bits-") as directory:
        codes = [code_of(commit, Path(directory) / "commit"), code_of("", Path(directory) / "here")]
        print(f"| case | updates | SHA-256 of the weights, {commit} | here | the same |", flush=True)
        print("|---|---|---|---|---|", flush=True)
        for number, case in enumerate(cases):
            old, new = trained(case, codes, Path(directory) / str(number))
            names, counted = differences(old, new)
            failed += bool(names)
            verdict = f"no: {', '.join(names[:5])}" if names else counted
            updates = old.totals["updates"]
            print(f"| {case.name} | {updates} | {old.digest[:16]} | {new.digest[:16]} | {verdict} |", flush=True)
    print(f"{failed} of them differ" if failed else "the same bits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
