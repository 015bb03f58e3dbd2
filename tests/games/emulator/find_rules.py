"""By hand: ``python -m tests.games.emulator.find_rules [GAME...]``: how score and lives stand in RAM, from play in ALE.

A score is a row of bytes with two decimal digits each, the highest first, times a unit. Lives are some bits of a byte
and a constant. A rule is told only if it held in every frame.
"""

import sys

import numpy as np

from tests.games.emulator.oracle import STANDARD, Oracle

UNITS = (1, 10, 100, 1000)
FIELDS = ((0xFF, 0), (0x0F, 0), (0xF0, 4), (0x07, 0), (0x03, 0), (0x70, 4), (0x38, 3), (0xE0, 5), (0xC0, 6))


def watched(game: str, frames: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """RAM, reward, lives and the end in each frame of random play."""
    oracle, random = Oracle(game), np.random.default_rng(seed)
    rams, rewards, lives, ends = [oracle.ram()], [0], [oracle.lives()], [False]
    action = 0
    for frame in range(frames):
        if frame % 6 == 0:
            action = int(random.choice(oracle.actions))
        rewards.append(oracle.act(action))
        rams.append(oracle.ram())
        lives.append(oracle.lives())
        ends.append(oracle.over())
        if ends[-1]:
            break
    return np.array(rams), np.array(rewards), np.array(lives), np.array(ends)


def decimal(values: np.ndarray) -> np.ndarray:
    return (values >> 4).astype(int) * 10 + (values & 15)


def score_rule(rams: np.ndarray, rewards: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """The unit, and the bytes with the highest first."""
    changes = np.diff(decimal(rams), axis=0)
    earned = rewards[1:]
    if not earned.any():
        return None
    for unit in UNITS:
        if (earned % unit).any():
            continue
        found: list[int] = []
        rest = earned // unit
        while rest.any() and len(found) < 4:
            fits = [b for b in range(128) if not ((rest - changes[:, b]) % 100).any() and changes[:, b].any()]
            if not fits:
                break
            found.insert(0, fits[0])
            rest = (rest - changes[:, fits[0]]) // 100
        if found and not rest.any():
            return unit, tuple(found)
    return None


def lives_rules(rams: np.ndarray, lives: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Byte, mask, shift and what is added."""
    if (lives == lives[0]).all():
        return []
    rules = []
    for mask, shift in FIELDS:
        more = lives[:, None] - ((rams & mask) >> shift).astype(int)
        rules += [(int(b), mask, shift, int(more[0, b])) for b in np.nonzero((more == more[0]).all(axis=0))[0]]
    return rules


def main(games: list[str]) -> None:
    for game in games or STANDARD:
        seen = [watched(game, 6000, seed) for seed in range(2)]
        rams, rewards, lives, ends = (np.concatenate(part) for part in zip(*seen, strict=True))
        rewards = np.concatenate([part[1] for part in seen])
        keep = np.ones(len(rewards), bool)
        keep[len(seen[0][1])] = False  # between two episodes nothing is earned
        score = score_rule(rams, rewards) if keep.all() else score_rule(seen[0][0], seen[0][1])
        ended = sorted({int(v) for v in lives[ends]})
        print(game, "score", score, "lives", lives_rules(rams, lives)[:4], "at the end", ended, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
