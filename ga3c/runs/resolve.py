"""What the settings leave to the program (``auto``): decided by the game, the cores and the algorithm."""

from __future__ import annotations

from ga3c.games.make import backend_of, make_games
from ga3c.games.spec import EnvSpec
from ga3c.models.names import network_name
from ga3c.settings.config import Config, Resolved
from ga3c.system.limits import available_cores


def probe(config: Config) -> EnvSpec:
    """Make one environment of the game, so that what cannot be played is refused before anything starts."""
    games = make_games(config, 1)
    games.close()
    return games.spec


def resolve(config: Config, spec: EnvSpec) -> Resolved:
    """The settings with every ``auto`` decided, by the cores, the game and the recipe of the algorithm."""
    recipe = config.recipe
    usual = {**recipe.usual, **({} if spec.is_image else recipe.usual_vectors)}
    wanted = {name: value for name, value in usual.items() if getattr(config, name) is None}
    if config.envs_per_agent is not None:
        wanted.pop("samplers", None)
    config = config.replace(**wanted)
    agents, envs = _fleet(config)
    min_batch = config.min_batch or 1
    experiences_per_batch = -(-min_batch // config.t_max)  # rounded up
    decided = {
        "agents": agents,
        "envs_per_agent": envs,
        "samplers": max(agents * envs, 1),
        "min_batch": min_batch,
        "correction": config.correction or "none",
        # These say nothing where nothing is replayed.
        **{name: getattr(config, name) or 1 for name in ("replay_start", "target_period", "epsilon_steps")},
        "sticky": backend_of(config.game).sticky_probability(config),
        # There is nothing to tune where others decide how many play.
        "tuner": "off" if recipe.untuned or not agents else config.tuner,
        "tuner_lag": config.max_lag / 2 if config.tuner_lag is None else config.tuner_lag,
        "network": network_name(config, spec),
        # While an update is made from a memory nobody plays, or hardly anybody.
        "torch_threads": config.torch_threads or (available_cores() if recipe.replays else 1),
        "train_queue": config.train_queue or 2 * experiences_per_batch,
    }
    return Resolved(**{**vars(config), **decided})


def _fleet(config: Config) -> tuple[int, int]:
    """Agents, and environments of each."""
    cores = available_cores()
    if config.samplers is not None:
        # As many as there are cores, if all then have equally many environments.
        agents = config.agents or next(n for n in range(min(cores, config.samplers), 0, -1) if config.samplers % n == 0)
        return agents, config.samplers // agents
    envs = config.envs_per_agent or backend_of(config.game).usual_envs(config.agents or cores + 1)
    if config.agents is not None:
        return config.agents, envs
    if config.recipe.agents_learn:
        return cores, envs
    # One more than cores, so that none idles while an agent waits; more where each has few environments to wait with.
    return max(cores + 1, -(-8 * cores // envs)), envs
