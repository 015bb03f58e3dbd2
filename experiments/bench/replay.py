"""Draws and priorities of our replay memory beside those of Stable-Baselines3 and cpprb.

    python -m experiments.bench.replay          # 200,000 steps (7 GB in all) and 2,000,000 entries
    python -m experiments.bench.replay 10000 100000 20

Everything is measured in turn, in one process and one thread (``peers/run_replay.py``), in an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from experiments.bench import peers

ROOT = Path(__file__).parents[2]
REQUIREMENTS = (
    peers.TORCH,
    "stable-baselines3==2.9.2",
    "cpprb==11.0.0",
    "gymnasium==1.4.0",
    "numpy==2.4.6",
    "zstandard==0.25.0",
)
SIZES = ("200000", "2000000", "100")  # steps, entries, repeats
ROWS = [
    # what, ours, whose, at most as much of theirs as this, where that was promised
    ("draw 32 pairs, beside what SB3 gives", "draw 32, ours", "draw 32, sb3", None),
    ("draw 32 pairs, both channels_last", "draw 32, ours", "draw 32, sb3 turned", 0.55),
    ("draw 512 pairs, beside what SB3 gives", "draw 512, ours", "draw 512, sb3", None),
    ("draw 512 pairs, both channels_last", "draw 512, ours", "draw 512, sb3 turned", 0.55),
    ("draw 512, update 512, add 50, beside cpprb", "priorities, ours", "priorities, cpprb", 0.65),
]


def measure(sizes: list[str]) -> dict[str, list[float]]:
    """Median and lower quartile of the µs that each part takes."""
    python = peers.install_packages(ROOT / ".bench" / "replay", REQUIREMENTS, print)
    command = [str(python), str(peers.SCRIPTS / "run_replay.py"), *sizes]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise peers.PeerError(f"replay cannot be measured: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def table(found: dict[str, list[float]]) -> str:
    lines = [f"{'µs, median (lower quartile)':<46}{'ours':>18}{'theirs':>18}{'ratio':>16}{'goal':>7}"]
    for title, ours, theirs, goal in ROWS:
        cells = [f"{median:,.0f} ({quartile:,.0f})" for median, quartile in (found[ours], found[theirs])]
        ratios = [one / other for one, other in zip(found[ours], found[theirs], strict=True)]
        ratio = f"{ratios[0]:.2f} ({ratios[1]:.2f})"
        lines.append(f"{title:<46}{cells[0]:>18}{cells[1]:>18}{ratio:>16}{f'≤ {goal}' if goal else '':>7}")
    return "\n".join(lines)


def main(words: list[str]) -> int:
    print(table(measure([*words, *SIZES[len(words) :]])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
