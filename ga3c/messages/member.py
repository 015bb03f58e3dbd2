"""What is counted of one agent: the steps that it played, and its messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Member:
    route: bytes = b""  # the name of its connection
    token: bytes = b""  # of an agent of another machine
    gone: str = ""  # what became of an agent of another machine, if it is there no more
    played: int = 0
    heard: int = 0  # messages
    requests: int = 0
    replies: int = 0
    scores: int = 0  # messages
    version: int = 0  # of the model: the newest that it was told of
    last_words: str = ""  # why it ended by itself

    @property
    def waiting(self) -> int:
        """Requests that it waits for the answer of."""
        return self.requests - self.replies
