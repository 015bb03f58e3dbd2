"""The agents that take part: what is counted of each, and who is who."""

from __future__ import annotations

from dataclasses import dataclass

FORMER_MOST = 16_384  # agents that left and are remembered: what comes of an older one is bad


@dataclass(slots=True)
class Member:
    route: bytes = b""  # the name of its connection
    token: bytes = b""  # of an agent of another machine
    connection: int = -1  # of an agent of another machine: the descriptor that it comes by
    played: int = 0
    heard: int = 0  # messages
    requests: int = 0
    replies: int = 0
    scores: int = 0  # messages
    version: int = 0  # of the model: the newest that it was told of
    last_words: str = ""  # why it ended by itself
    asked: float = 0.0  # when its last request came
    held: float = 0.0  # since when the server has all that it waits for; 0: it could play

    @property
    def waiting(self) -> int:
        """Requests that it waits for the answer of."""
        return self.requests - self.replies


class Members:
    """All of them. Nothing here takes longer the more there are. For one thread at a time."""

    def __init__(self) -> None:
        self.present: dict[int, Member] = {}  # each agent that is admitted
        self.remote: dict[int, Member] = {}  # those of other machines
        self.former: dict[int, bytes] = {}  # connections of agents that left: their messages are late, not bad
        self.gone: dict[int, str] = {}  # what became of those of other machines that are there no more
        self._by_token: dict[bytes, int] = {}
        self._by_connection: dict[int, int] = {}

    def add(self, agent: int, member: Member) -> None:
        """One with the token of another was that one before, and where one comes by, no other one is any more."""
        self.present[agent] = member
        if member.token:
            self.remote[agent] = member
            before = self._by_token.get(member.token)
            if before is not None:
                self.gone[before] = "came back under another number"
            self._by_token[member.token] = agent
            self.lose(member.connection)
            self._by_connection[member.connection] = agent

    def remove(self, agent: int) -> None:
        member = self.present.pop(agent)
        self.former[agent] = member.route
        if len(self.former) > FORMER_MOST:
            del self.former[next(iter(self.former))]
        if member.token:
            del self.remote[agent]
            self.gone.pop(agent, None)
            if self._by_token.get(member.token) == agent:
                del self._by_token[member.token]
            if self._by_connection.get(member.connection) == agent:
                del self._by_connection[member.connection]

    def lose(self, connection: int) -> None:
        """This connection is gone; it may have been anybody's."""
        agent = self._by_connection.pop(connection, None)
        if agent is not None:
            self.gone.setdefault(agent, "lost its connection")
