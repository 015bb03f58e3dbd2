"""Checkpoints: what was saved comes back, and what is damaged is noticed and replaced by the one before."""

import numpy as np
import pytest

from ga3c.runs import checkpoint
from ga3c.runs.checkpoint import CheckpointError, checkpoints_of, load_checkpoint, load_newest, save_checkpoint


def save(run, updates, keep=3):
    arrays = {"weights": np.full(1000, updates, np.float32), "mean_square": np.ones(1000, np.float32)}
    return save_checkpoint(run / "checkpoints", arrays, {"updates": updates, "game": "Pong"}, keep=keep)


def damage_middle(path):
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


def test_what_was_saved_comes_back(tmp_path):
    save(tmp_path, 5)
    path, arrays, state = load_newest(tmp_path)
    assert path.name == "000000000005.safetensors"
    assert (arrays["weights"] == 5).all()
    assert state["updates"] == 5
    assert state["game"] == "Pong"


def test_arrays_may_stand_anywhere_in_the_state(tmp_path):
    deep = {
        "updates": 1,
        "players": [{"frames": np.arange(6, dtype=np.uint8).reshape(1, 2, 3), "name": "a"}, {"frames": None}],
        "empty": np.zeros((0, 4), np.float32),
        "random": {"state": 2**127 + 1},
    }
    save_checkpoint(tmp_path / "checkpoints", {"weights": np.ones(3)}, deep, keep=1)
    _, arrays, state = load_newest(tmp_path)
    assert arrays.keys() == {"weights"}
    np.testing.assert_array_equal(state["players"][0].pop("frames"), deep["players"][0].pop("frames"))
    assert state["empty"].shape == deep.pop("empty").shape
    assert (state["empty"].dtype, state.pop("empty").size) == (np.float32, 0)
    assert state == {**deep, "format": checkpoint.FORMAT}


@pytest.mark.parametrize(("number", "readable"), [(1, False), (2, True), (3, True), (4, True), (5, True), (6, False)])
def test_formats_before_are_still_read_and_others_are_refused(tmp_path, monkeypatch, number, readable):
    monkeypatch.setattr(checkpoint, "FORMAT", number)
    save(tmp_path, 5)
    monkeypatch.undo()
    if readable:
        assert load_newest(tmp_path)[2]["updates"] == 5
    else:
        with pytest.raises(CheckpointError, match=f"has the checkpoint format {number}, not 5"):
            load_newest(tmp_path)


def test_where_there_was_no_mean_yet_the_weights_are_its(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 3)
    save(tmp_path, 5)
    monkeypatch.undo()
    assert (load_newest(tmp_path)[1]["mean_weights"] == 5).all()


def test_the_newest_are_kept(tmp_path):
    for updates in (1, 2, 3, 10):
        save(tmp_path, updates, keep=2)
    assert [int(path.stem) for path in checkpoints_of(tmp_path)] == [10, 3]


@pytest.mark.parametrize("harm", [damage_middle, cut, empty])
def test_a_damaged_checkpoint_is_told_and_the_one_before_taken(tmp_path, caplog, harm):
    save(tmp_path, 5)
    harm(save(tmp_path, 6))
    path, arrays, _ = load_newest(tmp_path)
    assert path.stem == "000000000005"
    assert (arrays["weights"] == 5).all()
    assert "000000000006.safetensors" in caplog.text
    assert "the one before it is taken" in caplog.text


def test_where_all_are_damaged_the_reason_is_told(tmp_path):
    damage_middle(save(tmp_path, 5))
    cut(save(tmp_path, 6))
    with pytest.raises(CheckpointError, match="does not have its checksum"):
        load_newest(tmp_path)


def test_what_a_killed_process_left_unfinished_goes_with_the_next(tmp_path):
    unfinished = save(tmp_path, 5).with_name(".000000000006.safetensors.4711")
    unfinished.write_bytes(b"half of it")
    save(tmp_path, 7)
    assert not unfinished.exists()
    assert [int(path.stem) for path in checkpoints_of(tmp_path)] == [7, 5]


def test_a_run_that_went_on_from_the_one_before_gets_rid_of_the_damaged_one(tmp_path):
    save(tmp_path, 50)
    cut(save(tmp_path, 60))
    load_newest(tmp_path)
    save(tmp_path, 55, keep=1)
    assert [int(path.stem) for path in checkpoints_of(tmp_path)] == [55]


@pytest.mark.parametrize(("was", "now"), [(b"Pong", b"Gong"), (b'"weights"', b'"weightz"')], ids=["state", "name"])
def test_a_changed_letter_is_noticed(tmp_path, was, now):
    path = save(tmp_path, 5)
    assert path.read_bytes().count(was) == 1
    path.write_bytes(path.read_bytes().replace(was, now))
    with pytest.raises(CheckpointError, match="checksum"):
        load_checkpoint(path)
