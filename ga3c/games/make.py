"""From the settings to the environments that they name, their seeds and the network that fits them."""

from __future__ import annotations

import numpy as np

from ga3c.games.ale import AtariGames, find_rom
from ga3c.games.gym import GymGames
from ga3c.games.spec import EnvSpec, Games
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


def make_games(config: Config, count: int) -> Games:
    """K environments of the game that the settings name."""
    rom = find_rom(config.game)
    if rom is not None:
        return AtariGames(config, rom, count)
    return GymGames(config, count)


def make_seed(*numbers: int) -> int:
    """A seed for each sequence of numbers. ALE takes 31 bits, and environments in step have seeds in a row: so 30."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 2


def network_name(config: Config, spec: EnvSpec) -> str:
    """NETWORK with ``auto`` decided by the observations, refused where it does not fit them."""
    if config.network == "auto":
        return "small" if spec.is_image else "mlp"
    if config.network != "mlp" and not spec.is_image:
        raise ConfigError(
            f"NETWORK={config.network} needs images, but GAME={config.game} has vectors of {spec.frame[0]}: use mlp"
        )
    return config.network
