"""A clock that a test puts forward instead of waiting, for a module that asks ``time`` for it."""

import time


class Clock:
    def __init__(self):
        self.ahead = 0.0

    def monotonic(self):
        return time.monotonic() + self.ahead
