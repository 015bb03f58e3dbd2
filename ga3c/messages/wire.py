"""Messages between agents and server: fixed binary layouts, checked on the way in. No pickle, ever.

A message has two parts: a head (a fixed header, then the small fields of its kind) and a body (observations or frames;
empty for most kinds). All numbers are little-endian; one that is not finite makes a message bad. The frames of n steps
are stack − 1 + n, and one more where the rule's schema asks for the observation that the last step reached.

| kind | from | head after the header | body |
|---|---|---|---|
| REQUEST | agent | observations, first environment; real (n) u1 | observations (n, stack, *frame) |
| REPLY | server | observations, width; outputs (n, width) f4 | – |
| EXPERIENCE | agent | env, first step, steps, frames, end; each field of the schema | frames, each once |
| SCORES | agent | games; (score f8, steps i8) each | – |
| STOP | server | – | – |
| FAILURE | agent | bytes; why it ends, in UTF-8 | – |
| JOIN | agent | token; version of ga3c as text | – |
| WELCOME | server | settings as JSON | – |
| REJOIN | server | – | – |

``end`` is 1 where the episode terminated with the last step, 2 where it was cut there, and else 0.
``real`` says of each environment whether a step was played to reach its observation, or only a reset. The last
three are for agents of other machines: WELCOME has their number in its header, and REJOIN tells one that its number is
void.

The body of a REQUEST or EXPERIENCE of an agent of another machine may be compressed (``compression.py``): its kind is
then marked. The header of its REQUEST has, instead of a version, the microseconds in which it had nothing to do since
the last one.
"""

from __future__ import annotations

import json
import math
import struct
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ga3c.games.spec import EnvSpec, Finished
from ga3c.memory.experience import Experience, Schema, finite
from ga3c.memory.turn import Reply, Request

MAGIC = b"GA3C"
LAYOUT = 6  # raised when a layout changes, so that an agent of another version is refused
HEADER = struct.Struct("<4sBBHQIQ")  # magic, layout, kind, half, run, agent, model version
REQUEST = struct.Struct("<II")
REPLY = struct.Struct("<II")
EXPERIENCE = struct.Struct("<IQIII")
TERMINATED, TRUNCATED = 1, 2  # how an episode ended with an experience
SCORES = struct.Struct("<I")
SCORE = struct.Struct("<dq")
FAILURE = struct.Struct("<I")
MAX_ENVS = 4096  # of one agent
MAX_STEPS = 4096  # steps of one experience
TOKEN_BYTES = 16
MAX_VERSION = 64  # letters of a version
MAX_TEXT = 1000  # bytes of the reason of a failure
KIND_AT, COMPRESSED = 5, 0x80  # the byte of the kind, and what is added to it where the body is compressed

Parts = tuple[bytes, bytes | memoryview]
Buffer = bytes | memoryview


class WireError(ValueError):
    """A message that does not follow the layout."""


class LayoutError(WireError):
    """A message of another version's layout."""


class Kind(IntEnum):
    REQUEST = 1
    REPLY = 2
    EXPERIENCE = 3
    SCORES = 4
    STOP = 5
    JOIN = 6
    WELCOME = 7
    REJOIN = 8
    FAILURE = 9


WITH_BODY = (Kind.REQUEST, Kind.EXPERIENCE)
KINDS = {kind.value: kind for kind in Kind}  # calling an enumeration takes longer than the rest of a header


class Header(NamedTuple):
    """What every message begins with: whose run, which agent and half of it, which version of the model."""

    kind: Kind
    run: int
    agent: int
    half: int = 0
    version: int = 0
    compressed: bool = False  # the body

    def pack(self) -> bytes:
        kind = self.kind | COMPRESSED * self.compressed
        return HEADER.pack(MAGIC, LAYOUT, kind, self.half, self.run, self.agent, self.version)


def read_header(head: Buffer) -> Header:
    if len(head) < HEADER.size:
        raise WireError(f"a head of {len(head)} bytes is too short")
    magic, layout, kind, half, run, agent, version = HEADER.unpack_from(head)
    if magic != MAGIC:
        raise WireError("not a message of ga3c")
    if layout != LAYOUT:
        raise LayoutError(f"a message of layout {layout}, where {LAYOUT} is spoken")
    known = KINDS.get(kind & ~COMPRESSED)
    compressed = kind >= COMPRESSED
    if known is None or (compressed and known not in WITH_BODY):
        raise WireError(f"unknown kind {kind}")
    return Header(known, run, agent, half, version, compressed)


def marked_compressed(head: bytes) -> bytes:
    """The head of a message whose body was compressed since."""
    return head[:KIND_AT] + bytes([head[KIND_AT] | COMPRESSED]) + head[KIND_AT + 1 :]


def _fields(head: Buffer, layout: struct.Struct) -> tuple[int, ...]:
    """The fixed fields that follow the header."""
    if len(head) < HEADER.size + layout.size:
        raise WireError("a head ends before its fields")
    return layout.unpack_from(head, HEADER.size)


def _expect(name: str, length: int, wanted: int) -> None:
    if length != wanted:
        raise WireError(f"{name} of {length} bytes where {wanted} belong")


def _finite(name: str, numbers: np.ndarray) -> None:
    if not finite(numbers):
        raise WireError(f"{name} that are not finite")


def encode_request(run: int, request: Request, waited: int = 0) -> Parts:
    """``waited``: microseconds in which its agent had nothing to do since the last one."""
    head = HEADER.pack(MAGIC, LAYOUT, Kind.REQUEST, request.half, run, request.agent, waited)
    head += REQUEST.pack(len(request.real), request.first_env) + request.real
    return head, np.ascontiguousarray(request.observations).data.cast("B")


def decode_request(header: Header, head: Buffer, body: Buffer, spec: EnvSpec) -> Request:
    count, first_env = _fields(head, REQUEST)
    if not 1 <= count <= MAX_ENVS or first_env >= MAX_ENVS:
        raise WireError(f"a request of {count} observations from environment {first_env} on")
    start = HEADER.size + REQUEST.size
    _expect("a head", len(head), start + count)
    real = bytes(head[start:])
    if real.count(0) + real.count(1) != count:
        raise WireError("a step is real or not, nothing else")
    _expect("observations", len(body), count * spec.stack * spec.frame_bytes)
    observations = np.frombuffer(body, spec.dtype).reshape(count, *spec.observation)
    _finite("observations", observations)
    return Request(header.agent, header.half, first_env, real, observations)


def encode_reply(header: Header, outputs: np.ndarray) -> Parts:
    head = header.pack() + REPLY.pack(*outputs.shape)
    return head + outputs.astype("<f4", copy=False).tobytes(), b""


def decode_reply(header: Header, head: Buffer) -> Reply:
    count, width = _fields(head, REPLY)
    if not 1 <= count <= MAX_ENVS or not width:
        raise WireError(f"a reply of {count} predictions of {width} numbers")
    start = HEADER.size + REPLY.size
    _expect("a reply", len(head), start + 4 * count * width)
    outputs = np.frombuffer(head, "<f4", count * width, start).reshape(count, width)
    _finite("predictions", outputs)
    return Reply(header.half, header.version, outputs)


def encode_experience(run: int, half: int, experience: Experience, schema: Schema) -> Parts:
    header = Header(Kind.EXPERIENCE, run, experience.agent, half, experience.version)
    end = TERMINATED if experience.terminated else TRUNCATED if experience.truncated else 0
    numbers = (experience.env, experience.first_step, experience.steps, len(experience.frames), end)
    fields = [experience.fields[field.name].astype(field.dtype, copy=False).tobytes() for field in schema.fields]
    return b"".join([header.pack(), EXPERIENCE.pack(*numbers), *fields]), experience.frames.data.cast("B")


def decode_experience(header: Header, head: Buffer, body: Buffer, spec: EnvSpec, schema: Schema) -> Experience:
    env, first_step, steps, count, end = _fields(head, EXPERIENCE)
    if not 1 <= steps <= MAX_STEPS:
        raise WireError(f"an experience of {steps} steps")
    if end > TRUNCATED:
        raise WireError(f"an end of an episode of kind {end}")
    if count != spec.stack - 1 + steps + schema.reached:
        raise WireError(f"{count} frames of {steps} steps")
    _expect("frames", len(body), count * spec.frame_bytes)
    fields = _decode_fields(head, schema, steps)
    frames = np.frombuffer(body, spec.dtype).reshape(count, *spec.frame)
    _finite("frames", frames)
    ends = {"terminated": end == TERMINATED, "truncated": end == TRUNCATED}
    return Experience(header.agent, env, first_step, header.version, frames, fields, **ends)


def _decode_fields(head: Buffer, schema: Schema, steps: int) -> dict[str, np.ndarray]:
    start = HEADER.size + EXPERIENCE.size
    sizes = [steps * math.prod(field.shape) for field in schema.fields]
    places = [np.dtype(field.dtype).itemsize * size for field, size in zip(schema.fields, sizes, strict=True)]
    _expect("an experience", len(head), start + sum(places))
    fields = {}
    for field, size, place in zip(schema.fields, sizes, places, strict=True):
        numbers = np.frombuffer(head, field.dtype, size, start).reshape(steps, *field.shape)
        if misfit := field.misfit(numbers):
            raise WireError(misfit)
        fields[field.name] = numbers
        start += place
    return fields


def encode_scores(header: Header, games: tuple[Finished, ...]) -> Parts:
    return header.pack() + SCORES.pack(len(games)) + b"".join(SCORE.pack(game.score, game.steps) for game in games), b""


def decode_scores(head: Buffer) -> tuple[Finished, ...]:
    (count,) = _fields(head, SCORES)
    if not 1 <= count <= MAX_ENVS:
        raise WireError(f"scores of {count} games")
    start = HEADER.size + SCORES.size
    _expect("scores", len(head), start + SCORE.size * count)
    games = tuple(Finished(*SCORE.unpack_from(head, start + SCORE.size * i)) for i in range(count))
    if not all(math.isfinite(game.score) and game.steps > 0 for game in games):
        raise WireError("a score that is not finite, or of no steps")
    return games


def encode_failure(header: Header, reason: str) -> Parts:
    text = reason.encode(errors="replace")[:MAX_TEXT].decode(errors="ignore").encode()  # no letter is cut in two
    return header.pack() + FAILURE.pack(len(text)) + text, b""


def decode_failure(head: Buffer) -> str:
    (count,) = _fields(head, FAILURE)
    start = HEADER.size + FAILURE.size
    if count > MAX_TEXT:
        raise WireError(f"a reason of {count} bytes")
    _expect("a reason", len(head), start + count)
    try:
        return bytes(head[start:]).decode()
    except UnicodeDecodeError:
        raise WireError("a reason that is no text") from None


class Join(NamedTuple):
    """Who wants to join: the token is the same for as long as the process lives, and nobody else knows it."""

    token: bytes
    version: str


NOBODY = Header(Kind.JOIN, run=0, agent=0).pack()  # what a JOIN begins with: it belongs to no run yet


def encode_join(join: Join) -> Parts:
    return NOBODY + join.token + join.version.encode(), b""


def decode_join(head: Buffer) -> Join:
    if head[: HEADER.size] != NOBODY:
        raise WireError("a JOIN in the name of an agent")
    token, version = bytes(head[HEADER.size :][:TOKEN_BYTES]), bytes(head[HEADER.size + TOKEN_BYTES :])
    _expect("a token", len(token), TOKEN_BYTES)
    try:
        join = Join(token, version.decode())
    except UnicodeDecodeError:
        raise WireError("a version that is no text") from None
    if len(join.version) > MAX_VERSION or not join.version.isprintable():
        raise WireError("a version that cannot be shown")
    return join


def encode_welcome(header: Header, settings: dict[str, Any]) -> Parts:
    return header.pack() + json.dumps(settings).encode(), b""


def decode_welcome(head: Buffer) -> dict[str, Any]:
    try:
        settings = json.loads(bytes(head[HEADER.size :]))
    except (ValueError, RecursionError) as error:
        raise WireError(f"settings that are no JSON: {error}") from None
    if not isinstance(settings, dict):
        raise WireError("settings that have no names")
    return settings


def largest_message(spec: EnvSpec, envs: int, steps: int) -> int:
    """Bytes of the largest part that an agent with this many environments and steps per experience sends."""
    return max(envs * spec.stack * spec.frame_bytes, (spec.stack + steps) * spec.frame_bytes, 65536)
