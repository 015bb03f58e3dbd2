"""Messages, by property: what goes in comes out, and all else is refused or is the message that it says."""

import random
import subprocess
import sys
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ga3c.games.spec import Finished
from ga3c.memory.experience import Experience
from ga3c.messages import wire
from ga3c.messages.wire import Header, Kind
from tests.helpers.fuzzing import damaged, encode_request, good_messages, taken
from tests.messages.test_wire import BYTES, IMAGES, VECTORS, decode, schema_of

SPECS = st.sampled_from([IMAGES, VECTORS, BYTES])
RUN, AGENT = 2**63 + 5, 70_000
MOST = 4  # observations or steps: more adds bytes, not cases

quick = settings(
    max_examples=500, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
thorough = settings(quick, max_examples=100_000, derandomize=False, phases=[Phase.generate, Phase.shrink])


def unsigned(bits):
    return st.integers(0, 2**bits - 1)


def headers(kind):
    return st.builds(Header, st.just(kind), unsigned(64), unsigned(32), unsigned(16), unsigned(64), st.just(False))


def finite(dtype, shape):
    elements = {"allow_nan": False, "allow_infinity": False} if np.dtype(dtype).kind == "f" else {}
    return arrays.arrays(dtype, shape, elements=elements)


@quick
@given(st.data(), SPECS, headers(Kind.REQUEST), st.integers(1, MOST))
def test_a_request_comes_out_as_it_went_in(data, spec, header, count):
    observations = data.draw(finite(spec.dtype, (count, *spec.observation)))
    first_env = data.draw(st.integers(0, wire.MAX_ENVS - 1))
    real = bytes(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    head, body = encode_request(header, observations, first_env, real)
    assert wire.read_header(head) == header
    got = decode(Kind.REQUEST, head, body, spec)
    assert (got.agent, got.half, got.first_env, got.real) == (header.agent, header.half, first_env, real)
    np.testing.assert_array_equal(got.observations, observations)


@quick
@given(st.data(), headers(Kind.REPLY), st.integers(1, MOST), st.integers(1, 20))
def test_a_reply_comes_out_as_it_went_in(data, header, count, width):
    outputs = data.draw(finite("<f4", (count, width)))
    head, body = wire.encode_reply(header, outputs)
    got = decode(Kind.REPLY, head, body, IMAGES)
    assert (got.half, got.version) == (header.half, header.version)
    np.testing.assert_array_equal(got.outputs, outputs)


@quick
@given(st.data(), SPECS, headers(Kind.EXPERIENCE), st.integers(1, MOST), st.booleans(), unsigned(32), unsigned(64))
def test_an_experience_comes_out_as_it_went_in(data, spec, header, steps, corrected, env, first_step):
    frames = data.draw(finite(spec.dtype, (spec.stack - 1 + steps + corrected, *spec.frame)))
    fields = {
        "actions": data.draw(arrays.arrays("<i4", steps, elements=st.integers(0, spec.action.n - 1))),
        "returns": data.draw(finite("<f4", steps)),
    }
    if corrected:
        fields["chances"] = data.draw(arrays.arrays("<f4", steps, elements=st.floats(2**-20, 1, width=32)))
        fields["rewards"] = data.draw(finite("<f4", steps))
    terminated = data.draw(st.booleans())
    sent = Experience(header.agent, env, first_step, header.version, frames, fields, terminated)
    head, body = wire.encode_experience(header.run, header.half, sent, schema_of(spec, corrected))
    assert wire.read_header(head) == header
    got = wire.decode_experience(header, head, body, spec, schema_of(spec, corrected))
    assert (got.agent, got.env, got.first_step, got.version) == (header.agent, env, first_step, header.version)
    np.testing.assert_array_equal(got.frames, frames)
    assert got.fields.keys() == fields.keys()
    for name, numbers in fields.items():
        np.testing.assert_array_equal(got.fields[name], numbers)
    assert got.terminated is terminated


@quick
@given(
    headers(Kind.SCORES),
    st.lists(
        st.builds(Finished, st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 2**63 - 1)),
        min_size=1,
        max_size=MOST,
    ),
)
def test_scores_come_out_as_they_went_in(header, games):
    head, body = wire.encode_scores(header, tuple(games))
    assert decode(Kind.SCORES, head, body, IMAGES) == tuple(games)


@st.composite
def anything(draw):
    """A head, a body and the spec of who receives them: bytes, bytes behind a good header, or a damaged message."""
    spec = draw(SPECS)
    way = draw(st.sampled_from(["bytes", "header", "damage"]))
    if way == "damage":
        chance = draw(st.randoms(use_true_random=False))
        parts = damaged(good_messages(spec, RUN, AGENT), chance)
        head, body = (*parts, b"")[:2]
    else:
        head, body = draw(st.binary(max_size=200)), draw(st.binary(max_size=200))
        if way == "header":
            head = draw(headers(draw(st.sampled_from(Kind)))).pack() + head
    return draw(st.sampled_from([bytes, memoryview]))(head), body, spec


def check(message):
    taken(*message)


test_any_bytes_are_refused_or_are_what_they_say = quick(given(anything())(check))
test_many_bytes_are_refused_or_are_what_they_say = pytest.mark.long(thorough(given(anything())(check)))


def test_the_fuzzer_reaches_all_kinds_and_both_ends():
    """Else the properties would hold of nothing."""
    chance = random.Random(1)
    seen = [taken(*(*damaged(good_messages(IMAGES, RUN, AGENT), chance), b"")[:2], IMAGES) for _ in range(3000)]
    assert set(seen) == {None, *Kind}
    assert seen.count(None) > 1000


@quick
@given(SPECS, st.randoms(use_true_random=False))
def test_a_decoder_allocates_by_what_came_and_not_by_what_it_was_told(spec, chance):
    head, body = (*damaged(good_messages(spec, RUN, AGENT), chance), b"")[:2]
    tracemalloc.start()
    try:
        taken(head, body, spec)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000 + 10 * (len(head) + len(body))


if find_spec("atheris") is not None:  # it has no wheel for every Python

    @pytest.mark.long
    def test_atheris_finds_nothing(tmp_path):
        harness = Path(__file__).with_name("fuzz_wire.py")
        done = subprocess.run(
            [sys.executable, harness, "-runs=300000", f"-artifact_prefix={tmp_path}/", "-max_len=400", tmp_path],
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "Done 300000" in done.stderr
