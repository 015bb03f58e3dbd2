"""Messages: what goes in comes out, and nothing else gets in: every bad message is a WireError, never another error."""

import random

import numpy as np
import pytest

from ga3c.algorithms.rule import make_acting
from ga3c.games.spec import Box, Discrete, EnvSpec, Finished
from ga3c.memory.experience import Experience, Field, Schema, action_field
from ga3c.memory.turn import Request
from ga3c.messages import wire
from ga3c.messages.wire import Header, Kind, LayoutError, WireError
from ga3c.settings.config import Resolved

IMAGES = EnvSpec(frame=(3, 2), stack=4, dtype="uint8", action=Discrete(5))
VECTORS = EnvSpec(frame=(7,), stack=1, dtype="float32", action=Discrete(3))
BYTES = EnvSpec(frame=(1,), stack=1, dtype="uint8", action=Discrete(2))  # a byte is an observation
COLORS = EnvSpec(frame=(3, 2, 5), stack=2, dtype="uint8", action=Discrete(4))
SPECS = [IMAGES, VECTORS, COLORS]
RUN, AGENT, HALF, VERSION = 2**63 + 5, 70_000, 1, 2**40 + 3
MUTATIONS = 4000


def header(kind):
    return Header(kind, RUN, AGENT, HALF, VERSION)


def some(spec, *shape):
    """An array of the spec's frames with all bytes different as far as possible."""
    values = np.arange(int(np.prod((*shape, *spec.frame)))).reshape(*shape, *spec.frame)
    return (values % 251).astype(spec.dtype)


def schema_of(spec, corrected=False):
    return make_acting(Resolved(correction="vtrace" if corrected else "none"), spec).schema


def make_experience(spec, steps=3, *, corrected=False):
    fields = {
        "actions": np.arange(steps, dtype=np.int32) % spec.action.n,
        "returns": np.linspace(-1.5, 2.5, steps, dtype=np.float32),
    }
    if corrected:
        fields["rewards"] = np.linspace(-1, 1, steps, dtype=np.float32)
        fields["chances"] = np.linspace(0.1, 1.0, steps, dtype=np.float32)
    return Experience(
        agent=AGENT,
        env=9,
        first_step=2**35,
        version=VERSION,
        frames=some(spec, spec.stack - 1 + steps + corrected),
        fields=fields,
        terminated=corrected,
    )


def encode_experience(spec, experience, *, corrected=False):
    return wire.encode_experience(RUN, HALF, experience, schema_of(spec, corrected))


def encode_request(first_env, real, observations):
    return wire.encode_request(RUN, Request(AGENT, HALF, first_env, real, observations))


def message(kind, spec):
    """A good message of this kind."""
    if kind == Kind.REQUEST:
        return encode_request(4, b"\0\1", some(spec, 2, spec.stack))
    if kind == Kind.REPLY:
        policies = np.full((2, spec.action.n), 1 / spec.action.n, dtype=np.float32)
        return wire.encode_reply(header(kind), np.column_stack([policies, np.array([0.5, -3.0], dtype=np.float32)]))
    if kind == Kind.EXPERIENCE:
        return encode_experience(spec, make_experience(spec))
    if kind == Kind.SCORES:
        return wire.encode_scores(header(kind), (Finished(-21.0, 900), Finished(1e6, 2**40)))
    if kind == Kind.FAILURE:
        return wire.encode_failure(header(kind), "GAME=Söme-v0 broke")
    if kind == Kind.JOIN:
        return wire.encode_join(wire.Join(b"t" * wire.TOKEN_BYTES, "0.1.0"))
    if kind == Kind.WELCOME:
        return wire.encode_welcome(header(kind), {"game": "Pong"})
    return header(kind).pack(), b""


def decode(kind, head, body, spec):
    """What a receiver does with a message that it takes for one of this kind."""
    read = wire.read_header(head)
    if kind == Kind.REQUEST:
        return wire.decode_request(read, head, body, spec)
    if kind == Kind.REPLY:
        return wire.decode_reply(read, head)
    if kind == Kind.EXPERIENCE:
        return wire.decode_experience(read, head, body, spec, schema_of(spec))
    if kind == Kind.SCORES:
        return wire.decode_scores(head)
    if kind == Kind.FAILURE:
        return wire.decode_failure(head)
    if kind == Kind.JOIN:
        return wire.decode_join(head)
    if kind == Kind.WELCOME:
        return wire.decode_welcome(head)
    return read


def refused(kind, head, body, spec):
    """True for a WireError, False for a message that was taken; any other exception ends the test."""
    try:
        decode(kind, head, body, spec)
    except WireError:
        return True
    except Exception as error:
        error.add_note(f"from {kind.name}: {bytes(head).hex()}")
        raise
    return False


def changed(head, layout, *fields):
    """The head with other fixed fields after its header."""
    head = bytearray(head)
    layout.pack_into(head, wire.HEADER.size, *fields)
    return bytes(head)


# Round trips


def test_header_layout():
    # Little-endian: magic (4), layout (1), kind (1), half (2), run (8), agent (4), version (8).
    packed = Header(Kind.REPLY, run=0x0102030405060708, agent=0x0A0B0C0D, half=0x0E0F, version=3).pack()
    assert packed[:4] == b"GA3C"
    assert packed[4:6] == bytes([wire.LAYOUT, Kind.REPLY])
    assert packed[6:] == bytes.fromhex("0f0e 0807060504030201 0d0c0b0a 0300000000000000")


@pytest.mark.parametrize("kind", list(Kind))
def test_header_round_trip(kind):
    assert wire.read_header(header(kind).pack()) == header(kind)


@pytest.mark.parametrize("spec", SPECS)
def test_request_round_trip(spec):
    observations = some(spec, 2, spec.stack)
    head, body = encode_request(4, b"\0\1", observations)
    # As bytes, and as the views of a socket's buffers.
    for view in (bytes, memoryview):
        request = decode(Kind.REQUEST, view(head), view(bytes(body)), spec)
        assert (request.agent, request.half, request.first_env) == (AGENT, HALF, 4)
        assert (request.real, request.played) == (b"\0\1", 1)
        assert request.observations.dtype == spec.dtype
        np.testing.assert_array_equal(request.observations, observations)


def test_request_of_observations_that_do_not_lie_in_one_piece():
    observations = some(IMAGES, 4, IMAGES.stack)[::2]
    head, body = encode_request(0, bytes(2), observations)
    np.testing.assert_array_equal(decode(Kind.REQUEST, head, body, IMAGES).observations, observations)


def test_reply_round_trip():
    outputs = np.array([[0.25, 0.75, 0, 1.5], [0.5, 0.125, 0.375, -2.0]], dtype=np.float32)
    head, body = wire.encode_reply(header(Kind.REPLY), outputs)
    for view in (bytes, memoryview):
        reply = decode(Kind.REPLY, view(head), body, VECTORS)
        assert (reply.half, reply.version) == (HALF, VERSION)
        np.testing.assert_array_equal(reply.outputs, outputs)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("steps", [1, 3])
def test_experience_round_trip(spec, steps):
    sent = make_experience(spec, steps)
    head, body = encode_experience(spec, sent)
    read = wire.read_header(head)
    assert (read.kind, read.run, read.agent, read.half) == (Kind.EXPERIENCE, RUN, AGENT, HALF)
    for view in (bytes, memoryview):
        got = decode(Kind.EXPERIENCE, view(head), view(bytes(body)), spec)
        assert (got.agent, got.env, got.first_step, got.version) == (AGENT, 9, 2**35, VERSION)
        assert (got.steps, got.frames.dtype) == (steps, spec.dtype)
        np.testing.assert_array_equal(got.frames, sent.frames)
        assert got.fields.keys() == {"actions", "returns"}
        np.testing.assert_array_equal(got.fields["actions"], sent.fields["actions"])
        np.testing.assert_array_equal(got.fields["returns"], sent.fields["returns"])
        assert got.terminated is False


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("steps", [1, 3])
def test_corrected_experience_round_trip(spec, steps):
    sent = make_experience(spec, steps, corrected=True)
    head, body = encode_experience(spec, sent, corrected=True)
    got = wire.decode_experience(wire.read_header(head), head, body, spec, schema_of(spec, corrected=True))
    np.testing.assert_array_equal(got.frames, sent.frames)
    assert got.fields.keys() == {"actions", "returns", "rewards", "chances"}
    for name, numbers in sent.fields.items():
        np.testing.assert_array_equal(got.fields[name], numbers)
    assert got.terminated is True


@pytest.mark.parametrize("corrected", [False, True])
def test_an_experience_has_a_correction_where_it_is_expected_and_nowhere_else(corrected):
    head, body = encode_experience(VECTORS, make_experience(VECTORS, corrected=corrected), corrected=corrected)
    for reached, why in ((not corrected, "frames of 3 steps"), (corrected, "an experience of .* bytes where")):
        other = schema_of(VECTORS, not corrected)._replace(reached=reached)
        with pytest.raises(WireError, match=why):
            wire.decode_experience(wire.read_header(head), head, body, VECTORS, other)


@pytest.mark.parametrize("chance", [0.0, -0.5, 1.5])
def test_a_chance_that_is_none_is_refused(chance):
    sent = make_experience(VECTORS, corrected=True)
    sent.fields["chances"][1] = chance
    head, body = encode_experience(VECTORS, sent, corrected=True)
    with pytest.raises(WireError, match="chances"):
        wire.decode_experience(wire.read_header(head), head, body, VECTORS, schema_of(VECTORS, corrected=True))


@pytest.mark.parametrize("games", [(Finished(-20.5, 1),), (Finished(1e9, 2**40), Finished(0.0, 3))])
def test_scores_round_trip(games):
    head, _ = wire.encode_scores(header(Kind.SCORES), games)
    assert decode(Kind.SCORES, head, b"", IMAGES) == games


def test_failure_round_trip():
    for reason, got in (("GAME=Söme-v0 broke", "GAME=Söme-v0 broke"), ("", ""), ("x" * 5000, "x" * wire.MAX_TEXT)):
        head, _ = wire.encode_failure(header(Kind.FAILURE), reason)
        assert decode(Kind.FAILURE, head, b"", IMAGES) == got


# What must not get in


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind != Kind.JOIN])  # which ends with any text
def test_every_prefix_and_every_extension_is_refused(kind, spec):
    head, body = message(kind, spec)
    body = bytes(body)
    assert not refused(kind, head, body, spec)
    for length in range(len(head)):
        assert refused(kind, head[:length], body, spec), f"{kind.name} with a head of {length} bytes"
    for length in range(len(body)):
        assert refused(kind, head, body[:length], spec), f"{kind.name} with a body of {length} bytes"
    for extra in (1, 4, 8, 16, 1000):
        if len(head) > wire.HEADER.size:  # a plain header has nothing after it that could be misread
            assert refused(kind, head + bytes(extra), body, spec)
        if body:
            assert refused(kind, head, body + bytes(extra), spec)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", list(Kind))
def test_random_mutations_raise_nothing_but_wire_errors(kind, spec):
    head, body = message(kind, spec)
    body = bytes(body)
    chance = random.Random(int(kind))
    outcomes = {True: 0, False: 0}
    for _ in range(MUTATIONS):
        bad = bytearray(head)
        for _ in range(chance.choice([1, 1, 2, 4, 30])):
            bad[chance.randrange(len(bad))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        if chance.random() < 0.2:
            bad = bad[: chance.randrange(len(bad))]
        other_body = body if chance.random() < 0.7 else chance.randbytes(chance.randrange(2 * len(body) + 2))
        outcomes[refused(kind, bytes(bad), other_body, spec)] += 1
        # The receiver also trusts the kind that the header names.
        try:
            named = wire.read_header(bytes(bad)).kind
        except WireError:
            continue
        refused(named, bytes(bad), other_body, spec)
    assert outcomes[True] > MUTATIONS // 10


@pytest.mark.parametrize("kind", list(Kind))
def test_random_bytes_are_refused(kind):
    chance = random.Random(1)
    for _ in range(MUTATIONS):
        noise = chance.randbytes(chance.randrange(200))
        assert refused(kind, noise, noise, IMAGES)
        # Noise behind a good header reaches the fields.
        refused(kind, header(kind).pack() + noise, noise, IMAGES)


@pytest.mark.parametrize(
    ("offset", "what"),
    [(0, "magic"), (3, "magic"), (4, "layout"), (5, "kind")],
)
def test_a_header_of_something_else_is_refused(offset, what):
    packed = bytearray(header(Kind.STOP).pack())
    packed[offset] = 99
    assert refused(Kind.STOP, bytes(packed), b"", IMAGES), what


@pytest.mark.parametrize("layout", [0, wire.LAYOUT - 1, wire.LAYOUT + 1])
def test_an_older_and_a_newer_layout_are_refused_as_that(layout):
    packed = bytearray(header(Kind.STOP).pack())
    packed[4] = layout
    with pytest.raises(LayoutError, match=f"of layout {layout}, where {wire.LAYOUT} is spoken"):
        wire.read_header(bytes(packed))


def test_kind_zero_and_the_next_unused_one_are_refused():
    for number in (0, max(Kind) + 1):
        packed = bytearray(header(Kind.STOP).pack())
        packed[5] = number
        assert refused(Kind.STOP, bytes(packed), b"", IMAGES)


def test_a_request_has_one_to_max_envs_observations():
    for count in (0, 1, wire.MAX_ENVS, wire.MAX_ENVS + 1):
        head = header(Kind.REQUEST).pack() + wire.REQUEST.pack(count, 0) + bytes(count)
        assert refused(Kind.REQUEST, head, bytes(count), BYTES) == (count in (0, wire.MAX_ENVS + 1)), count


def test_a_step_of_a_request_is_real_or_not_and_nothing_else():
    head, body = message(Kind.REQUEST, IMAGES)
    assert not refused(Kind.REQUEST, head[:-1] + b"\1", body, IMAGES)
    assert refused(Kind.REQUEST, head[:-1] + b"\2", body, IMAGES)


def test_the_environments_of_a_request_are_among_max_envs():
    head, body = message(Kind.REQUEST, IMAGES)
    assert not refused(Kind.REQUEST, changed(head, wire.REQUEST, 2, wire.MAX_ENVS - 1), body, IMAGES)
    assert refused(Kind.REQUEST, changed(head, wire.REQUEST, 2, wire.MAX_ENVS), body, IMAGES)


def test_an_experience_has_one_to_max_steps_steps():
    for steps in (0, 1, wire.MAX_STEPS, wire.MAX_STEPS + 1):
        head = header(Kind.EXPERIENCE).pack() + wire.EXPERIENCE.pack(0, 0, steps, steps, 0) + bytes(8 * steps)
        assert refused(Kind.EXPERIENCE, head, bytes(steps), BYTES) == (steps in (0, wire.MAX_STEPS + 1)), steps


@pytest.mark.parametrize(("action", "bad"), [(-1, True), (0, False), (4, False), (5, True), (2**31 - 1, True)])
def test_an_action_outside_the_space_is_refused(action, bad):
    # It would index outside the policy: an error in the middle of a training batch of others.
    sent = make_experience(IMAGES)
    sent.fields["actions"][1] = action
    head, body = encode_experience(IMAGES, sent)
    assert refused(Kind.EXPERIENCE, head, body, IMAGES) == bad


def test_sizes_that_would_overflow_are_refused_without_allocating():
    huge = 2**32 - 1
    head, body = message(Kind.REQUEST, IMAGES)
    assert refused(Kind.REQUEST, changed(head, wire.REQUEST, huge, 0), body, IMAGES)
    head, body = message(Kind.REPLY, IMAGES)
    for count, actions in ((huge, huge), (huge, 1), (1, huge), (2**30, 3), (2, huge)):
        assert refused(Kind.REPLY, changed(head, wire.REPLY, count, actions), body, IMAGES)
    head, body = message(Kind.EXPERIENCE, IMAGES)
    assert refused(Kind.EXPERIENCE, changed(head, wire.EXPERIENCE, 9, 1, huge, huge, 0), body, IMAGES)
    head, body = message(Kind.SCORES, IMAGES)
    assert refused(Kind.SCORES, changed(head, wire.SCORES, huge), body, IMAGES)
    head, body = message(Kind.FAILURE, IMAGES)
    assert refused(Kind.FAILURE, changed(head, wire.FAILURE, huge), body, IMAGES)
    assert refused(Kind.FAILURE, changed(head, wire.FAILURE, wire.MAX_TEXT + 1), body, IMAGES)


def test_observations_of_another_game_are_refused():
    head, body = message(Kind.REQUEST, IMAGES)
    assert refused(Kind.REQUEST, head, body, VECTORS)
    head, body = message(Kind.EXPERIENCE, VECTORS)
    assert refused(Kind.EXPERIENCE, head, body, IMAGES)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("envs", "steps"), [(1, 1), (1, 1024), (1024, 5)])
def test_no_message_is_larger_than_the_limit_on_messages(spec, envs, steps):
    limit = wire.largest_message(spec, envs, steps)
    request = encode_request(0, bytes(envs), some(spec, envs, spec.stack))
    experience = encode_experience(spec, make_experience(spec, steps, corrected=True), corrected=True)
    scores = wire.encode_scores(header(Kind.SCORES), (Finished(0.0, 1),) * envs)
    assert max(len(part) for parts in (request, experience, scores) for part in parts) <= limit


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_neither_returns_nor_predictions_that_are_not_finite_are_taken(number):
    experience = make_experience(IMAGES)
    experience.fields["returns"][1] = number  # which a rollout would not have made
    head, body = encode_experience(IMAGES, experience)
    with pytest.raises(WireError, match="returns that are not finite"):
        decode(Kind.EXPERIENCE, head, body, IMAGES)
    for place in (1, 3):  # of a policy, and a value
        outputs = np.full((2, 4), 0.5, np.float32)
        outputs[1, place] = number
        head, body = wire.encode_reply(header(Kind.REPLY), outputs)
        assert refused(Kind.REPLY, head, body, IMAGES)


def test_numbers_whose_squares_overflow_are_finite_all_the_same():
    experience = make_experience(VECTORS)
    experience.fields["returns"][:], experience.frames[:] = 3e38, -3e38
    head, body = encode_experience(VECTORS, experience)
    assert not refused(Kind.EXPERIENCE, head, body, VECTORS)


# Experiences as a schema says


BOXES = EnvSpec(frame=(2,), stack=2, dtype="float32", action=Box((2,), -0.5, 2.0))
ANY = Schema((action_field(BOXES.action), Field("returns", "<f4"), Field("place", "<u8", (1, 3))), reached=True)


def make_boxed(steps=3):
    return Experience(
        agent=AGENT,
        env=9,
        first_step=4,
        version=VERSION,
        frames=some(BOXES, BOXES.stack + steps),
        fields={
            "actions": np.linspace(-0.5, 2.0, 2 * steps, dtype=np.float32).reshape(steps, 2),
            "returns": np.linspace(-1.5, 2.5, steps, dtype=np.float32),
            "place": 2**60 + np.arange(3 * steps, dtype=np.uint64).reshape(steps, 1, 3),
        },
    )


def decode_boxed(head, body, schema=ANY):
    return wire.decode_experience(wire.read_header(head), head, body, BOXES, schema)


@pytest.mark.parametrize("steps", [1, 3])
def test_actions_that_are_arrays_and_fields_of_any_kind_come_out_as_they_went_in(steps):
    sent = make_boxed(steps)
    for view in (bytes, memoryview):
        head, body = wire.encode_experience(RUN, HALF, sent, ANY)
        got = decode_boxed(view(head), view(bytes(body)))
        assert got.steps == steps
        assert list(got.fields) == ["actions", "returns", "place"]
        for field in ANY.fields:
            assert got.fields[field.name].shape == (steps, *field.shape)
            assert got.fields[field.name].dtype == field.dtype
            np.testing.assert_array_equal(got.fields[field.name], sent.fields[field.name])
        np.testing.assert_array_equal(got.frames, sent.frames)


def test_fields_are_sent_as_the_schema_says_whatever_they_were():
    sent = make_boxed()
    sent.fields["actions"], wanted = sent.fields["actions"].astype(np.float64), sent.fields["actions"]
    sent.fields["of no concern"] = np.zeros(99)
    got = decode_boxed(*wire.encode_experience(RUN, HALF, sent, ANY))
    np.testing.assert_array_equal(got.fields["actions"], wanted)
    assert "of no concern" not in got.fields


@pytest.mark.parametrize(
    ("action", "why"),
    [(-0.51, "actions below -0.5"), (2.01, "actions above 2"), (np.nan, "actions that are not finite")],
)
def test_an_action_outside_its_bounds_is_refused(action, why):
    sent = make_boxed()
    sent.fields["actions"][1, 1] = action
    with pytest.raises(WireError, match=why):
        decode_boxed(*wire.encode_experience(RUN, HALF, sent, ANY))


@pytest.mark.parametrize("end", [3, 255, 256, 2**32 - 1])
def test_an_episode_ended_or_not_and_nothing_else(end):
    sent = make_boxed()
    head, body = wire.encode_experience(RUN, HALF, sent, ANY)
    for known, (terminated, truncated) in enumerate([(False, False), (True, False), (False, True)]):
        fields = (9, 4, 3, len(sent.frames), known)
        experience = decode_boxed(changed(head, wire.EXPERIENCE, *fields), body)
        assert (experience.terminated, experience.truncated) == (terminated, truncated)
    with pytest.raises(WireError, match=f"an end of an episode of kind {end}"):
        decode_boxed(changed(head, wire.EXPERIENCE, 9, 4, 3, len(sent.frames), end), body)


@pytest.mark.parametrize("missing", range(1, 9))
def test_a_field_that_is_too_short_is_refused(missing):
    head, body = wire.encode_experience(RUN, HALF, make_boxed(), ANY)
    with pytest.raises(WireError, match=r"an experience of .* bytes where"):
        decode_boxed(head[:-missing], body)


def test_fields_and_frames_that_the_receiver_does_not_expect_are_refused():
    head, body = wire.encode_experience(RUN, HALF, make_boxed(), ANY)
    with pytest.raises(WireError, match=r"an experience of .* bytes where"):
        decode_boxed(head, body, ANY._replace(fields=ANY.fields[:2]))
    with pytest.raises(WireError, match="frames of 3 steps"):
        decode_boxed(head, body, ANY._replace(reached=False))
