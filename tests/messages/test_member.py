"""Who is who among the agents, by hand: tokens, connections, and what is remembered."""

from ga3c.messages import member
from ga3c.messages.member import Member, Members


def remote(token=b"t", connection=5):
    return Member(b"N" + token, token=token, connection=connection)


def test_agents_of_other_machines_are_known_apart():
    members = Members()
    members.add(0, Member(b"local"))
    members.add(1, remote())
    assert (list(members.present), list(members.remote)) == ([0, 1], [1])
    members.remove(0)
    members.remove(1)
    assert not members.present
    assert not members.remote
    assert members.former == {0: b"local", 1: b"Nt"}


def test_who_comes_again_leaves_its_old_number_and_may_lose_only_the_new_connection():
    members = Members()
    members.add(1, remote(connection=5))
    members.add(2, remote(connection=6))
    assert members.gone == {1: "came back under another number"}
    members.remove(1)
    members.lose(5)  # which is told late
    assert members.gone == {}
    members.lose(6)
    assert members.gone == {2: "lost its connection"}
    members.remove(2)
    assert members.gone == {}
    members.add(3, remote(connection=7))
    assert members.gone == {}


def test_a_descriptor_has_one_connection_at_a_time():
    """The end of the old one may be told after the new one joined."""
    members = Members()
    members.add(1, remote(b"t", 5))
    members.add(2, remote(b"u", 5))
    assert members.gone == {1: "lost its connection"}
    members.remove(1)
    members.lose(5)
    assert members.gone == {2: "lost its connection"}


def test_connections_that_nobody_joined_by_are_nobodys():
    members = Members()
    members.add(1, remote())
    members.lose(99)
    members.lose(-1)
    assert members.gone == {}


def test_of_those_that_left_the_last_ones_are_remembered(monkeypatch):
    monkeypatch.setattr(member, "FORMER_MOST", 2)
    members = Members()
    for number in (3, 1, 2):
        members.add(number, Member(bytes([number])))
        members.remove(number)
    assert members.former == {1: b"\1", 2: b"\2"}
