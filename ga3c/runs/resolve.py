"""What the settings leave to the program (``auto``): decided by the game, the cores and the algorithm."""

from __future__ import annotations

from ga3c.games.ale import find_rom
from ga3c.settings.config import MIN_BATCH, Config
from ga3c.system.limits import available_cores
from ga3c.games.make import make_games, network_name
from ga3c.games.spec import EnvSpec
from ga3c.settings.declare import ConfigError

ALE_ENVS = 96  # of all agents together, where nothing else is said


def probe(config: Config) -> EnvSpec:
    """Make one environment of the game, so that what cannot be played is refused before anything starts."""
    games = make_games(config, 1)
    games.close()
    return games.spec


def resolve(config: Config, spec: EnvSpec) -> Config:
    """The settings with every ``auto`` that the server needs decided, by the cores and the game."""
    lone = config.algo == "a3c"  # agents that wait for nobody
    if lone and config.device not in ("auto", "cpu"):
        raise ConfigError(
            f"ALGO=a3c trains on the CPU, in every agent by itself: DEVICE={config.device} is for ALGO=ga3c"
        )
    cores = available_cores()
    envs = config.envs_per_agent or (1 if lone else _environments(config, cores))
    # One more than cores, so that none idles while an agent waits; more where each has few environments to wait with.
    agents = config.agents
    if agents is None:
        agents = cores if lone else max(cores + 1, -(-8 * cores // envs))
    min_batch = config.min_batch or (1 if lone else MIN_BATCH)
    experiences_per_batch = -(-min_batch // config.t_max)  # rounded up
    return config.replace(
        agents=agents,
        envs_per_agent=envs,
        min_batch=min_batch,
        correction=config.correction or ("none" if lone else "vtrace"),
        # There is nothing to tune where others decide how many play, or where agents need nobody.
        tuner=config.tuner if agents and not lone else "off",
        network=network_name(config, spec),
        torch_threads=config.torch_threads or 1,
        train_queue=config.train_queue or 2 * experiences_per_batch,
    )


def _environments(config: Config, cores: int) -> int:
    """Of each agent, where nothing is said.

    Many together use the cores best: on two, 3x16 has 79 % of what they can give, 6x16 85 % and 3x32 91 %. But more
    environments in all are a longer policy lag, and a quarter of a second each until they play.
    """
    if find_rom(config.game) is None:
        return 4
    return min(max(ALE_ENVS // (config.agents or cores + 1), 8), 32)
