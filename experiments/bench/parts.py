"""A part of a bench as it is done: what fails is noted, and what only it was needed for is left out from then on."""

from __future__ import annotations

from experiments.bench import peers
from experiments.processes import ProcessFailed
from experiments.progress import Part


def done(part: Part, errors: dict[str, str]) -> str:
    """What the part found; ``errors`` by the names of those that failed."""
    if part.needed_by and all(name in errors for name in part.needed_by):
        return ""
    try:
        return part.run()
    except (ProcessFailed, peers.PeerError) as error:
        if not part.needed_by:
            raise
        errors.update(dict.fromkeys(part.needed_by, str(error)))
        return f"failed: {error}"
