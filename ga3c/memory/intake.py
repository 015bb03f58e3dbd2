"""The way in of all that players say: booked first, then given to those who wait for it."""

from __future__ import annotations

from collections.abc import Callable

from ga3c.games.spec import Finished
from ga3c.memory.experience import Experience
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Request, Turn


class Intake:
    """What was booked is collected, and goes on in one go with ``pass_on``. For one thread."""

    def __init__(
        self,
        stats: Stats,
        requests: Callable[[list[Request]], None],
        experiences: Callable[[list[Experience]], None],
    ) -> None:
        self._stats = stats
        self._give_requests, self._give_experiences = requests, experiences
        self._requests: list[Request] = []
        self._experiences: list[Experience] = []

    def turn(self, turn: Turn) -> None:
        for experience in turn.experiences:
            self.experience(experience)
        if turn.finished:
            self.scores(turn.finished)
        self.request(turn.request)

    def request(self, request: Request) -> None:
        """Raises LedgerError where it is of no environment that there is, as ``experience`` does."""
        self._stats.ledger.play(request.agent, request.first_env, request.real)
        self._requests.append(request)

    def experience(self, experience: Experience) -> None:
        self._stats.ledger.deliver(experience)
        self._experiences.append(experience)

    def scores(self, games: tuple[Finished, ...]) -> None:
        self._stats.add_games(games)

    def pass_on(self) -> None:
        # Experiences first: a predictor that the requests wake up then sees how full the training queue is.
        if self._experiences:
            experiences, self._experiences = self._experiences, []
            self._give_experiences(experiences)
        if self._requests:
            requests, self._requests = self._requests, []
            self._stats.add(steps=sum(request.played for request in requests))
            self._give_requests(requests)
