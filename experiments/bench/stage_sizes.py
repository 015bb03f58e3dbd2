"""What stages are measured at. Apart from their code, which imports torch."""

from __future__ import annotations

from ga3c.games.spec import EnvSpec
from ga3c.models.names import fits
from ga3c.settings.groups import NETWORKS

STEPPED = (1, 8, 16, 32)  # environments of a step, observations of a message
QUICKLY_STEPPED = (1, 16)  # the same where time is short: environments take long to make
PREDICTED = (1, 16, 64)  # observations of a forward
RATIO_BATCH = 20  # the paper's best minimum batch, at which the whole update is compared with its gradient alone


def networks_of(spec: EnvSpec) -> tuple[str, ...]:
    """The networks that fit these observations, from the smallest."""
    return tuple(name for name in NETWORKS if name != "auto" and (name == "mlp") != spec.is_image and fits(name, spec))
