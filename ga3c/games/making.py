"""Environments of Gymnasium's registry: one that can be trained, or a sentence that says what to write instead."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.metadata
import inspect
import re
import warnings
from typing import Any, NamedTuple

import gymnasium
from ale_py import roms
from gymnasium.envs.registration import find_highest_version, get_env_id, load_env_creator, parse_env_id, registry

from ga3c.games.checked_game import Checked
from ga3c.games.parts import View, show_as, view_of
from ga3c.settings.declare import ConfigError, nearest
from ga3c.settings.env_args import EXAMPLE, arguments_of
from ga3c.settings.groups import GameSettings

PLUGINS = "gymnasium.envs"  # entry points of packages that register environments when they are asked to


class Made(NamedTuple):
    env: gymnasium.Env[Any, Any]  # its observations are one array
    view: View
    space: gymnasium.Space[Any]  # of the observations as the environment gives them
    remarks: tuple[str, ...]  # what a user has to know


def make_gym(config: GameSettings, render_mode: str | None = None) -> Made:
    """One environment, of which each fault is told in a sentence."""
    identity, remarks = find_id(config.game)
    # Not every environment takes a render mode, so it is only given where it is needed.
    env = make_plain(config, identity, **({"render_mode": render_mode} if render_mode else {}))
    check_actions(config, env)
    view = view_of(env.observation_space)
    if view is None:
        raise ConfigError(
            f"GAME={config.game} has the observation space {env.observation_space}, which has no fixed size"
        )
    told = tuple(f"GAME={config.game}: {remark}" for remark in (*remarks, *view.remarks))
    return Made(show_as(Checked(env, config.game), view), view, env.observation_space, told)


def find_id(game: str) -> tuple[str, tuple[str, ...]]:
    """The id in Gymnasium's registry that a game's name means, and what has to be said about it."""
    module, _, identity = game.rpartition(":")
    if ":" in module:
        raise ConfigError(f"GAME={game} has more than one colon: write module:Id")
    try:
        if module:
            importlib.import_module(module)
        namespace, name, version = parse_env_id(identity)
    except ModuleNotFoundError as error:
        raise ConfigError(f"GAME={game} cannot be made: {error}. Is its module importable from here?") from None
    except gymnasium.error.Error as error:
        raise _unknown(game, error) from None
    if identity not in registry:
        _register_plugins(module, namespace)
    newest = find_highest_version(namespace, name)
    if version is None or newest is None or version >= newest:
        return identity, ()
    if identity in registry:
        return identity, (f"there is a newer version, v{newest}",)
    return get_env_id(namespace, name, newest), (f"v{version} is gone, so v{newest} is played",)


def _register_plugins(module: str, namespace: str | None) -> None:
    """Some packages register their environments only when they are asked to, by a function that they name."""
    points = importlib.metadata.entry_points()
    for plugin in (*points.select(group=PLUGINS), *points.select(group=f"{PLUGINS}.__root__")):
        if module:
            asked = module in (plugin.module, plugin.module.split(".")[0])
        else:
            asked = plugin.group != PLUGINS or plugin.name == namespace
        if asked:
            with contextlib.suppress(Exception):  # one that is broken is only missed where it has the id
                plugin.load()()


def make_plain(config: GameSettings, identity: str, **others: Any) -> gymnasium.Env[Any, Any]:
    """The environment as ``gymnasium.make`` gives it, with ENV_ARGS and these others."""
    game, arguments = config.game, arguments_of(config.env_args)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)  # it is told in the log, once
            return gymnasium.make(identity, **{**arguments, **others})
    except ModuleNotFoundError as error:
        raise ConfigError(f"GAME={game} cannot be made: {error}. Is its module importable from here?") from None
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(f"GAME={game} cannot be made: {error}") from None
    except gymnasium.error.Error as error:
        raise _unknown(game, error) from None
    except Exception as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown and unknown[1] == "render_mode":
            raise ConfigError(f"GAME={game} cannot be drawn: it takes no argument render_mode") from None
        if unknown and unknown[1] in arguments:
            raise _unknown_argument(game, identity, unknown[1]) from None
        if arguments:
            shown = f"GAME={game} cannot be made with ENV_ARGS={config.env_args}"
            raise ConfigError(f"{shown}: {type(error).__name__}: {error}") from error
        raise


def check_actions(config: GameSettings, env: gymnasium.Env[Any, Any]) -> None:
    """Refuse actions that are not numbered, and say how to come to some that are."""
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return
    if isinstance(space, gymnasium.spaces.Box):
        instead = "gymnasium.wrappers.DiscretizeAction"
    else:
        instead = "a wrapper that numbers their combinations"
    advice = f"register it with {instead} around it (docs/your-environment.md)"
    if env.spec is not None and "continuous" in arguments_known(env.spec.id):
        advice = f"write {EXAMPLE}"
    raise ConfigError(
        f"GAME={config.game} has the action space {space}, and only Discrete action spaces can be trained: {advice}"
    )


def arguments_known(identity: str) -> tuple[str, ...]:
    """What the maker of an environment takes by name, as far as it says so."""
    creator: Any = registry[identity].entry_point
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    if creator is None:
        return ()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(creator).parameters.values()
    return tuple(p.name for p in parameters if p.kind in named and p.name != "render_mode")


def _unknown_argument(game: str, identity: str, name: str) -> ConfigError:
    known = ("max_episode_steps", *arguments_known(identity))
    return ConfigError(
        f"ENV_ARGS has {name}, which GAME={game} does not take.{nearest(name, known)} It takes: {', '.join(known)}"
    )


def _unknown(game: str, error: Exception) -> ConfigError:
    games = [name.title().replace("_", "") for name in roms.get_all_rom_ids()]
    match = difflib.get_close_matches(game, [*games, *registry], n=1, cutoff=0.6)
    hint = f" Did you mean {match[0]}?" if match else ""
    return ConfigError(f"GAME={game} is neither an ALE game nor a Gymnasium id.{hint} ({error})")
