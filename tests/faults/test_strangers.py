"""Messages of strangers, and of members out of their senses, on the live sockets: counted, dropped, survived."""

import os
import random
import socket
import struct
import time

import numpy as np
import pytest
import zmq

from ga3c.games.spec import Finished
from ga3c.messages import wire
from ga3c.messages.links import identity
from ga3c.messages.wire import Header, Kind
from ga3c.system.limits import resident_memory
from ga3c.system.logs import LEAST_SECONDS
from tests.helpers.exchange_at_work import (
    ENVS,
    HALVES,
    PLAYED,
    RUN,
    SCHEMA,
    SPEC,
    bad_messages,
    delivery,
    experience,
    request,
)
from tests.helpers.fuzzing import damaged, encode_request, good_messages
from tests.helpers.intruder import Sender, Stranger
from tests.helpers.server_at_work import Run
from tests.helpers.waiting import wait_until

MEGABYTE = 2**20


# What an agent that was admitted cannot say


class Told:
    """An agent of this run that was answered once, with version 7, so that it may say something."""

    def __init__(self, office):
        self.office = office
        self.link = office.agent(0)
        self.link.send(PLAYED)
        wait_until(lambda: office.requests.drain())
        office.answer(0, version=7)
        assert self.link.receive()

    def refused(self, *messages):
        """Whether each of the messages is bad; a request after them shows that all were seen."""
        before = bad_messages(self.office)
        self.link.send(*messages)
        self.link.send(request())
        wait_until(lambda: self.office.requests.drain())
        self.office.answer(0, version=7)
        assert self.link.receive()
        return bad_messages(self.office) == before + len(messages)


def scores(*games, half=0):
    return wire.encode_scores(Header(Kind.SCORES, RUN, 0, half), games)


def swapped(parts, number, layout, other):
    """The message with one number replaced that stands in it only once: the encoders would not write the other."""
    head, body = bytes(parts[0]), bytes(parts[1])
    before, after = struct.pack(layout, number), struct.pack(layout, other)
    assert (head + body).count(before) == 1
    return head.replace(before, after), body.replace(before, after)


def marked():
    """An experience with numbers that can be found again."""
    whole = experience(steps=1, version=7)
    whole.fields["returns"][0], whole.frames[0, 1] = 1234.5, 4321.5
    return wire.encode_experience(RUN, 0, whole, SCHEMA)


@pytest.mark.parametrize("other", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused(office, other):
    told = Told(office)
    assert told.refused(
        swapped(marked(), 1234.5, "<f", other),
        swapped(marked(), 4321.5, "<f", other),
        swapped(
            encode_request(Header(Kind.REQUEST, RUN, 0), np.full((1, 1, 3), [[[0, 0, 5.5]]], np.float32)),
            5.5,
            "<f",
            other,
        ),
        scores(Finished(other, 5)),
    )
    assert not told.refused(scores(Finished(1.0, 5)))
    assert list(office.stats.scores) == [1.0]
    assert len(office.experiences) == 0


def test_what_is_out_of_range_is_refused(office):
    told = Told(office)
    assert not told.refused(delivery(HALVES - 1, steps=1, version=7))
    assert told.refused(
        request(half=HALVES),
        request(half=60_000),
        delivery(HALVES, steps=1, first_step=1, version=7),
        delivery(steps=1, first_step=1, version=8),  # a version that is yet to come
        delivery(steps=1, first_step=1, version=2**64 - 1),
        scores(Finished(1.0, -5)),
        scores(Finished(1.0, 0)),
        scores(Finished(1.0, 5), half=HALVES),
        scores(),
        (scores(Finished(1.0, 5))[0], b"more"),
    )
    assert len(office.experiences) == 1
    assert office.stats.totals.episodes == 0


def test_an_agent_that_floods_is_held_to_one_request_per_half_and_one_message_of_scores_per_reply(office):
    link = office.agent(0)
    link.send(*[request() for _ in range(1000)])
    wait_until(lambda: bad_messages(office) == 1000 - HALVES)
    assert len(office.requests) == HALVES
    office.answer(0)
    assert link.receive()
    link.send(*[scores(Finished(1.0, 5)) for _ in range(1000)])
    wait_until(lambda: bad_messages(office) == 1000 - HALVES + 999)
    assert office.stats.totals.episodes == 1


def test_an_agent_that_talks_nonsense_counts_as_silent(office):
    told = Told(office)
    before = office.exchange.member(0).heard
    told.link.send(scores(), (b"nonsense", b""))
    wait_until(lambda: bad_messages(office) == 2)
    assert office.exchange.member(0).heard == before


def test_who_only_asks_can_deliver_nothing(office):
    """As the bench does, to see from outside how long a prediction takes."""
    link = office.agent(9)
    link.send(request(agent=9))
    wait_until(lambda: len(office.requests) == 1)
    office.answer(9)
    assert link.receive()
    for env in range(ENVS):
        link.send(delivery(agent=9, env=env))
    wait_until(lambda: bad_messages(office) == ENVS)
    assert len(office.experiences) == office.stats.totals.steps == 0
    assert office.exchange.dismiss(9) == 0
    office.stats.close_ledger()
    assert office.stats.totals.unaccounted_steps == 0


# What the sockets bear


def test_a_second_one_of_the_same_name_is_not_heard_and_the_first_stays(office):
    first = office.agent(0)
    first.send(request())
    wait_until(lambda: len(office.requests) == 1)
    with Sender(office.exchange.endpoint, identity(RUN, 0), patience=0.0) as second:
        second.socket.setsockopt(zmq.RCVTIMEO, 200)
        for _ in range(20):
            second.send([bytes(part) for part in PLAYED])
        for _ in range(2):
            office.answer(0)
            assert first.receive()
            first.send(request())
        wait_until(lambda: len(office.requests) == 3)
        with pytest.raises(zmq.Again):
            second.socket.recv()
    assert all(one.played == 0 for one in office.requests.drain())


def test_a_thousand_names_leave_nothing_behind(office):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def visit(names):
        before = bad_messages(office)
        for name in names:
            with Sender(office.exchange.endpoint, b"X%d" % name, patience=10.0) as sender:
                sender.send([bytes(30_000), bytes(30_000)])
        wait_until(lambda: bad_messages(office) == before + len(names))

    visit(range(100))
    before, memory = descriptors(), resident_memory(os.getpid())
    visit(range(100, 1100))
    wait_until(lambda: descriptors() <= before + 5)
    assert resident_memory(os.getpid()) - memory < 32 * MEGABYTE


def test_one_that_never_reads_its_replies_costs_little_memory(office):
    link = office.agent(0)
    link.send(request())
    wait_until(lambda: office.requests.drain())
    memory = resident_memory(os.getpid())
    for _ in range(20_000):
        office.answer(0)
    other = office.agent(1)
    other.send(request(agent=1))
    wait_until(lambda: len(office.requests) == 1)
    office.answer(1)
    assert other.receive()
    assert resident_memory(os.getpid()) - memory < 32 * MEGABYTE


def test_too_large_a_part_ends_its_connection_and_many_parts_are_one_bad_message(office):
    good = office.agent(0)
    with Sender(office.exchange.endpoint, patience=10.0) as sender:
        sender.send([b"part"] * 10_000)
        wait_until(lambda: bad_messages(office) == 1)
        sender.send([bytes(2**20), b""])  # ZeroMQ itself hangs up, so nobody can count it
        sender.send([b"", b""])
        wait_until(lambda: bad_messages(office) == 2)
    good.send(request())
    wait_until(lambda: len(office.requests) == 1)


def test_bytes_that_are_not_even_zeromq(office):
    chance = random.Random(3)
    path = office.exchange.endpoint.removeprefix("ipc://")
    for _ in range(300):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(path)
            try:
                raw.sendall(chance.choice([b"", b"\xff" + bytes(8) + b"\x7f", b"GET / HTTP/1.1\r\n\r\n"]))
                raw.sendall(chance.randbytes(chance.randrange(500)))
            except BrokenPipeError:
                pass  # it hung up already
    link = office.agent(0)
    link.send(request())
    wait_until(lambda: len(office.requests) == 1)
    assert office.thread.is_alive()


def fuzz_a_member(office, count):
    """Damaged messages in an agent's own name: what gets into the queues is at least possible."""
    chance = random.Random(count)
    good = good_messages(SPEC, RUN, 0, version=7)
    office.exchange.admit(0, ENVS)
    answered = sent = 0

    def all_seen():
        return bad_messages(office) + office.exchange.member(0).heard == sent

    with Sender(office.exchange.endpoint, identity(RUN, 0)) as sender:
        while sent < count:
            for _ in range(100):
                sender.send(damaged(good, chance))
            sent += 100
            wait_until(all_seen)
            for one in office.requests.drain():
                assert one.agent == 0
                assert one.half < HALVES
                assert one.played <= len(one.observations)
                assert np.isfinite(one.observations).all()
                office.answer(0, version=7)
                answered += 1
            for one in office.experiences.drain():
                assert one.agent == 0
                assert one.version <= 7
                assert set(one.fields["actions"].tolist()) <= set(range(SPEC.action.n))
                assert np.isfinite(one.fields["returns"]).all()
                assert np.isfinite(one.frames).all()
    assert office.thread.is_alive()
    assert all(np.isfinite(office.stats.scores))
    assert bad_messages(office) > sent / 2
    assert answered > 0


def test_a_member_that_sends_damaged_messages(office):
    fuzz_a_member(office, 5_000)


@pytest.mark.long
def test_a_member_that_sends_many_damaged_messages(office):
    fuzz_a_member(office, 200_000)


# A run that trains meanwhile


class Watch:
    """Adds up what a run does while it is watched, and what its exchange spends."""

    def __init__(self, run):
        self._run = run
        self._clock = time.pthread_getcpuclockid(run.server._exchange_worker.ident)
        self._before = self._total = np.zeros(4)

    def _now(self):
        totals = self._run.stats.totals
        return np.array([time.monotonic(), totals.steps, totals.bad_messages, time.clock_gettime(self._clock)])

    def __enter__(self):
        self._before = self._now()

    def __exit__(self, *_):
        self._total = self._total + self._now() - self._before

    @property
    def seconds(self):
        return self._total[0]

    @property
    def steps_per_second(self):
        return self._total[1] / self._total[0]

    def spent_per_message(self, quiet):
        """CPU of the exchange for each bad message, beyond what the same number of steps took it in a quiet time."""
        return (self._total[3] - quiet._total[3] / quiet._total[1] * self._total[1]) / self._total[2]


def fuzz_a_run(run, counts, rounds, rate=0):
    """Send so many messages of each way to a run that trains, in bursts with as long a rest before each.

    Returns the speed of the run during the bursts as a share of that in the rests, and what a message costs.
    """
    run.wait_until(lambda: run.server.agents_playing == 2 and run.stats.totals.updates > 50, seconds=60)
    exchange, guest = run.server._exchange, run.stats.number_agent()
    exchange.admit(guest, run.config.envs_per_agent)
    numbers = {"damaged": guest, "duplicate": next(iter(run.processes()))}
    strangers = {
        way: Stranger(
            exchange.endpoint,
            run.server._run_id,
            run.server._spec,
            way,
            count // rounds,
            agent=numbers.get(way, 0),
            seed=len(way),
            rate=rate,
        )
        for way, count in {**counts, "duplicate": 2000}.items()
    }
    sent = dict.fromkeys(strangers, 0)

    def all_ready():
        return all(stranger.ready for stranger in strangers.values())

    def seen():
        return run.stats.totals.bad_messages + exchange.member(guest).heard

    run.wait_until(all_ready, seconds=60)
    memory = resident_memory(os.getpid())
    quiet, busy = Watch(run), Watch(run)
    for number in range(1, rounds + 1):
        with quiet:
            run.server.wait(max(busy.seconds - quiet.seconds, 1.0))
        with busy:
            for way, stranger in strangers.items():
                sent[way] += stranger.begin()
            run.wait_until(all_ready, seconds=600)
            run.wait_until(lambda: seen() >= number * sum(counts.values()) // rounds, seconds=60)  # noqa: B023
    for way, stranger in strangers.items():
        sent[way] += stranger.leave()
    duplicates = sent.pop("duplicate")  # whose connection ZeroMQ refuses, so what it sends may never be seen
    assert sent == counts
    assert 0 <= seen() - sum(counts.values()) <= duplicates

    updates = run.stats.totals.updates
    run.wait_until(lambda: run.stats.totals.updates > updates + 50, seconds=60)
    assert len(run.processes()) == 2
    assert run.stats.totals.agents_started == 3  # none had to be replaced, and one was the guest
    growth = resident_memory(os.getpid()) - memory
    assert growth < 64 * MEGABYTE
    visitor = exchange.member(guest)
    # Chance may make a step real in what a member sends that is damaged, so that it is one like all others.
    run.stats.add(lost_steps=exchange.dismiss(guest))
    run.server.stop()
    totals = run.stats.totals
    # Nothing of a stranger was trained on: it is all of the members' own steps.
    assert totals.samples + totals.stale_steps + totals.lost_steps == totals.steps
    assert totals.unaccounted_steps == 0
    lines = [line for line in run.log_path.read_text().splitlines() if "bad message" in line]
    assert 1 <= len(lines) <= 2 + (quiet.seconds + busy.seconds) / LEAST_SECONDS
    assert max(map(len, lines)) < 300

    ratio, cost = busy.steps_per_second / quiet.steps_per_second, busy.spent_per_message(quiet)
    print(
        f"\n{sum(counts.values()):,} messages of strangers in {busy.seconds:.1f} s, rests of {quiet.seconds:.1f} s: "
        f"{busy.steps_per_second:.0f} steps/s, {quiet.steps_per_second:.0f} in the rests ({ratio:.2f}); "
        f"{cost * 1e6:.0f} us of CPU per message; {growth / MEGABYTE:+.1f} MB; {visitor.heard} of a guest were good"
    )
    return ratio, cost


@pytest.fixture
def training(tmp_path):
    run = Run(tmp_path)
    yield run
    run.close()


@pytest.mark.processes
@pytest.mark.alone
def test_strangers_do_not_disturb_a_run(training):
    counts = {"noise": 2000, "damaged": 2000, "another run": 2000, "replayed": 2000}
    ratio, cost = fuzz_a_run(training, counts, rounds=2, rate=1000)
    assert ratio > 0.1  # they take a core from it, which is not the server's doing
    assert cost < 500e-6


@pytest.mark.long
def test_a_million_messages_of_strangers_do_not_disturb_a_run(training):
    counts = {"noise": 300_000, "damaged": 300_000, "another run": 200_000, "replayed": 200_000}
    ratio, cost = fuzz_a_run(training, counts, rounds=20)
    assert ratio > 0.1
    assert cost < 500e-6
