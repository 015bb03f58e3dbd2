"""The ledger: of every environment, which of its steps were played, and that each of them ended once.

A step ends when it is trained on or stored, or is thrown away and counted. Both are told by the numbers of the steps,
so that a step that was lost unseen shows as a gap, and one that was trained on twice as an overlap; a sum that is made
by subtraction could never show either.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ga3c.memory.experience import Experience


class LedgerError(ValueError):
    """Steps that do not follow those before them."""


class Gap(NamedTuple):
    """Steps of an environment that were played and did not end."""

    agent: int
    env: int
    first_step: int
    end: int


@dataclass
class Account:
    """One environment. Steps are numbered from 0 on, in the order in which they are played."""

    played: int = 0
    ahead: bool = False  # the last of these arrived in an experience, and the request that tells of it has not yet
    delivered: int = 0  # the steps before this one arrived in experiences
    settled: int = 0  # all steps before this one ended
    beyond: dict[int, int] = field(default_factory=dict)  # spans after a gap that ended already, by their first step

    def settle(self, first: int, end: int) -> int:
        """Note that these steps ended; returns how many of them had ended before."""
        again = max(min(end, self.settled) - first, 0)
        again += sum(
            max(min(end, other_end) - max(first, other), 0)
            for other, other_end in self.beyond.items()
            if other < end and first < other_end
        )
        self.beyond[first] = max(end, self.beyond.get(first, end))
        for start in sorted(self.beyond):
            if start > self.settled:
                break
            self.settled = max(self.settled, self.beyond.pop(start))
        return again

    def gaps(self) -> list[tuple[int, int]]:
        """Spans of steps that were played and did not end."""
        found, at = [], self.settled
        for first, end in [*sorted(self.beyond.items()), (self.played, self.played)]:
            if at < first:
                found.append((at, first))
            at = max(at, end)
        return found


class Ledger:
    """The accounts of all environments whose steps have not all ended yet. For any thread."""

    def __init__(self) -> None:
        self.overlapping = 0  # steps that ended more than once, or that nobody played
        self.eager = False  # experiences are sent with their last step, before the request that tells of it
        self.untold = 0  # steps that arrived in experiences, and whose requests never came
        self._lock = threading.Lock()
        self._accounts: dict[int, list[Account]] = {}  # by agent and environment
        self._left: set[int] = set()  # agents that play no more

    def open(self, agent: int, envs: int) -> None:
        with self._lock:
            self._accounts[agent] = [Account() for _ in range(envs)]

    def state(self, agent: int) -> list[list[int]]:
        """The accounts of an agent whose steps end in the order in which they were played, for ``load``."""
        with self._lock:
            assert not any(account.beyond for account in self._accounts[agent])
            return [[account.played, account.delivered, account.settled] for account in self._accounts[agent]]

    def load(self, agent: int, state: list[list[int]]) -> None:
        with self._lock:
            self._accounts[agent] = [
                Account(played=played, delivered=delivered, settled=settled) for played, delivered, settled in state
            ]

    def play(self, agent: int, first_env: int, real: bytes) -> None:
        """Count a step of each environment from this one on where it was real."""
        with self._lock:
            accounts = self._accounts[agent]
            if first_env + len(real) > len(accounts):
                raise LedgerError(f"agent {agent} has {len(accounts)} environments, not {first_env + len(real)}")
            for env, counts in enumerate(real, first_env):
                account = accounts[env]
                if account.ahead and counts:
                    account.ahead = False
                else:
                    account.played += counts

    def deliver(self, experience: Experience) -> None:
        """Note that these steps arrived; they have to follow the last that did, and to have been played."""
        with self._lock:
            accounts = self._accounts[experience.agent]
            if experience.env >= len(accounts):
                raise LedgerError(f"agent {experience.agent} has no environment {experience.env}")
            account = accounts[experience.env]
            end = experience.first_step + experience.steps
            ahead = self.eager and end == account.played + 1 and not account.ahead
            if experience.first_step != account.delivered or (end > account.played and not ahead):
                raise LedgerError(
                    f"steps {experience.first_step} to {end} of an environment that played {account.played} steps and "
                    f"delivered {account.delivered}"
                )
            account.delivered = end
            if ahead:
                account.played, account.ahead = end, True

    def settle(self, experiences: Iterable[Experience]) -> None:
        """Note that the steps of these experiences ended."""
        with self._lock:
            for experience in experiences:
                accounts = self._accounts.get(experience.agent)
                if accounts is None:
                    self.overlapping += experience.steps
                    continue
                first = experience.first_step
                self.overlapping += accounts[experience.env].settle(first, first + experience.steps)
                self._forget(experience.agent)

    def leave(self, agent: int) -> int:
        """An agent plays no more: steps that did not arrive end here. Returns how many these are."""
        with self._lock:
            lost = 0
            for account in self._accounts[agent]:
                self.untold += account.ahead
                if account.delivered < account.played:
                    self.overlapping += account.settle(account.delivered, account.played)
                    lost += account.played - account.delivered
            self._left.add(agent)
            self._forget(agent)
            return lost

    def gaps(self) -> list[Gap]:
        """All steps that were played and did not end up to now."""
        with self._lock:
            return [
                Gap(agent, env, first, end)
                for agent, accounts in self._accounts.items()
                for env, account in enumerate(accounts)
                for first, end in account.gaps()
            ]

    def _forget(self, agent: int) -> None:
        """An agent that left, and whose steps have all ended, needs no accounts any more."""
        if agent in self._left and all(account.settled == account.played for account in self._accounts[agent]):
            del self._accounts[agent]
            self._left.discard(agent)
