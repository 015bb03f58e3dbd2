"""How the name of an ALE game may be written."""

from __future__ import annotations

import re
from collections.abc import Iterable


def find_name(game: str, roms: Iterable[str]) -> str | None:
    """The ROM that ``Pong``, ``ms_pacman``, ``ALE/Pong-v5`` or ``PongNoFrameskip-v4`` means; None where it is none."""
    name = re.sub(r"^(?:ALE/(\w+)-v5|(\w+?)(?:NoFrameskip)?-v[04])$", r"\1\2", game)
    known = {rom.replace("_", ""): rom for rom in roms}
    return known.get(name.replace("_", "").lower())
