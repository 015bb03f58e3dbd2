"""What agents of other machines send, compressed with zstd. Both ends go without it where one of them lacks zstandard.

Frames follow one another in what is sent, and are nearly the same: a stack of four becomes 1/50 to 1/120 of it within
a microsecond per frame. On one machine nothing is compressed: there is no wire that it could relieve.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

from ga3c.messages.wire import Buffer, Parts, WireError, marked_compressed
from ga3c.settings.declare import ConfigError

log = logging.getLogger(__name__)

LEVEL = 1
LEAST_BYTES = 1000  # of a body: smaller ones are for few bytes more than a whole message has besides
WORTH = 0.75  # a body that becomes more than this share of itself is sent as it is
TRIED = 20  # bodies; where compressing them made them no smaller together, COMPRESS=auto gives it up
WINDOW_MOST = 2**23  # bytes that a message may make its receiver look back; level 1 needs 2**19


def is_available() -> bool:
    return find_spec("zstandard") is not None


def offered(compress: bool | None) -> bool | None:
    """The setting as agents are told of it: none where this machine could not read it."""
    if not is_available():
        if compress:
            raise ConfigError("COMPRESS=1 needs the package zstandard: 'pip install zstandard', or leave it out")
        return False
    return compress


class Compressor:
    """The sender's end of one connection."""

    def __init__(self, compress: bool | None, *, loopback: bool) -> None:
        """``compress`` None: if it goes to another machine, and for as long as it pays."""
        self._always = bool(compress)
        self._wanted = not loopback if compress is None else compress
        if self._wanted and not is_available():
            log.warning("zstandard is not installed here, so what is sent is not compressed")
            self._wanted = False
        self._tried = self._before = self._after = 0
        if self._wanted:
            import zstandard

            self._zstd = zstandard.ZstdCompressor(level=LEVEL)

    def pack(self, parts: Parts) -> Parts:
        """The message with its body compressed, where that is worth it."""
        head, body = parts
        if not self._wanted or len(body) < LEAST_BYTES:
            return parts
        small = self._zstd.compress(body)
        worth = len(small) <= WORTH * len(body)
        if self._tried < TRIED and not self._always:
            self._tried += 1
            self._before += len(body)
            self._after += len(small)
            self._wanted = self._tried < TRIED or self._after <= WORTH * self._before
        return (marked_compressed(head), small) if worth else parts


class Decompressor:
    """The receiver's end, for one thread. No message can make it take more than ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._zstd: Any = None

    def unpack(self, body: Buffer) -> bytes:
        import zstandard

        if self._zstd is None:
            self._zstd = zstandard.ZstdDecompressor(max_window_size=WINDOW_MOST)
        try:
            # As many bytes as it says are taken at once, so this is looked at first. Less than all is an error.
            size = zstandard.frame_content_size(body)
            if not 0 <= size <= self._most:
                raise WireError(f"a compressed body of {size} bytes where at most {self._most} belong")
            whole: bytes = self._zstd.decompress(body, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise WireError(f"a body that cannot be decompressed: {error}") from None
        return whole
