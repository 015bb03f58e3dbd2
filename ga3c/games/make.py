"""From the settings to the environments that they name, and their seeds."""

from __future__ import annotations

import numpy as np

from ga3c.games import ale, gym
from ga3c.games.spec import Backend, Games
from ga3c.settings.groups import GameSettings

BACKENDS: tuple[Backend, ...] = (ale, gym)  # asked in this order; the last one takes what none else knows


def backend_of(game: str) -> Backend:
    return next(backend for backend in BACKENDS if backend.plays(game))


def one_name(game: str) -> str:
    """The same for all names of the same game."""
    return ale.find_rom(game) or game


def make_games(config: GameSettings, count: int) -> Games:
    """K environments of the game that the settings name."""
    return backend_of(config.game).make(config, count)


def make_seed(*numbers: int) -> int:
    """A seed for each sequence of numbers. ALE takes 31 bits, and environments in step have seeds in a row: so 30."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 2
