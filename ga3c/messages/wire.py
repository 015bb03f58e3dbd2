"""Messages between agents and server: fixed binary layouts, checked on the way in. No pickle, ever.

A message has two parts: a head (a fixed header, then the small fields of its kind) and a body (observations or frames;
empty for most kinds). All numbers are little-endian; one that is not finite makes a message bad. The frames of n steps
are stack − 1 + n. Where V-trace corrects what was learnt (CORRECTION), an experience has one frame more, with which its
last step was reached, and after its returns the rewards (n) f4 and the chances of its actions (n) f4.

| kind | from | head after the header | body |
|---|---|---|---|
| REQUEST | agent | observations, first environment; real (n) u1 | observations (n, stack, *frame) |
| REPLY | server | observations, actions; policies (n, actions) f4, values (n) f4 | – |
| EXPERIENCE | agent | env, first step, steps, frames, terminated; actions (n) i4, returns (n) f4 | frames, each once |
| SCORES | agent | games; (score f8, steps i8) each | – |
| STOP | server | – | – |
| FAILURE | agent | bytes; why it ends, in UTF-8 | – |
| JOIN | agent | token; version of ga3c as text | – |
| WELCOME | server | settings as JSON | – |
| REJOIN | server | – | – |
| PROBE | server | – | – |

``real`` says of each environment whether a step was played to reach its observation, or only a reset. The last
four are for agents of other machines: WELCOME has their number in its header, REJOIN tells one that its number is void,
and PROBE tells nothing: that it can be sent is what the server wants to know.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ga3c.games.spec import EnvSpec, Finished
from ga3c.memory.experience import Experience

MAGIC = b"GA3C"
LAYOUT = 3  # raised when a layout changes, so that an agent of another version is refused
HEADER = struct.Struct("<4sBBHQIQ")  # magic, layout, kind, half, run, agent, model version
REQUEST = struct.Struct("<II")
REPLY = struct.Struct("<II")
EXPERIENCE = struct.Struct("<IQIII")
SCORES = struct.Struct("<I")
SCORE = struct.Struct("<dq")
FAILURE = struct.Struct("<I")
MAX_ENVS = 4096  # of one agent
MAX_STEPS = 4096  # steps of one experience
CORRECTED = ("returns", "rewards", "chances")  # of each step; the last two only where V-trace corrects
TOKEN_BYTES = 16
MAX_VERSION = 64  # letters of a version
MAX_TEXT = 1000  # bytes of the reason of a failure

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
    PROBE = 9
    FAILURE = 10


KINDS = {kind.value: kind for kind in Kind}  # calling an enumeration takes longer than the rest of a header


class Header(NamedTuple):
    """What every message begins with: whose run, which agent and half of it, which version of the model."""

    kind: Kind
    run: int
    agent: int
    half: int = 0
    version: int = 0

    def pack(self) -> bytes:
        return HEADER.pack(MAGIC, LAYOUT, self.kind, self.half, self.run, self.agent, self.version)


class Request(NamedTuple):
    """Observations that wait for a prediction, and whether a step was played to reach each."""

    agent: int
    half: int
    first_env: int
    real: bytes  # of each observation: 1 after a step, 0 after a reset
    observations: np.ndarray

    @property
    def played(self) -> int:
        return self.real.count(1)


class Reply(NamedTuple):
    half: int
    version: int
    policies: np.ndarray
    values: np.ndarray


def read_header(head: Buffer) -> Header:
    if len(head) < HEADER.size:
        raise WireError(f"a head of {len(head)} bytes is too short")
    magic, layout, kind, half, run, agent, version = HEADER.unpack_from(head)
    if magic != MAGIC:
        raise WireError("not a message of ga3c")
    if layout != LAYOUT:
        raise LayoutError(f"a message of layout {layout}, where {LAYOUT} is spoken")
    known = KINDS.get(kind)
    if known is None:
        raise WireError(f"unknown kind {kind}")
    return Header(known, run, agent, half, version)


def _fields(head: Buffer, layout: struct.Struct) -> tuple[int, ...]:
    """The fixed fields that follow the header."""
    if len(head) < HEADER.size + layout.size:
        raise WireError("a head ends before its fields")
    return layout.unpack_from(head, HEADER.size)


def _expect(name: str, length: int, wanted: int) -> None:
    if length != wanted:
        raise WireError(f"{name} of {length} bytes where {wanted} belong")


def _finite(name: str, numbers: np.ndarray) -> None:
    if numbers.dtype.kind != "f":
        return
    # The sum of squares is finite unless a number is not, or is so large that a closer look, twice as long, is needed.
    if not math.isfinite(np.vdot(numbers, numbers)) and not np.isfinite(numbers).all():
        raise WireError(f"{name} that are not finite")


def encode_request(header: bytes, first_env: int, real: bytes, observations: np.ndarray) -> Parts:
    """The header comes packed, since it is the same for all requests of a player."""
    return header + REQUEST.pack(len(observations), first_env) + real, np.ascontiguousarray(observations).data.cast("B")


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


def encode_reply(header: Header, policies: np.ndarray, values: np.ndarray) -> Parts:
    head = header.pack() + REPLY.pack(*policies.shape)
    return head + policies.astype("<f4", copy=False).tobytes() + values.astype("<f4", copy=False).tobytes(), b""


def decode_reply(header: Header, head: Buffer) -> Reply:
    count, actions = _fields(head, REPLY)
    if not 1 <= count <= MAX_ENVS or not actions:
        raise WireError(f"a reply of {count} policies over {actions} actions")
    start = HEADER.size + REPLY.size
    _expect("a reply", len(head), start + 4 * count * (actions + 1))
    numbers = np.frombuffer(head, "<f4", count * (actions + 1), start)
    _finite("predictions", numbers)
    policies, values = numbers[: count * actions].reshape(count, actions), numbers[count * actions :]
    return Reply(header.half, header.version, policies, values)


def encode_experience(run: int, half: int, experience: Experience) -> Parts:
    numbers = [experience.returns]
    if experience.rewards is not None and experience.chances is not None:
        numbers += [experience.rewards, experience.chances]
    for name, some in zip(CORRECTED, numbers, strict=False):
        _finite(name, some)  # the sender can still say where they come from
    header = Header(Kind.EXPERIENCE, run, experience.agent, half, experience.version)
    head = header.pack() + EXPERIENCE.pack(
        experience.env, experience.first_step, experience.steps, len(experience.frames), experience.terminated
    )
    head += experience.actions.astype("<i4", copy=False).tobytes()
    head += b"".join(some.astype("<f4", copy=False).tobytes() for some in numbers)
    return head, experience.frames.data.cast("B")


def decode_experience(
    header: Header, head: Buffer, body: Buffer, spec: EnvSpec, *, corrected: bool = False
) -> Experience:
    """``corrected``: with what V-trace needs."""
    env, first_step, steps, count, terminated = _fields(head, EXPERIENCE)
    start = HEADER.size + EXPERIENCE.size
    if not 1 <= steps <= MAX_STEPS:
        raise WireError(f"an experience of {steps} steps")
    arrays = 4 if corrected else 2
    _expect("an experience", len(head), start + 4 * arrays * steps)
    actions = np.frombuffer(head, "<i4", steps, start)
    returns, *correction = np.frombuffer(head, "<f4", (arrays - 1) * steps, start + 4 * steps).reshape(-1, steps)
    if actions.min() < 0 or actions.max() >= spec.actions:
        raise WireError(f"an action outside 0…{spec.actions - 1}")
    for name, numbers in zip(CORRECTED, (returns, *correction), strict=False):
        _finite(name, numbers)
    if terminated > corrected:
        raise WireError(f"an end of an episode of kind {terminated}")
    if count != spec.stack - 1 + steps + corrected:
        raise WireError(f"{count} frames of {steps} steps")
    _expect("frames", len(body), count * spec.frame_bytes)
    frames = np.frombuffer(body, spec.dtype).reshape(count, *spec.frame)
    _finite("frames", frames)
    experience = Experience(header.agent, env, first_step, header.version, frames, actions, returns)
    if not corrected:
        return experience
    rewards, chances = correction
    if not (chances.min() > 0 and chances.max() < 1.001):  # a softmax may be above 1 by rounding
        raise WireError("chances that are none")
    return replace(experience, rewards=rewards, chances=chances, terminated=bool(terminated))


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


def encode_stop(header: Header) -> Parts:
    return header.pack(), b""


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
