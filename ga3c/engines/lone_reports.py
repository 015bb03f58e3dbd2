"""What agents that train by themselves tell the server, and how it tells them to leave.

A socket for each agent. It carries lines of JSON some ten times a second: what the agent's counters gained, the lags of
what it trained on, and its games; at its end also why. A single byte from the server means STOP.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from dataclasses import dataclass, field, replace
from typing import Any

from ga3c.games.spec import Finished
from ga3c.memory.stats import COUNTERS, Stats
from ga3c.messages.member import Member
from ga3c.messages.wire import MAX_TEXT

REPORT_SECONDS = 0.1  # between two reports; of an agent that is killed, what it did since the last one is not known
COUNTED_APART = ("episodes", "experiences", "lag")  # which the games and the lags tell


class ServerGone(Exception):
    """Nobody listens any more."""


class Reporter:
    """The agent's end: tells what its counters gained."""

    def __init__(self, connection: socket.socket, stats: Stats) -> None:
        self._connection = connection
        self._stats = stats
        self._told = stats.snapshot()
        self._due = 0.0

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._due

    def report(self) -> None:
        now = self._stats.snapshot()
        gained = {name: amount - self._told.totals.get(name, 0) for name, amount in now.totals.items()}
        lags = {lag: count - self._told.lags.get(lag, 0) for lag, count in now.lags.items()}
        self._told = now
        self._send(
            gained={name: amount for name, amount in gained.items() if amount and name not in COUNTED_APART},
            lags=[[lag, count] for lag, count in lags.items() if count],
            games=[[game.score, game.length] for game in self._stats.take_games()],
        )
        self._due = time.monotonic() + REPORT_SECONDS

    def fail(self, reason: str, *, for_all: bool) -> None:
        """Last words; ``for_all`` says that another agent would not do better."""
        self._send(failure=reason[:MAX_TEXT], for_all=for_all)

    def told_to_leave(self) -> bool:
        try:
            self._connection.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            raise ServerGone from None
        return True  # by a byte, or since the server's end is closed

    def _send(self, **parts: Any) -> None:
        try:
            self._connection.sendall(json.dumps(parts).encode() + b"\n")
        except OSError:
            raise ServerGone from None


@dataclass
class Line:
    """The server's end of one agent's socket."""

    near: socket.socket
    far: socket.socket  # the agent's end, until its process has it
    member: Member = field(default_factory=Member)
    unread: bytes = b""
    under_way: int = 0  # steps that it played and neither trained on nor threw away


class Reports:
    """The server's end of all: adds what agents tell to the counters of the run. For one thread."""

    def __init__(self, stats: Stats) -> None:
        self.failure = ""  # of an agent, for all
        self._stats = stats
        self._lines: dict[int, Line] = {}

    def admit(self, agent: int, envs: int) -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        self._lines[agent] = Line(near, far)

    def connection_of(self, agent: int) -> socket.socket:
        """What the process of the agent is to be given."""
        return self._lines[agent].far

    def member(self, agent: int) -> Member:
        return replace(self._lines[agent].member)

    def stop_agent(self, agent: int) -> None:
        with contextlib.suppress(OSError):  # it is gone already
            self._lines[agent].near.send(b"!")

    def dismiss(self, agent: int) -> int:
        """Hear its last report. Returns the steps that it had under way: there are some if it could not say goodbye."""
        self._read(agent)
        line = self._lines.pop(agent)
        line.near.close()
        line.far.close()
        return line.under_way

    def collect(self) -> None:
        """Take what has arrived."""
        for agent, line in self._lines.items():
            line.far.close()  # its process has been started: it has an end of its own, and its death is to be seen
            self._read(agent)

    def _read(self, agent: int) -> None:
        line = self._lines[agent]
        with contextlib.suppress(OSError):  # nothing more at the moment, or for ever
            while data := line.near.recv(65536):
                line.unread += data
        *whole, line.unread = line.unread.split(b"\n")
        for text in whole:
            self._take(agent, line, json.loads(text))

    def _take(self, agent: int, line: Line, parts: dict[str, Any]) -> None:
        member = line.member
        member.heard += 1
        member.requests = member.replies = member.heard  # it never waits for the server: it is always its turn
        if "failure" in parts:
            member.last_words = parts["failure"]
            if parts["for_all"]:
                self.failure = f"agent {agent} failed: {member.last_words}"
            return
        gained = parts["gained"]
        member.played += gained.get("steps", 0)
        ended = sum(gained.get(name, 0) for name in ("samples", "stale_steps", "lost_steps"))
        line.under_way += gained.get("steps", 0) - ended
        self._stats.add(**{name: amount for name, amount in gained.items() if name in COUNTERS})
        self._stats.add_losses({name: amount for name, amount in gained.items() if name not in COUNTERS})
        if parts["lags"]:
            self._stats.add_lags([lag for lag, count in parts["lags"] for _ in range(count)])
        if parts["games"]:
            self._stats.add_games(tuple(Finished(score, steps) for score, steps in parts["games"]))
