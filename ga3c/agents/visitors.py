"""The agents of other machines as the server sees them: they join by themselves, and whoever falls silent is away."""

from __future__ import annotations

import logging

from ga3c.agents.player import halves
from ga3c.agents.silence import SilenceWatch
from ga3c.memory.stats import Stats
from ga3c.messages.exchange import Exchange
from ga3c.settings.config import Resolved

log = logging.getLogger(__name__)


class RemoteAgents:
    """All is done in ``tend``, which one thread calls often.

    One that is away may come back at any time, under another number: what it had under way is lost, and counted.
    """

    def __init__(self, config: Resolved, exchange: Exchange, stats: Stats) -> None:
        self.playing = 0  # when they were last tended
        self._exchange = exchange
        self._stats = stats
        self._silence = SilenceWatch(config.stall_seconds, len(halves(config)))

    def tend(self) -> None:
        """Dismiss those that are gone, or silent although it is their turn."""
        members = self._exchange.remote_members()
        away = {number: f"was silent for {seconds:.0f} s" for number, seconds in self._silence.look(members).items()}
        away |= {number: member.gone for number, member in members.items() if member.gone}
        for number, why in away.items():
            log.warning("agent %d %s; %d steps of it are lost", number, why, self._dismiss(number))
        self.playing = sum(member.played > 0 for number, member in members.items() if number not in away)

    def tell_to_leave(self) -> None:
        self._exchange.refuse_more()
        for number in self._exchange.remote_members():
            self._exchange.stop_agent(number)

    def stop(self) -> None:
        """Take nothing more of them."""
        for number in self._exchange.remote_members():
            self._dismiss(number)
        self.playing = 0

    def _dismiss(self, number: int) -> int:
        lost = self._exchange.dismiss(number)
        self._stats.add(lost_steps=lost)
        return lost
