"""By hand: ``python -m tests.games.emulator.prove [FRAMES [SEEDS [GAME...]]]``: ours against ALE, as a table."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ga3c.games.emulator import BatchedAtari
from ga3c.games.emulator.cartridges import CARTRIDGES
from tests.games.emulator.oracle import Oracle

SECOND_TIMER = 64  # what the timer holds at the second reset of an ALE
SCREENS_DIFFER = frozenset({"qbert"})  # as it starts, when a frame is not over after 25,000 instructions


@dataclass
class Found:
    """The first frame that differs, of each kind; None where none does."""

    frames: int = 0
    ram: int | None = None
    screen: int | None = None
    rules: int | None = None


def compare(game: str, frames: int, seed: int, pictures: bool = True, dump: Path | None = None) -> Found:
    """Random play until the game is over or RAM differs."""
    oracle, ours = Oracle(game), BatchedAtari(game, only_frames=True)
    ours.start(SECOND_TIMER)
    chance, action, found = np.random.default_rng(seed), 0, Found()
    rule = CARTRIDGES[game].rule
    for frame in range(frames):
        if frame % 4 == 0:
            action = int(chance.choice(oracle.actions))
        reward = oracle.act(action)
        screen = ours.show(torch.tensor([action]))[0].numpy()
        found.frames = frame + 1
        if pictures and found.screen is None and (screen != oracle.screen()).any():
            found.screen = frame
            if dump:
                save(dump, game, frame, oracle.screen(), screen)
        if (ours.ram()[0].numpy() != oracle.ram()).any():
            found.ram = frame
            return found
        told = (ours.rewards[0].item(), ours.lives[0].item(), bool(ours.ended[0]))
        if rule and found.rules is None and told != (reward, oracle.lives(), oracle.over()):
            found.rules = frame
        if oracle.over():
            break
    return found


def save(place: Path, game: str, frame: int, theirs: np.ndarray, ours: np.ndarray) -> None:
    """ALE's screen, ours, and where they differ, beside each other."""
    from PIL import Image

    pictures = np.concatenate((theirs, ours, np.where(theirs == ours, 0, 255).astype(np.uint8)), axis=1)
    Image.fromarray(pictures).save(place / f"{game}-{frame}.png")


def main(words: list[str]) -> None:
    frames, seeds = (int(words[0]) if words else 1000), (int(words[1]) if len(words) > 1 else 1)
    print("| game | frames played | RAM | screen | reward, lives, end |\n|---|---|---|---|---|")
    for game in words[2:] or CARTRIDGES:
        found = [compare(game, frames, seed, dump=Path(".")) for seed in range(seeds)]

        def cell(kind: str, found: list[Found] = found) -> str:
            first = [value for each in found if (value := getattr(each, kind)) is not None]
            return f"differs in frame {min(first)}" if first else "equal"

        rules = cell("rules") if CARTRIDGES[game].rule else "not known"
        played = sum(each.frames for each in found)
        print(f"| {game} | {played:,} | {cell('ram')} | {cell('screen')} | {rules} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
