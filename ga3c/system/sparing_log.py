"""Log lines about what strangers may cause as often as they like."""

from __future__ import annotations

import logging
import time

LEAST_SECONDS = 10.0  # between two lines


class SparingLog:
    """Warns of many events in few lines: ``text`` has their number, and what is said of the last one."""

    def __init__(self, log: logging.Logger, text: str) -> None:
        self._log = log
        self._text = text
        self._untold = 0
        self._told = -LEAST_SECONDS

    def add(self, last: object) -> None:
        self._untold += 1
        now = time.monotonic()
        if now - self._told > LEAST_SECONDS:
            self._log.warning(self._text, self._untold, last)
            self._untold, self._told = 0, now
