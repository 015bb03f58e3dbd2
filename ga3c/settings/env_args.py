"""ENV_ARGS: what ``gymnasium.make`` takes beside an id. One spelling for the same arguments, so that they compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ga3c.settings.declare import ConfigError

EXAMPLE = """ENV_ARGS='{"continuous": false}'"""
NOT_TAKEN = {  # by a setting of ours, so that both cannot contradict each other
    "id": "GAME names the environment",
    "render_mode": "'./run.sh play' draws a trained policy",
}


def one_spelling(given: str | Mapping[str, Any]) -> str:
    """The arguments as JSON with sorted names, however they are given; empty where there are none."""
    if isinstance(given, str) and not given.strip():
        return ""
    try:
        arguments: Any = json.loads(given) if isinstance(given, str) else dict(given)
        text = json.dumps(arguments, sort_keys=True, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        shown = given if isinstance(given, str) else repr(given)
        raise ConfigError(f"ENV_ARGS={shown} is not JSON: write it as {EXAMPLE} ({error})") from None
    if not isinstance(arguments, dict):
        raise ConfigError(f"ENV_ARGS={given} is no JSON object: write names and values, as {EXAMPLE}")
    for name, instead in NOT_TAKEN.items():
        if name in arguments:
            raise ConfigError(f"ENV_ARGS={text} has {name}: leave it out, since {instead}")
    return text if arguments else ""


def arguments_of(text: str) -> dict[str, Any]:
    """What ``one_spelling`` gave."""
    arguments: dict[str, Any] = json.loads(text or "{}")
    return arguments
