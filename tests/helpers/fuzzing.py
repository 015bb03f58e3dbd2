"""Fuzzed messages: good ones of each kind, what damage makes of them, and what must hold of all that is taken."""

import struct

import numpy as np
import zstandard

from ga3c.games.spec import Finished
from ga3c.memory.experience import Experience
from ga3c.memory.turn import Request
from ga3c.messages import wire
from ga3c.messages.compression import Decompressor
from ga3c.messages.wire import Header, Kind, WireError
from tests.messages.test_wire import decode, schema_of

ZSTD = zstandard.ZstdCompressor(level=1)
UNPACKED_MOST = 4000  # bytes: more than the good ones have
EXTREMES = [
    *(
        struct.pack(layout, value)
        for layout in ["<B", "<H", "<I", "<Q"]
        for value in (0, 1, 2 ** (8 * struct.calcsize(layout)) - 1)
    ),
    *(struct.pack(layout, value) for layout in ["<f", "<d"] for value in (float("nan"), float("inf"), -1e30, -0.0)),
    *(struct.pack("<q", value) for value in (-1, -(2**63), 2**63 - 1)),
]


HEADER_ALONE = (Kind.STOP, Kind.REJOIN)


def good_messages(spec, run, agent, half=0, version=0):
    """One of each kind, as whole parts."""
    steps = 3

    def header(kind):
        return Header(kind, run, agent, half, version)

    experience = Experience(
        agent=agent,
        env=0,
        first_step=0,
        version=version,
        frames=np.ones((spec.stack - 1 + steps, *spec.frame), spec.dtype),
        fields={
            "actions": np.arange(steps, dtype=np.int32) % spec.action.n,
            "returns": np.linspace(-1.0, 1.0, steps, dtype=np.float32),
        },
    )
    outputs = np.full((2, spec.action.n + 1), 1 / spec.action.n, np.float32)
    messages = [
        encode_request(header(Kind.REQUEST), np.ones((1, *spec.observation), spec.dtype)),
        wire.encode_reply(header(Kind.REPLY), outputs),
        wire.encode_experience(run, half, experience, schema_of(spec)),
        wire.encode_scores(header(Kind.SCORES), (Finished(21.0, 100),)),
        wire.encode_failure(header(Kind.FAILURE), "the game is broken"),
        wire.encode_join(wire.Join(b"t" * wire.TOKEN_BYTES, "0.1.0")),
        wire.encode_welcome(header(Kind.WELCOME), {"game": "Pong", "t_max": 5}),
        *((header(kind).pack(), b"") for kind in HEADER_ALONE),
    ]
    whole = [[bytes(part) for part in parts] for parts in messages]
    return whole + [
        [wire.marked_compressed(head), ZSTD.compress(body)]
        for head, body in whole
        if wire.read_header(head).kind in wire.WITH_BODY
    ]


def encode_request(header, observations, first_env=0, real=b""):
    request = Request(header.agent, header.half, first_env, real or bytes(len(observations)), observations)
    head, body = wire.encode_request(header.run, request)
    return header.pack() + head[wire.HEADER.size :], body  # it has no version, and whichever stands there is not read


def encode_again(header, value, spec):
    """The message that says what was decoded."""
    if header.kind == Kind.REQUEST:
        return encode_request(header, value.observations, value.first_env, value.real)
    if header.kind == Kind.REPLY:
        return wire.encode_reply(header, value.outputs)
    if header.kind == Kind.EXPERIENCE:
        return wire.encode_experience(header.run, header.half, value, schema_of(spec))
    if header.kind == Kind.SCORES:
        return wire.encode_scores(header, value)
    if header.kind == Kind.FAILURE:
        return wire.encode_failure(header, value)
    if header.kind == Kind.JOIN:
        return wire.encode_join(value)
    if header.kind == Kind.WELCOME:
        return wire.encode_welcome(header, value)
    return header.pack(), b""


def taken(head, body, spec):
    """The kind of a message that its receiver takes, or None where it is refused by a WireError.

    All else ends the test: another error, or a message that says something else when it is sent on.
    """
    try:
        header = wire.read_header(head)
        if header.compressed:
            body = Decompressor(UNPACKED_MOST).unpack(body)
        value = decode(header.kind, head, body, spec)
    except WireError:
        return None
    head_again, body_again = encode_again(header, value, spec)
    if header.compressed:
        head_again = wire.marked_compressed(head_again)
    if header.kind in HEADER_ALONE:  # what follows is never read
        head = head[: len(head_again)]
    if header.kind == Kind.WELCOME:  # the same settings can be written in many ways
        assert repr(wire.decode_welcome(head_again)) == repr(value)
        return header.kind
    assert bytes(head) == head_again, f"{header}: {bytes(head).hex()} became {head_again.hex()}"
    if header.kind in wire.WITH_BODY:
        assert bytes(body) == bytes(body_again), f"{header}: {bytes(body).hex()} became {bytes(body_again).hex()}"
    return header.kind


def damaged(messages, chance):
    """One of the messages with up to three kinds of damage, as a list of at least one part."""
    parts = list(chance.choice(messages))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(parts))
        part = bytearray(parts[at])
        match chance.randrange(9):
            case 0:
                del part[chance.randint(0, len(part)) :]
            case 1:
                part += chance.randbytes(chance.choice([1, 4, 8, 16, 1000]))
            case 2:
                for _ in range(chance.choice([1, 2, 8]) if part else 0):
                    part[chance.randrange(len(part))] ^= 1 << chance.randrange(8)
            case 3 | 4:
                extreme = chance.choice(EXTREMES)
                place = chance.randint(0, max(len(part) - len(extreme), 0))
                part[place : place + len(extreme)] = extreme[: max(len(part) - place, 0)]
            case 5:
                other = bytearray(chance.choice(chance.choice(messages)))
                cut = chance.randint(0, min(len(part), len(other)))
                part[cut:] = other[cut:]
            case 6:
                chance.shuffle(parts)
                continue
            case 7:
                parts.insert(at, chance.choice([b"", bytes(part), chance.randbytes(chance.randrange(100))]))
                continue
            case _:
                del parts[at]
                if not parts:
                    return [b""]
                continue
        parts[at] = bytes(part)
    return parts


def noise(chance):
    """Parts of random bytes, some of them behind the first bytes of a message."""
    parts = [chance.randbytes(chance.randrange(200)) for _ in range(chance.randint(1, 5))]
    if chance.random() < 0.5:
        parts[0] = wire.MAGIC + bytes([wire.LAYOUT, chance.randrange(8)]) + parts[0]
    return parts
