"""Which network NETWORK means. Without torch: it is asked before anything is made."""

from __future__ import annotations

from ga3c.games.spec import EnvSpec
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


def is_own(name: str) -> bool:
    """Whether it is the user's, as module:Class."""
    return ":" in name


def network_name(config: Config, spec: EnvSpec) -> str:
    """NETWORK with ``auto`` decided by the observations, refused where it does not fit them."""
    if config.network == "auto":
        return "small" if spec.is_image else "mlp"
    if config.network != "mlp" and not is_own(config.network) and not spec.is_image:
        raise ConfigError(
            f"NETWORK={config.network} needs images, but GAME={config.game} has vectors of {spec.frame[0]}: use mlp"
        )
    return config.network
