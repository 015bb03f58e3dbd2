"""Waiting in tests: for a condition, never for a time."""

import time


def wait_until(condition, seconds=60.0, what="the condition"):
    """Poll until the condition holds; returns its value."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"{what} was not met within {seconds} s"
        time.sleep(0.01)
    return value
