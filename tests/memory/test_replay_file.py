"""A memory in a file: it goes on as if nothing had happened, also if it was added to meanwhile, or it says why not."""

import itertools
import threading

import numpy as np
import pytest
import torch

from ga3c.games.spec import Box, EnvSpec
from ga3c.memory import replay_file
from ga3c.memory.replay_file import ReplayFileError, load_replay, save_replay
from ga3c.memory.ring import Replay
from tests.helpers.replayed import SPEC, Player


def make(**changes):
    return Replay(SPEC, 300, **{"n_step": 2, "discount": 0.9, "block": 30, "headroom": 60, **changes})


def filled(turns=200, seed=5):
    """A memory that has gone round, and the players that go on."""
    rng = np.random.default_rng(seed)
    numbers = itertools.count()
    players = [Player((0, lane), rng, numbers) for lane in range(4)]
    replay = make()
    for turn in range(turns):
        run, ends = players[turn % 4].run(5)
        replay.add(*run, **ends)
    return replay, players


def same(one, other):
    """Whether both draw the same."""
    generators = [torch.Generator().manual_seed(6) for _ in range(2)]
    return all(
        torch.equal(a, b) for a, b in zip(one.sample(200, generators[0]), other.sample(200, generators[1]), strict=True)
    )


def test_a_memory_goes_on_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_file, "PIECE", 7)
    replay, players = filled()
    save_replay(replay, tmp_path / "memory")
    other = make()
    load_replay(other, tmp_path / "memory")
    assert same(replay, other)
    for turn in range(150):  # also the windows that were under way
        run, ends = players[turn % 4].run(5)
        for memory in (replay, other):
            memory.add(*run, **ends)
        if turn % 10 == 0:
            assert (len(replay), replay.inserted, replay.dropped) == (len(other), other.inserted, other.dropped)
            assert same(replay, other)
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]


@pytest.mark.parametrize("turns", [0, 1])
def test_a_memory_that_is_almost_empty(tmp_path, turns):
    replay, players = filled(turns)
    save_replay(replay, tmp_path / "memory")
    other = make()
    load_replay(other, tmp_path / "memory")
    run, ends = players[0].run(5)
    for memory in (replay, other):
        memory.add(*run, **ends)
        memory.flush()
    assert len(other) == len(replay)
    assert same(replay, other)


def test_what_is_added_meanwhile_changes_nothing_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_file, "PIECE", 5)
    replay, players = filled()
    save_replay(replay, tmp_path / "before")
    drawn, done = threading.Event(), threading.Event()

    def add():
        for turn in range(400):  # enough to overwrite all of it
            run, ends = players[turn % 4].run(5)
            replay.add(*run, **ends)
            drawn.set()
        done.set()

    adder = threading.Thread(target=add)
    take_rows = replay.take_rows

    def take(first, count):
        if not adder.ident:
            adder.start()
        assert drawn.wait(10)  # some of it at once
        assert not done.is_set()  # the rest has to wait
        return take_rows(first, count)

    monkeypatch.setattr(replay, "take_rows", take)
    save_replay(replay, tmp_path / "meanwhile")
    adder.join(20)
    assert done.is_set()
    assert (tmp_path / "before").read_bytes() == (tmp_path / "meanwhile").read_bytes()


def test_vectors_and_box_actions(tmp_path):
    spec = EnvSpec(frame=(3,), stack=1, dtype="float32", action=Box((2,), -1.0, 1.0))
    replay, other = (Replay(spec, 50, n_step=3) for _ in range(2))
    rng = np.random.default_rng(0)
    states = rng.normal(size=(31, 3)).astype(np.float32)
    replay.add("a", states, rng.random((30, 2)), rng.random(30), terminated=False, truncated=False)
    save_replay(replay, tmp_path / "memory")
    load_replay(other, tmp_path / "memory")
    assert same(replay, other)
    for memory in (replay, other):
        memory.add("a", states[:2], np.ones((1, 2)), np.ones(1), terminated=False, truncated=True)
        memory.flush()
    assert len(other) == 31
    assert same(replay, other)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_step": 3}, "has a memory with n_step 2, and here it is 3"),
        ({"discount": 0.8}, "discounts"),
        ({"headroom": 70}, "headroom 60, and here it is 70"),
    ],
)
def test_a_memory_of_another_kind_is_refused(tmp_path, change, said):
    save_replay(filled()[0], tmp_path / "memory")
    with pytest.raises(ReplayFileError, match=said):
        load_replay(make(**change), tmp_path / "memory")


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "memory"
    save_replay(filled()[0], path)
    whole = path.read_bytes()
    for content, said in [
        (b"something else", "no replay memory"),
        (whole[:-1], "ends early"),
        (whole[: len(whole) // 2], "damaged"),
        (whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:], "damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ReplayFileError, match=said):
            load_replay(make(), path)
    with pytest.raises(ReplayFileError, match="cannot be read"):
        load_replay(make(), tmp_path / "none")


def test_a_full_disk_leaves_the_file_before(tmp_path, monkeypatch):
    replay, _ = filled()
    save_replay(replay, tmp_path / "memory")
    before = (tmp_path / "memory").read_bytes()
    monkeypatch.setattr(replay, "take_rows", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        save_replay(replay, tmp_path / "memory")
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]
    assert (tmp_path / "memory").read_bytes() == before
    monkeypatch.undo()
    save_replay(replay, tmp_path / "memory")  # and it can be saved again
