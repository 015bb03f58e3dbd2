"""Agents of other machines at the server's gate: who gets in, what gets through, and who is away. Real TCP."""

import socket
import stat
import time
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
import zmq
import zstandard

from experiments.bench.crowd_agents import Connection
from ga3c.agents import silence, visitors
from ga3c.agents.joining import read_settings
from ga3c.agents.visitors import TOLD_EACH, RemoteAgents
from ga3c.games.spec import Discrete, EnvSpec, Finished
from ga3c.memory.experience import Experience
from ga3c.memory.turn import Reply, Request
from ga3c.messages import exchange, wire
from ga3c.messages.gate import Gate
from ga3c.messages.keys import make_keys, read_agent_keys, read_server_keys
from ga3c.messages.links import REMOTE, Link, NetworkLink, identity
from ga3c.messages.member import Member
from ga3c.messages.wire import Header, Join, Kind, WireError
from ga3c.settings.address import parse_address
from ga3c.settings.config import Config, Resolved
from ga3c.settings.declare import ConfigError
from ga3c.system import limits
from tests.helpers.clock import Clock
from tests.helpers.command_line import run
from tests.helpers.exchange_at_work import LARGEST, RUN, SCHEMA, SPEC, Office, delivery
from tests.helpers.waiting import wait_until

CONFIG = Resolved(game="CartPole-v1", envs_per_agent=2, stall_seconds=0.3)
ANYWHERE = "tcp://127.0.0.1:*"


class Server(Office):
    """An office with a gate; nobody predicts but the test."""

    def __init__(self, keys=None, spec=SPEC):
        self.gate = Gate(ANYWHERE, keys, largest_message=LARGEST)
        super().__init__(halves=2, gate=self.gate, welcome=CONFIG.for_agents(), spec=spec)
        self.remote = RemoteAgents(CONFIG, self.exchange, self.stats)

    def connect(self, keys=None):
        self.links.append(NetworkLink(self.gate.endpoint, keys))
        return self.links[-1]

    def join(self, token=b"t" * wire.TOKEN_BYTES, keys=None):
        """A connection and the number that it was given."""
        link = self.connect(keys)
        link.send(wire.encode_join(Join(token, "test")))
        head = receive(link)
        assert wire.read_header(head).kind == Kind.WELCOME
        return link, wire.read_header(head).agent

    def answer_all(self):
        """A reply to every request that waits."""
        for request in self.requests.drain():
            outputs = np.tile(np.array([0.5, 0.5, 0], np.float32), (len(request.observations), 1))
            self.exchange.reply([(request.agent, Reply(request.half, 0, outputs))])

    @property
    def bad(self):
        return self.stats.totals.bad_messages


@pytest.fixture
def serve():
    servers = []

    def begin(**settings):
        servers.append(Server(**settings))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


@pytest.fixture
def server(serve):
    return serve()


def receive(link):
    return wait_until(lambda: link.receive(0.1), what="a message")


def kind_of_next(link):
    return wire.read_header(receive(link)).kind


def request(agent, half=0, real=b"\0", run=RUN):
    observations = np.zeros((len(real), 1, 3), np.float32)
    return wire.encode_request(run, Request(agent, half, half, real, observations))


def play(server, link, agent, steps):
    """Ask, and play on every answer but the last."""
    for step in range(steps + 1):
        link.send(request(agent, real=bytes([step > 0])))
        wait_until(lambda: len(server.requests))
        server.answer_all()
        assert kind_of_next(link) == Kind.REPLY


def test_who_joins_gets_a_number_and_the_settings_that_playing_needs(server):
    first = server.stats.number_agent()
    link = server.connect()
    link.send(wire.encode_join(Join(b"t" * wire.TOKEN_BYTES, "test")))
    head = receive(link)
    header = wire.read_header(head)
    assert (header.run, header.agent) == (RUN, first + 1)
    settings = wire.decode_welcome(head)
    assert Config.from_mapping(settings).for_agents() == CONFIG.for_agents()
    assert not {"run", "resume", "keys", "listen"} & settings.keys()
    assert server.join(b"u" * wire.TOKEN_BYTES)[1] == first + 2


def test_what_an_agent_plays_arrives_and_is_answered(server):
    link, agent = server.join()
    play(server, link, agent, steps=3)
    link.send(delivery(agent=agent, steps=2))
    wait_until(lambda: len(server.experiences) == 1)
    server.remote.tend()
    assert server.remote.playing == 1
    assert server.stats.totals.steps == 3
    assert server.bad == 0


def test_who_asks_again_before_it_was_answered_is_not_heard(server):
    """A stranger cannot fill the queues: there are no more requests under way than an agent has halves."""
    link, agent = server.join()
    link.send(request(agent), request(agent, half=1), *[request(agent)] * 50)
    wait_until(lambda: server.bad == 50)
    assert len(server.requests) == 2


def test_who_tells_of_games_before_it_could_play_is_not_heard(server):
    link, agent = server.join()
    score = wire.encode_scores(Header(Kind.SCORES, RUN, agent), (Finished(1.0, 1),))
    link.send(*[score] * 50)
    wait_until(lambda: server.bad == 50)
    assert server.stats.totals.episodes == 0


def test_who_did_not_join_or_takes_anothers_number_is_refused(server):
    link, agent = server.join()
    other, _ = server.join(b"u" * wire.TOKEN_BYTES)
    other.send(request(agent))
    wait_until(lambda: server.bad == 1)
    server.exchange.admit(99, 2)  # a local agent
    other.send(request(99))
    wait_until(lambda: server.bad == 2)
    server.connect().send(request(agent))
    wait_until(lambda: server.bad == 3)
    assert len(server.requests) == 0
    play(server, link, agent, steps=1)


def test_who_has_the_name_of_a_local_agents_connection_is_refused(server):
    server.exchange.admit(7, 2)
    with closing(Link(identity(RUN, 7))) as link:
        link._dealer.connect(server.gate.endpoint)
        link.send(request(7), wire.encode_join(Join(bytes(wire.TOKEN_BYTES), "test")))
        wait_until(lambda: server.bad == 2)
    assert len(server.requests) == 0


def test_a_local_connection_cannot_join(server):
    with closing(Link(REMOTE + bytes(16))) as link:
        link._dealer.connect(server.exchange.endpoint)
        link.send(wire.encode_join(Join(bytes(wire.TOKEN_BYTES), "test")))
        wait_until(lambda: server.bad == 1)
    assert not server.exchange.remote_members()


def test_who_is_silent_is_away_and_is_told_to_join_again_when_it_comes_back(server, caplog):
    link, agent = server.join()
    play(server, link, agent, steps=3)
    link.send(request(agent, half=1))
    wait_until(lambda: len(server.requests))
    server.answer_all()
    assert kind_of_next(link) == Kind.REPLY
    with caplog.at_level("WARNING", logger="ga3c"):
        wait_until(lambda: server.remote.tend() or not server.exchange.remote_members())
    assert f"agent {agent} was silent for 0 s; 3 steps of it are lost" in caplog.text
    assert server.stats.totals.lost_steps == 3
    link.send(request(agent, real=b"\1"))
    assert kind_of_next(link) == Kind.REJOIN
    assert server.stats.totals.steps == 3  # the late one never was
    assert server.bad == 0


def test_who_waits_for_the_server_is_not_silent(server, monkeypatch):
    link, agent = server.join()
    link.send(request(agent), request(agent, half=1))
    wait_until(lambda: len(server.requests) == 2)
    clock = Clock()
    monkeypatch.setattr(silence, "time", clock)
    for _ in range(20):
        clock.ahead += silence.LOOK_MOST
        server.remote.tend()
    assert agent in server.exchange.remote_members()


def test_who_joins_again_leaves_its_old_number(server):
    link, agent = server.join()
    play(server, link, agent, steps=2)
    again, number = server.join()
    server.remote.tend()
    assert list(server.exchange.remote_members()) == [number]
    assert server.stats.totals.lost_steps == 2
    play(server, again, number, steps=1)
    server.remote.stop()
    server.stats.close_ledger()
    assert (server.stats.totals.lost_steps, server.stats.totals.unaccounted_steps) == (3, 0)


def test_who_lost_its_connection_is_gone_before_it_is_silent_for_too_long(server, caplog):
    link, agent = server.join()
    play(server, link, agent, steps=3)
    link.send(request(agent), request(agent, half=1))
    wait_until(lambda: len(server.requests) == 2)  # which it would wait for, so that it could never be called silent
    server.links.remove(link)
    link.close()
    wait_until(lambda: server.remote.tend() or not server.exchange.remote_members())
    assert f"agent {agent} lost its connection; 3 steps of it are lost" in caplog.text


def test_hundreds_join_at_once_and_those_that_go_are_away_at_once(serve, keys, caplog):
    """Told in few lines, and without a look at those that stay."""
    server = serve(keys=read_server_keys(keys / "ours"))
    ours, contexts = read_agent_keys(keys / "ours"), [zmq.Context(), zmq.Context()]
    with caplog.at_level("INFO", logger="ga3c"):
        crowd = [Connection(contexts[number % 2], server.gate.endpoint, ours, number) for number in range(300)]
        for connection in crowd:
            connection.receive(Kind.WELCOME)
        assert {connection.agent for connection in crowd} == set(server.exchange.remote_members()) == set(range(300))
        assert (
            exchange.JOINS_TOLD < len([line for line in caplog.messages if "joined" in line]) < 2 * exchange.JOINS_TOLD
        )
        server.remote.tend()
        contexts[0].destroy(linger=0)
        wait_until(lambda: server.remote.tend() or len(server.exchange.remote_members()) == 150)
        wait_until(lambda: not server.exchange.gone())
    assert set(server.exchange.remote_members()) == {connection.agent for connection in crowd[1::2]}
    assert "140 more agents are away" in caplog.text or caplog.text.count("lost its connection") > TOLD_EACH
    for connection in crowd[1::2]:
        connection.send(request(connection.agent))
    wait_until(lambda: len(server.requests) == 150)
    server.answer_all()
    for connection in crowd[1::2]:
        connection.receive(Kind.REPLY)
    assert server.bad == 0
    contexts[1].destroy(linger=0)


def test_as_many_may_join_as_files_may_be_open(monkeypatch, caplog):
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (1100, 1100))
    with caplog.at_level("INFO", logger="ga3c"), closing(Gate(ANYWHERE, None, largest_message=1000)) as gate:
        assert gate.most == 950
    assert "there is room for 950 of them: 'ulimit -n' says how many files may be open" in caplog.text


def test_one_more_than_there_may_be_is_refused(server, monkeypatch):
    monkeypatch.setattr(server.gate, "most", 2)
    for token in (b"t", b"u"):
        server.join(token * wire.TOKEN_BYTES)
    server.connect().send(wire.encode_join(Join(b"v" * wire.TOKEN_BYTES, "test")))
    wait_until(lambda: server.bad == 1)
    assert len(server.exchange.remote_members()) == 2


def test_the_more_agents_there_are_the_less_often_each_is_looked_at(server, monkeypatch):
    """A core has other things to do; whoever lost its connection is dismissed between two looks all the same."""
    clock, looks = Clock(), []
    for module in (silence, visitors):
        monkeypatch.setattr(module, "time", clock)
    many = dict.fromkeys(range(2 * visitors.LOOKS_PER_SECOND), Member(b"route", requests=9, replies=7, heard=30))
    monkeypatch.setattr(server.exchange, "remote_members", lambda: looks.append(clock.ahead) or many)
    for _ in range(50):
        clock.ahead += 0.1
        server.remote.tend()
    # The first look may be one of two that began together.
    assert [later - earlier for earlier, later in pairwise(sorted({round(look) for look in looks}))] == [2, 2]
    monkeypatch.undo()
    link, _ = server.join()
    monkeypatch.setattr(server.remote, "_next_look", time.monotonic() + 1000)
    server.links.remove(link)
    link.close()
    wait_until(lambda: server.remote.tend() or not server.exchange.remote_members())


def test_only_the_server_asks_for_signs_of_life_and_seldom(server):
    """libzmq walks through all timers of a thread with each; a cut is noticed by the system, however many there are."""
    link = server.connect()
    assert server.gate.router.getsockopt(zmq.HEARTBEAT_IVL) == 30_000
    assert link._dealer.getsockopt(zmq.HEARTBEAT_IVL) == 0
    for sock in (server.gate.router, link._dealer):
        assert sock.getsockopt(zmq.TCP_MAXRT) == 10_000
        assert sock.getsockopt(zmq.TCP_KEEPALIVE) == 1


class Wide(Server):
    """One whose observations are large enough to be compressed."""

    def __init__(self):
        super().__init__(spec=EnvSpec(frame=(2000,), stack=1, dtype="uint8", action=Discrete(2)))


def test_what_was_compressed_comes_out_as_it_was_and_is_counted_twice():
    with closing(Wide()) as server:
        link, agent = server.join()
        before = server.stats.totals.network_in
        link.compress(True)
        observations = np.arange(2 * 2000, dtype=np.uint32).astype(np.uint8).reshape(2, 1, 2000)
        link.send(wire.encode_request(RUN, Request(agent, 0, 0, b"\1\1", observations)))
        wait_until(lambda: len(server.requests))
        np.testing.assert_array_equal(server.requests.drain()[0].observations, observations)
        fields = {"actions": np.zeros(1, np.int32), "returns": np.zeros(1, np.float32)}
        link.send(wire.encode_experience(RUN, 0, Experience(agent, 1, 0, 0, observations[1], fields), SCHEMA))
        wait_until(lambda: len(server.experiences))
        np.testing.assert_array_equal(server.experiences.drain()[0].frames, observations[1])
        totals = server.stats.totals
        wait_until(lambda: totals.network_unpacked > 6000)
        assert 0 < totals.network_in - before < 2000
        assert server.bad == 0


def test_bombs_are_counted_dropped_and_no_sign_of_life():
    with closing(Wide()) as server:
        link, agent = server.join()
        heard = server.exchange.member(agent).heard
        head, body = wire.encode_request(RUN, Request(agent, 0, 0, b"\0", np.zeros((1, 1, 2000), np.uint8)))
        zstd = zstandard.ZstdCompressor()
        for bad in (
            bytes(body),
            b"",
            zstd.compress(bytes(2**28)),
            zstd.compress(bytes(1999)),
            zstd.compress(body)[:-1],
        ):
            link.send((wire.marked_compressed(head), bad))
        wait_until(lambda: server.bad == 5)
        assert server.exchange.member(agent).heard == heard
        link.send((wire.marked_compressed(head), zstd.compress(body)))
        wait_until(lambda: len(server.requests) == 1)


def test_nothing_is_compressed_on_one_machine(server):
    link = server.agent(99)
    head, body = request(99)
    link.send((wire.marked_compressed(head), zstandard.ZstdCompressor().compress(body)))
    wait_until(lambda: server.bad == 1)
    link.send((head, body))
    wait_until(lambda: len(server.requests) == 1)


def test_an_agent_tells_how_long_it_waited_and_the_server_how_much_of_it_was_its_own_doing(server):
    link, agent = server.join()
    totals, real = server.stats.totals, np.zeros((1, 1, 3), np.float32)

    def ask(half, waited):
        link.send(wire.encode_request(RUN, Request(agent, half, half, b"\0", real), waited))

    ask(0, 5_000_000)  # before its first request, it made its environments
    ask(1, 0)
    wait_until(lambda: len(server.requests) == 2)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 0.2)
    server.answer_all()  # both halves were here for so long
    for _ in range(2):
        assert kind_of_next(link) == Kind.REPLY
    ask(0, 150_000)
    wait_until(lambda: totals.remote_held >= 0.2)
    wait_until(lambda: totals.remote_idle > 0)
    assert totals.remote_idle == pytest.approx(0.15)
    assert totals.remote_held < 2 * (time.monotonic() - began)
    ask(1, 2**63)  # nobody can have waited for longer than since its last request
    wait_until(lambda: len(server.requests) == 2)
    wait_until(lambda: totals.remote_idle > 0.15)
    assert totals.remote_idle < 0.2 + time.monotonic() - began


def test_an_agent_of_another_run_is_counted_and_told_to_join(server):
    link = server.connect()
    link.send(request(5, run=RUN + 1))
    assert kind_of_next(link) == Kind.REJOIN
    wait_until(lambda: server.bad == 1)


def test_an_agent_of_another_layout_learns_which_one_is_spoken(server):
    link = server.connect()
    head, _ = wire.encode_join(Join(bytes(wire.TOKEN_BYTES), "old"))
    link.send((head[:4] + bytes([wire.LAYOUT + 1]) + head[5:], b""))
    assert kind_of_next(link) == Kind.REJOIN
    wait_until(lambda: server.bad == 1)


@pytest.mark.parametrize(
    "after_header", [b"short", b"t" * 16 + b"\xff", b"t" * 16 + b"\x1b[2J", b"t" * 16 + b"9" * 65], ids=repr
)
def test_a_join_that_cannot_be_read_is_a_bad_message(server, after_header):
    server.connect().send((Header(Kind.JOIN, 0, 0).pack() + after_header, b""))
    wait_until(lambda: server.bad == 1)
    assert not server.exchange.remote_members()


@pytest.mark.parametrize(
    "settings", [b"", b"\xff", b"[1]", b"[" * 100_000, b"{}", b'{"resume": "runs"}'], ids=lambda text: repr(text[:20])
)
def test_settings_that_are_not_those_of_playing_are_refused(settings):
    with pytest.raises(WireError):
        read_settings(Header(Kind.WELCOME, RUN, 0).pack() + settings)


def test_who_comes_when_the_run_ends_is_told_to_stop(server):
    server.remote.tell_to_leave()
    link = server.connect()
    link.send(wire.encode_join(Join(bytes(wire.TOKEN_BYTES), "test")))
    assert kind_of_next(link) == Kind.STOP


def test_the_last_words_of_a_server_still_arrive(serve):
    server = serve()
    link, agent = server.join()
    server.links.remove(link)
    server.remote.stop()
    server.exchange.stop_agent(agent)  # as if the exchange came to send it only after the dismissal
    server.exchange.close()
    server.thread.join(5)
    assert kind_of_next(link) == Kind.STOP
    link.close()


def test_a_message_that_is_too_large_is_never_taken_in(server):
    link, agent = server.join()
    link.send((request(agent)[0], bytes(2_000_000)))
    wait_until(lambda: link.receive(0.1) is None and link.broken)
    assert server.stats.totals.steps == 0


@pytest.fixture
def keys(tmp_path):
    for name in ("ours", "theirs"):
        make_keys(tmp_path / name)
    return tmp_path


def test_with_the_right_keys_it_plays(serve, keys):
    server = serve(keys=read_server_keys(keys / "ours"))
    ours = read_agent_keys(keys / "ours")
    link, agent = server.join(keys=ours)
    play(server, link, agent, steps=3)
    # As large as an agent may ever send, to which encryption adds some more.
    link.send((b"not a header", bytes(wire.largest_message(SPEC, envs=2, steps=5))))
    wait_until(lambda: server.bad == 1)
    play(server, link, agent, steps=0)


@pytest.mark.processes
@pytest.mark.parametrize("which", ["another pair", "another server", "none"])
def test_with_other_keys_it_is_refused_and_told_of(serve, keys, caplog, which):
    server = serve(keys=read_server_keys(keys / "ours"))
    ours, theirs = read_agent_keys(keys / "ours"), read_agent_keys(keys / "theirs")
    wrong = {
        "another pair": theirs._replace(server=ours.server),
        "another server": ours._replace(server=theirs.server),
        "none": None,
    }[which]
    with caplog.at_level("WARNING", logger="ga3c"):
        link = server.connect(wrong)
        link.send(wire.encode_join(Join(bytes(wire.TOKEN_BYTES), "test")))
        wait_until(lambda: link.receive(0.05) or link.broken or "refused" in caplog.text)
        wait_until(lambda: "connection(s) refused: without the right keys" in caplog.text)
        for _ in range(10):  # it goes on trying, which is not told each time
            assert link.receive(0.1) is None
    assert len(caplog.records) == 1
    if which == "another pair":
        assert "the last came from 127.0.0.1" in caplog.text
        assert link.refused
    assert not server.exchange.remote_members()
    server.join(keys=ours)


@pytest.mark.processes
def test_keys_are_private_and_never_overwritten(tmp_path, caplog):
    code, output = run(tmp_path, "keys", "OUT=keys")
    assert code == 0, output
    assert "agents.key_secret and server.key" in output
    directory = tmp_path / "keys"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir())}
    assert (modes["keys"], modes["server.key_secret"], modes["agents.key_secret"]) == (0o700, 0o600, 0o600)
    assert modes.keys() == {"keys", "server.key", "server.key_secret", "agents.key", "agents.key_secret"}
    before = (directory / "server.key_secret").read_bytes()
    code, output = run(tmp_path, "keys", "OUT=keys")
    assert code == 2
    assert "exists already" in output
    assert (directory / "server.key_secret").read_bytes() == before
    read_server_keys(directory)
    assert not caplog.records
    (directory / "server.key_secret").chmod(0o644)
    read_server_keys(directory)
    assert "can be read by others" in caplog.text


def test_keys_that_are_missing_or_broken_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"server\.key_secret cannot be used"):
        read_server_keys(tmp_path / "nowhere")
    make_keys(tmp_path / "keys")
    (tmp_path / "keys" / "agents.key").write_text('public-key = "short"\n')
    with pytest.raises(ConfigError, match=r"agents\.key cannot be used"):
        read_server_keys(tmp_path / "keys")
    (tmp_path / "keys" / "agents.key_secret").write_bytes(b"\0\xff")
    with pytest.raises(ConfigError, match=r"agents\.key_secret cannot be used"):
        read_agent_keys(tmp_path / "keys")


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "[::]", "192.168.0.7", "eth0", "some.name"])
def test_what_others_can_reach_needs_keys(host):
    with pytest.raises(ConfigError, match=r"needs keys: './run\.sh keys"):
        Config(listen=f"tcp://{host}:5555")
    Config(listen=f"tcp://{host}:5555", keys="keys")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "[::1]"])
def test_what_only_this_machine_can_reach_needs_none(host):
    assert Config(listen=f"tcp://{host}:0").listen
    assert parse_address("LISTEN", f"tcp://{host}:0").is_loopback


@pytest.mark.parametrize(
    "listen",
    ["5555", "127.0.0.1:5555", "tcp://127.0.0.1", "tcp://:5555", "tcp://127.0.0.1:70000", "ipc://x", "tcp://a b:1"],
)
def test_what_is_no_address_is_refused(listen):
    with pytest.raises(ConfigError, match="is no address"):
        Config(listen=listen)


def test_an_address_that_is_taken_or_not_ours_is_refused(server):
    for listen in (server.gate.endpoint, "tcp://192.0.2.1:5555"):
        with pytest.raises(ConfigError, match=r"cannot be listened at"):
            Gate(listen, None, largest_message=1000)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_ipv6():
    gate = Gate("tcp://[::1]:*", None, largest_message=1000)
    with closing(gate), closing(NetworkLink(gate.endpoint, None)) as link:
        link.send(wire.encode_join(Join(bytes(wire.TOKEN_BYTES), "test")))
        wait_until(lambda: gate.router.poll(10, zmq.POLLIN))


@pytest.mark.processes
def test_wrong_words_end_with_code_2(tmp_path):
    for words, sentence in (
        (["LISTEN=tcp://*:5555"], "./run.sh keys"),
        (["LISTEN=tcp://127.0.0.1:5555", "SERIAL=1"], "leave out LISTEN"),
        (["AGENTS=0"], "LISTEN says where"),
        (["agents"], "SERVER is missing"),
        (["agents", "SERVER=tcp://10.0.0.1:5555"], "needs keys"),
        (["agents", "SERVER=tcp://10.0.0.1:5555", "KEYS=nowhere"], "agents.key_secret cannot be used"),
    ):
        code, output = run(tmp_path, *words)
        assert code == 2, output
        assert sentence in output
    assert not list(tmp_path.iterdir())
