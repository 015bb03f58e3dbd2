"""The agents of other machines as the server sees them: they join by themselves, and whoever falls silent is away."""

from __future__ import annotations

import logging
import time

from ga3c.agents.player import halves
from ga3c.agents.silence import SilenceWatch
from ga3c.memory.stats import Stats
from ga3c.messages.exchange import Exchange
from ga3c.settings.config import Resolved

log = logging.getLogger(__name__)


LOOKS_PER_SECOND = 5000  # at an agent each, whether it is silent: with more of them each is looked at less often
TOLD_EACH = 10  # agents of which each has a line where many are away at once; of the others there is one


class RemoteAgents:
    """All is done in ``tend``, which one thread calls often.

    One that is away may come back at any time, under another number: what it had under way is lost, and counted.
    """

    def __init__(self, config: Resolved, exchange: Exchange, stats: Stats) -> None:
        self.playing = 0  # when they were last looked at
        self._exchange = exchange
        self._stats = stats
        self._silence = SilenceWatch(config.stall_seconds, len(halves(config)))
        self._next_look = 0.0

    def tend(self) -> None:
        """Dismiss those that are gone, or silent although it is their turn."""
        self._silence.attend()
        self._send_away(self._exchange.gone())
        now = time.monotonic()
        if now < self._next_look:
            return
        members = self._exchange.remote_members()
        silent = self._silence.look(members)
        self._send_away({number: f"was silent for {seconds:.0f} s" for number, seconds in silent.items()})
        self.playing = sum(member.played > 0 for number, member in members.items() if number not in silent)
        self._next_look = now + len(members) / LOOKS_PER_SECOND

    def tell_to_leave(self) -> None:
        self._exchange.refuse_more()
        for number in self._exchange.remote_members():
            self._exchange.stop_agent(number)

    def stop(self) -> None:
        """Take nothing more of them."""
        for number in self._exchange.remote_members():
            self._dismiss(number)
        self.playing = 0

    def _send_away(self, away: dict[int, str]) -> None:
        for told, (number, why) in enumerate(away.items()):
            lost = self._dismiss(number)
            if told < TOLD_EACH:
                log.warning("agent %d %s; %d steps of it are lost", number, why, lost)
        if len(away) > TOLD_EACH:
            log.warning("%d more agents are away", len(away) - TOLD_EACH)

    def _dismiss(self, number: int) -> int:
        lost = self._exchange.dismiss(number)
        self._stats.add(lost_steps=lost)
        return lost
