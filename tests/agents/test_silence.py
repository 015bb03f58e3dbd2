"""Silence: whose turn it is, and for how long it may say nothing."""

from types import SimpleNamespace

import pytest

from ga3c.agents import silence
from ga3c.agents.silence import LOOK_MOST, START_PATIENCE, SilenceWatch
from ga3c.messages.member import Member

STALL = 2.0
HALVES = 2
LONG = 100.0


class Watched:
    """One agent that is looked at again and again, by a clock of its own."""

    def __init__(self, monkeypatch, **counts):
        self._now = 100.0
        monkeypatch.setattr(silence, "time", SimpleNamespace(monotonic=lambda: self._now))
        self._watch = SilenceWatch(STALL, HALVES)
        self.member = Member(b"route", **counts)
        assert not self._watch.look({7: self.member})

    def silent_after(self, most=LONG, step=LOOK_MOST, before=lambda: None):
        """Seconds until it is said to be silent; None if it is not by then. ``before`` each look this happens."""
        begun = self._now
        while self._now - begun < most:
            self._now += step
            before()
            if silent := self._watch.look({7: self.member}):
                assert silent.keys() == {7}
                return self._now - begun
        return None


def test_whose_turn_it_is_has_the_time_of_a_stall(monkeypatch):
    assert Watched(monkeypatch, requests=9, replies=9, heard=30).silent_after() == STALL + LOOK_MOST


def test_who_still_makes_its_environments_has_more_time(monkeypatch):
    watched = Watched(monkeypatch, requests=HALVES - 1, replies=HALVES - 1, heard=1)
    assert watched.silent_after() == STALL * START_PATIENCE + LOOK_MOST


def test_who_waits_for_all_its_answers_is_not_silent(monkeypatch):
    watched = Watched(monkeypatch, requests=9, replies=9 - HALVES, heard=30)
    assert watched.silent_after() is None
    watched.member.replies += 1  # one half could go on
    assert watched.silent_after() == STALL + 2 * LOOK_MOST


@pytest.mark.parametrize("counts", [["heard"], ["requests", "replies"]], ids=["said", "answered"])
def test_the_time_begins_anew_with_all_that_is_said_or_answered(monkeypatch, counts):
    watched = Watched(monkeypatch, requests=9, replies=9, heard=30)
    looks = iter(range(1, 1000))

    def tell():
        if next(looks) % 4 == 0:
            for count in counts:
                setattr(watched.member, count, getattr(watched.member, count) + 1)

    assert watched.silent_after(before=tell) is None
    assert watched.silent_after() == STALL + LOOK_MOST


def test_a_pause_of_the_server_itself_counts_as_one_look(monkeypatch):
    watched = Watched(monkeypatch, requests=9, replies=9, heard=30)
    assert watched.silent_after(step=LONG) is None
    assert watched.silent_after() == STALL
