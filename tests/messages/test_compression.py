"""Compressed bodies: what goes in comes out, nothing is taken that is not what it says, and when it is tried at all."""

import random
import tracemalloc

import numpy as np
import pytest
import zstandard

from ga3c.messages import compression, wire
from ga3c.messages.compression import LEAST_BYTES, TRIED, Compressor, Decompressor, offered
from ga3c.messages.wire import Header, Kind, WireError
from ga3c.settings.declare import ConfigError
from tests.messages.test_wire import IMAGES, RUN, decode, message

MOST = 1_000_000
HEAD = Header(Kind.REQUEST, RUN, 1).pack()
CHANCE = np.random.default_rng(0)
ALIKE = np.repeat(CHANCE.integers(0, 256, (1, 7056), np.uint8), 4, axis=0).tobytes()
NOISE = CHANCE.bytes(28_224)


def compress(body):
    return zstandard.ZstdCompressor(level=1).compress(body)


def unpack(body):
    return Decompressor(MOST).unpack(body)


@pytest.mark.parametrize("body", [ALIKE, bytes(LEAST_BYTES), bytes(MOST), ALIKE[:-1]], ids=len)
def test_what_goes_in_comes_out_bit_for_bit(body):
    head, small = Compressor(True, loopback=True).pack((HEAD, body))
    assert len(small) < len(body)
    assert wire.read_header(head) == Header(Kind.REQUEST, RUN, 1, compressed=True)
    for view in (bytes, memoryview):
        assert unpack(view(small)) == body


def test_what_becomes_no_smaller_or_is_small_is_sent_as_it_is():
    compressor = Compressor(True, loopback=False)
    for body in (NOISE, bytes(LEAST_BYTES - 1), b""):
        for _ in range(TRIED + 1):
            assert compressor.pack((HEAD, body)) == (HEAD, body)
    assert wire.read_header(compressor.pack((HEAD, ALIKE))[0]).compressed  # it was told to, so it goes on trying


@pytest.mark.parametrize(
    ("compress", "loopback", "does"),
    [(None, False, True), (None, True, False), (True, True, True), (False, False, False)],
)
def test_auto_is_for_other_machines(compress, loopback, does):
    head, _ = Compressor(compress, loopback=loopback).pack((HEAD, ALIKE))
    assert wire.read_header(head).compressed == does


def test_auto_gives_up_what_does_not_pay():
    pays, does_not = Compressor(None, loopback=False), Compressor(None, loopback=False)
    for _ in range(TRIED):
        pays.pack((HEAD, ALIKE))
        does_not.pack((HEAD, NOISE))
    assert wire.read_header(pays.pack((HEAD, ALIKE))[0]).compressed
    assert not wire.read_header(does_not.pack((HEAD, ALIKE))[0]).compressed


def test_without_the_package_both_ends_go_without(monkeypatch, caplog):
    monkeypatch.setattr(compression, "is_available", lambda: False)
    assert (offered(None), offered(False)) == (False, False)
    with pytest.raises(ConfigError, match="COMPRESS=1 needs the package zstandard"):
        offered(True)
    assert Compressor(True, loopback=False).pack((HEAD, ALIKE)) == (HEAD, ALIKE)
    assert "zstandard is not installed here" in caplog.text
    monkeypatch.undo()
    assert (offered(None), offered(True), offered(False)) == (None, True, False)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in wire.WITH_BODY])
def test_only_what_has_a_body_can_be_marked_compressed(kind):
    with pytest.raises(WireError, match="unknown kind"):
        wire.read_header(wire.marked_compressed(Header(kind, RUN, 1).pack()))


# Bombs, and what else is no good


def test_a_bomb_is_refused_by_what_it_declares():
    """A gigabyte in 32 kB: nothing of it is ever taken."""
    bomb = compress(bytes(2**30))
    assert len(bomb) < 40_000
    tracemalloc.start()
    with pytest.raises(WireError, match=f"a compressed body of {2**30} bytes where at most {MOST} belong"):
        unpack(bomb)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
    with pytest.raises(WireError, match=f"of {MOST + 1} bytes"):
        unpack(compress(bytes(MOST + 1)))


def test_a_bomb_that_declares_less_or_nothing_is_refused():
    undeclared = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(2**24))
    with pytest.raises(WireError, match="of -1 bytes"):
        unpack(undeclared)
    # The same blocks behind the frame header of a thousand bytes: magic, a descriptor with one byte of size, and it.
    small = bytearray(compress(bytes(200)))
    large = compress(bytes(MOST))
    header = zstandard.frame_header_size(bytes(small))
    liar = bytes(small[:header]) + large[zstandard.frame_header_size(large) :]
    assert zstandard.frame_content_size(liar) == 200
    tracemalloc.start()
    with pytest.raises(WireError, match="cannot be decompressed"):
        unpack(liar)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def test_a_body_that_is_cut_or_goes_on_is_refused():
    small = compress(ALIKE)
    for bad in (*(small[:length] for length in range(0, len(small), 97)), small + b"x", small + small, b"x" + small):
        with pytest.raises(WireError):
            unpack(bad)


def test_random_damage_is_refused_or_has_the_size_that_it_declares():
    chance, small = random.Random(1), compress(ALIKE[:9000])
    decompressor, refused = Decompressor(MOST), 0
    for _ in range(3000):
        bad = bytearray(small)
        for _ in range(chance.choice([1, 1, 2, 8])):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        try:
            assert len(decompressor.unpack(bytes(bad))) <= MOST
        except WireError:
            refused += 1
    assert refused > 10  # most of it is pixels, which may be any
    assert decompressor.unpack(small) == ALIKE[:9000]  # it is none the worse for it


def test_a_wrong_size_is_refused_where_it_is_decoded():
    for kind in wire.WITH_BODY:
        head, body = message(kind, IMAGES)
        decode(kind, head, unpack(compress(bytes(body))), IMAGES)
        for wrong in (bytes(body)[:-1], bytes(body) + b"x", b""):
            with pytest.raises(WireError):
                decode(kind, head, unpack(compress(wrong)), IMAGES)
