"""A made-up server for the tuner, and what its trace says so far."""

import time

from tests.helpers.waiting import wait_until
from tuner.space import Setting, Space
from tuner.strategy import Plan, System
from tuner.trace import TraceError, read_trace
from tuner.window import Counters

LATE = 0.4  # seconds that a loaded machine may take to wake a thread up
PLAN = Plan("paper", Setting(2, 1, 1), Space(8, 4, 4), System(2), window=0.06)


class FakeServer:
    """Trains at a rate that its setting decides, and does at once what it is told, unless a test says otherwise."""

    def __init__(self, setting=PLAN.start, rate=lambda setting: 1e5 * setting.agents):
        self.setting = setting
        self.applied = []
        self.agents_started = 0
        self._rate = rate
        self._updates, self._seconds = 0.0, time.monotonic()

    def apply(self, setting):
        self._advance()
        self.applied.append(setting)
        self.setting = setting

    def unsettled(self):
        return ""

    def counters(self):
        self._advance()
        return Counters(self._seconds, int(self._updates), int(10 * self._updates), agents_started=self.agents_started)

    def _advance(self):
        now = time.monotonic()
        self._updates += (now - self._seconds) * self._rate(self.setting)
        self._seconds = now


def trials_of(path):
    try:
        return read_trace(path).trials
    except TraceError:  # it is not there yet, or has no line yet
        return ()


def wait_for_trials(path, count):
    return wait_until(lambda: (trials := trials_of(path)) and len(trials) >= count and trials)
