"""The way in: what players say is booked at once, and goes on in one go, experiences first."""

import numpy as np
import pytest

from ga3c.games.spec import Finished
from ga3c.memory.experience import Experience
from ga3c.memory.intake import Intake
from ga3c.memory.ledger import LedgerError
from ga3c.memory.stats import Stats
from ga3c.memory.turn import Request, Turn


class Desk:
    """An intake, and in ``told`` what it passed on in which order."""

    def __init__(self):
        self.stats, self.told = Stats(), []
        self.stats.ledger.open(0, 2)
        self.intake = Intake(self.stats, self._tell("requests"), self._tell("experiences"))

    def _tell(self, kind):
        return lambda items: self.told.append((kind, items, self.stats.totals.steps))


@pytest.fixture
def desk():
    return Desk()


def request(real=b"\1\1", first_env=0):
    return Request(0, 0, first_env, real, np.zeros((len(real), 1, 1), np.float32))


def experience(first_step=0, steps=1, env=0):
    nothing = np.zeros(steps, np.float32)
    return Experience(0, env, first_step, 0, nothing[:, None], {"actions": nothing.astype(np.int32)})


def test_experiences_go_on_before_requests_and_each_in_one_go(desk):
    first, second, third = request(b"\0\0"), request(), request(b"\1\0")
    done = [experience(), experience(env=1)]
    desk.intake.turn(Turn(first))
    desk.intake.turn(Turn(second))
    desk.intake.turn(Turn(third, experiences=tuple(done)))
    assert desk.told == []
    desk.intake.pass_on()
    # Whoever is woken up by a request finds the steps counted, and the training queue as full as it is.
    assert desk.told == [("experiences", done, 0), ("requests", [first, second, third], 3)]


def test_steps_are_counted_once_and_resets_never(desk):
    for real, steps in ((b"\0\0", 0), (b"\1\1", 2), (b"\1\0", 3)):
        desk.intake.request(request(real))
        desk.intake.pass_on()
        desk.intake.pass_on()
        assert desk.stats.totals.steps == steps
    assert [kind for kind, _, _ in desk.told] == ["requests"] * 3  # nothing is passed on where there is nothing


def test_what_was_passed_on_is_not_changed_by_what_follows(desk):
    for _ in range(2):
        desk.intake.request(request())
        desk.intake.pass_on()
    assert [len(items) for _, items, _ in desk.told] == [1, 1]


def test_games_that_ended_are_counted_at_once(desk):
    desk.intake.turn(Turn(request(), finished=(Finished(3.0, 10), Finished(5.0, 20))))
    assert desk.stats.totals.episodes == 2
    assert list(desk.stats.scores) == [3.0, 5.0]


@pytest.mark.parametrize(
    "wrong", [experience(steps=2), experience(first_step=1), experience(env=2), experience(env=1, steps=3)]
)
def test_experiences_that_do_not_follow_go_no_further(desk, wrong):
    desk.intake.request(request())
    with pytest.raises(LedgerError):
        desk.intake.experience(wrong)
    desk.intake.pass_on()
    assert [kind for kind, _, _ in desk.told] == ["requests"]


def test_requests_of_environments_that_are_not_there_go_no_further(desk):
    with pytest.raises(LedgerError):
        desk.intake.request(request(first_env=1))
    desk.intake.pass_on()
    assert desk.told == []
    assert desk.stats.totals.steps == 0


def test_what_is_passed_on_is_what_the_ledger_knows(desk):
    desk.intake.turn(Turn(request()))
    desk.intake.turn(Turn(request(), experiences=(experience(),)))
    desk.intake.pass_on()
    (_, experiences, _), _ = desk.told
    desk.stats.ledger.settle(experiences)
    assert desk.stats.ledger.leave(0) == 3
    assert desk.stats.ledger.gaps() == []
    assert desk.stats.totals.steps == 4
