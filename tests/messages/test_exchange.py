"""The sockets: what gets through, what does not, and where replies go. Real ZeroMQ on ipc."""

import stat
from pathlib import Path

import numpy as np
import zmq

from ga3c.games.spec import Finished
from ga3c.messages import member, wire
from ga3c.messages.links import identity
from ga3c.messages.wire import Header, Kind
from tests.helpers.exchange_at_work import ENVS, PLAYED, RUN, Office, bad_messages, delivery, request
from tests.helpers.waiting import wait_until


def test_requests_experiences_and_scores_arrive_where_they_belong(office):
    link = office.agent(0)
    link.send(PLAYED)
    wait_until(lambda: len(office.requests) == 1)
    office.answer(0, version=7)
    link.receive()
    link.send(delivery(1, version=7))
    link.send(wire.encode_scores(Header(Kind.SCORES, RUN, 0), (Finished(-21.0, 800),)))
    wait_until(lambda: office.stats.totals.episodes == 1)
    (got,) = office.requests.drain()
    assert (got.agent, got.half, got.played) == (0, 0, 2)
    np.testing.assert_array_equal(got.observations.ravel(), np.arange(6))
    (trained,) = office.experiences.drain()
    assert (trained.steps, trained.version) == (1, 7)
    assert office.stats.totals.steps == 2
    assert list(office.stats.scores) == [-21.0]


def test_a_reply_reaches_the_agent_that_asked_and_no_other(office):
    first, second = office.agent(1, patience=0.1), office.agent(2)
    first.send(request(agent=1))
    second.send(request(agent=2, half=1))
    wait_until(lambda: len(office.requests) == 2)
    outputs = office.answer(2, version=9)
    head = second.receive()
    reply = wire.decode_reply(wire.read_header(head), head)
    assert (reply.half, reply.version) == (1, 9)
    np.testing.assert_array_equal(reply.outputs, outputs)
    assert first.receive() is None


def test_stop_reaches_the_agent(office):
    link = office.agent(3)
    link.send(request(agent=3))
    wait_until(lambda: len(office.requests) == 1)
    office.exchange.stop_agent(3)
    assert wire.read_header(link.receive()).kind == Kind.STOP


def test_a_message_for_an_agent_that_is_gone_does_no_harm(office):
    office.exchange.stop_agent(99)
    link = office.agent(0)
    link.send(request())
    wait_until(lambda: len(office.requests) == 1)


def test_strangers_are_counted_and_dropped(office):
    office.agent(0, run=RUN + 1).send(request(run=RUN + 1))  # of another run
    wait_until(lambda: bad_messages(office) == 1)
    office.agent(5, admit=False).send(request(agent=5))  # never admitted
    wait_until(lambda: bad_messages(office) == 2)
    office.agent(6).send(request(agent=0))  # in the name of another
    wait_until(lambda: bad_messages(office) == 3)
    assert len(office.requests) == 0
    assert office.stats.totals.steps == 0


def test_garbage_is_counted_and_the_rest_still_arrives(office):
    office.exchange.admit(0, ENVS)
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.IDENTITY, identity(RUN, 0))
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(office.exchange.endpoint)
        head, body = request()
        for parts in (
            [b""],
            [b"x"] * 5,
            [b"nonsense", b""],
            [head[:-1], body],
            [head, bytes(body)[:-4]],
            [head, body, b"more"],
        ):
            dealer.send_multipart(parts)
        dealer.send_multipart([Header(Kind.STOP, RUN, 0).pack(), b""])  # an agent does not send STOP
        dealer.send_multipart([head, body])
        wait_until(lambda: len(office.requests) == 1)
    assert bad_messages(office) == 7


def test_bad_messages_are_logged_at_a_bounded_rate(office, caplog):
    with caplog.at_level("WARNING", logger="ga3c"):
        office.agent(0, run=1).send(*[request(run=1) for _ in range(200)])
        wait_until(lambda: bad_messages(office) == 200)
    assert sum("bad message" in record.message for record in caplog.records) == 1


def test_what_an_agent_played_and_did_not_deliver_is_known_when_it_leaves(office):
    link = office.agent(0)
    link.send(request(), PLAYED, PLAYED, delivery(steps=1))
    wait_until(lambda: len(office.experiences) == 1)
    assert office.exchange.member(0).played == 4
    assert office.exchange.dismiss(0) == 3
    link.send(PLAYED)  # late, not bad
    office.agent(1).send(request(agent=1))
    wait_until(lambda: len(office.requests) == 4)
    assert bad_messages(office) == 0
    assert office.stats.totals.steps == 4


def test_steps_that_do_not_follow_those_before_them_are_bad_messages(office):
    link = office.agent(0)
    link.send(PLAYED, PLAYED, PLAYED, delivery(steps=2))
    for wrong in (
        delivery(steps=2),  # the same once more
        delivery(first_step=3),  # one left out
        delivery(first_step=2, steps=2),  # more than was played
        delivery(env=ENVS),
    ):
        link.send(wrong)
    link.send(request(real=b"\1\1", first_env=1))  # of an environment that the agent does not have
    link.send(delivery(first_step=2))
    wait_until(lambda: len(office.experiences) == 2)
    assert bad_messages(office) == 5
    assert office.stats.totals.steps == 6


def test_an_experience_is_of_a_version_that_its_agent_was_told_of(office):
    link = office.agent(0)
    link.send(PLAYED)
    wait_until(lambda: len(office.requests) == 1)
    office.answer(0, version=7)
    link.receive()
    link.send(*(delivery(1, version=version) for version in (8, 7)))
    wait_until(lambda: len(office.experiences) == 1)
    (taken,) = office.experiences.drain()
    assert taken.version == 7
    assert bad_messages(office) == 1


def test_of_agents_that_left_the_last_ones_are_remembered(office, monkeypatch):
    """They can still be told to stop; what comes of one that left before them is bad."""
    monkeypatch.setattr(member, "FORMER_MOST", 2)
    links = [office.agent(number) for number in range(3)]
    for number, link in enumerate(links):
        link.send(request(agent=number))
    wait_until(lambda: len(office.requests) == 3)
    for number in range(3):
        office.exchange.dismiss(number)
    for number in (1, 2):
        office.exchange.stop_agent(number)
        assert wire.read_header(links[number].receive()).kind == Kind.STOP
    links[0].send(request(agent=0))
    wait_until(lambda: bad_messages(office) == 1)


def test_the_socket_lies_in_a_private_directory_that_goes_with_it():
    office = Office()
    directory = Path(office.exchange.endpoint.removeprefix("ipc://")).parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    office.close()
    assert not directory.exists()
