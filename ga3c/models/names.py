"""Which network NETWORK means. Without torch: it is asked before anything is made."""

from __future__ import annotations

from ga3c.games.spec import SMALL, EnvSpec
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError


def is_own(name: str) -> bool:
    """Whether it is the user's, as module:Class."""
    return ":" in name


def network_name(config: Config, spec: EnvSpec) -> str:
    """NETWORK with ``auto`` decided by the observations, refused where it does not fit them."""
    usual = "mlp" if not spec.is_image else "tiny" if spec.is_small else "small"
    if config.network == "auto":
        return usual
    if not is_own(config.network) and not fits(config.network, spec):
        what = f"images of {'×'.join(map(str, spec.frame))}" if spec.is_image else f"vectors of {spec.frame[0]}"
        kind = f"images of at most {SMALL} pixels a side" if config.network == "tiny" else "large images"
        others = "" if usual == "mlp" else " or mlp"
        raise ConfigError(
            f"NETWORK={config.network} is for {kind}, but GAME={config.game} has {what}: use {usual}{others}"
        )
    return config.network


def fits(network: str, spec: EnvSpec) -> bool:
    """Whether a network of this name can take these observations."""
    return network == "mlp" or (spec.is_image and (network == "tiny") == spec.is_small)
