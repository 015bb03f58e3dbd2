"""The replay memory: small cases by hand, and long random play against a plain reference."""

import itertools

import numpy as np
import pytest
import torch

from ga3c.games.spec import Box, Discrete, EnvSpec
from ga3c.memory import replay_size
from ga3c.memory.replay_size import check_room, pick_replay_device, size_of
from ga3c.memory.ring import Replay
from ga3c.settings.declare import ConfigError
from tests.helpers.replayed import SPEC, Player, all_numbers

SMALL = EnvSpec(frame=(1, 1), stack=3, dtype="uint8", action=Discrete(100))


def frames(*values, spec=SMALL):
    return np.array(values, dtype=spec.dtype).reshape(-1, *spec.frame)


def whole(replay):
    """Each transition that can be drawn, by its number: the batch of all of them."""
    numbers = torch.from_numpy(all_numbers(replay))
    return replay.fetch(numbers)


def rows_of(batch):
    """(observation, action, return, discount, next observation) as plain numbers; none where nothing follows."""
    return [
        (o.flatten().tolist(), a.item(), r.item(), d.item(), n.flatten().tolist() if d else None)
        for o, n, a, r, d in zip(
            batch.observations, batch.next_observations, batch.actions, batch.returns, batch.discounts, strict=True
        )
    ]


# By hand, with γ = ½


def test_one_step_transitions_of_a_terminated_episode():
    replay = Replay(SMALL, 10, discount=0.5)
    replay.add(
        0, frames(0, 0, 1, 2, 3), np.array([5, 6, 7]), np.array([1.0, 0.0, -1.0]), terminated=True, truncated=False
    )
    assert len(replay) == 0
    replay.flush()
    assert rows_of(whole(replay)) == [
        ([0, 0, 1], 5, 1.0, 0.5, [0, 1, 2]),
        ([0, 1, 2], 6, 0.0, 0.5, [1, 2, 3]),
        ([1, 2, 3], 7, -1.0, 0.0, None),
    ]


def test_windows_at_a_terminal_state_are_shorter_and_nothing_follows():
    replay = Replay(SMALL, 10, n_step=2, discount=0.5)
    replay.add(
        0, frames(0, 0, 1, 2, 3), np.array([5, 6, 7]), np.array([1.0, 2.0, 4.0]), terminated=True, truncated=False
    )
    replay.flush()
    assert rows_of(whole(replay)) == [
        ([0, 0, 1], 5, 2.0, 0.25, [1, 2, 3]),
        ([0, 1, 2], 6, 4.0, 0.0, None),
        ([1, 2, 3], 7, 4.0, 0.0, None),
    ]


def test_windows_at_a_truncation_have_their_own_discount_and_the_true_last_observation():
    replay = Replay(SMALL, 10, n_step=2, discount=0.5)
    rewards = np.array([1.0, 2.0, 4.0])
    replay.add(0, frames(0, 0, 1, 2, 3, 9), np.array([5, 6, 7]), rewards, terminated=False, truncated=True)
    # The next episode, which the windows before must not see.
    replay.add(0, frames(0, 0, 50), np.array([8]), np.array([3.0]), terminated=True, truncated=False)
    replay.flush()
    assert rows_of(whole(replay)) == [
        ([0, 0, 1], 5, 2.0, 0.25, [1, 2, 3]),
        ([0, 1, 2], 6, 4.0, 0.25, [2, 3, 9]),
        ([1, 2, 3], 7, 4.0, 0.5, [2, 3, 9]),
        ([0, 0, 50], 8, 3.0, 0.0, None),
    ]


def test_a_window_waits_for_the_next_run_of_its_lane():
    replay = Replay(SMALL, 10, n_step=2, discount=0.5)
    replay.add(
        "a", frames(0, 0, 1, 2, 3), np.array([1, 2, 3]), np.array([1.0, 2.0, 4.0]), terminated=False, truncated=False
    )
    replay.add("b", frames(0, 0, 99), np.array([9]), np.array([8.0]), terminated=False, truncated=False)
    replay.flush()
    assert rows_of(whole(replay)) == [([0, 0, 1], 1, 2.0, 0.25, [1, 2, 3])]
    replay.add("a", frames(2, 3, 4), np.array([4]), np.array([8.0]), terminated=False, truncated=False)
    replay.flush()
    assert rows_of(whole(replay))[1:] == [([0, 1, 2], 2, 4.0, 0.25, [2, 3, 4])]


def test_a_lane_first_seen_in_the_middle_of_an_episode_brings_its_history():
    replay = Replay(SMALL, 10)
    replay.add(0, frames(7, 8, 9), np.array([1]), np.array([0.0]), terminated=True, truncated=False)
    replay.add(1, frames(0, 8, 9), np.array([2]), np.array([0.0]), terminated=True, truncated=False)
    replay.flush()
    assert [row[0] for row in rows_of(whole(replay))] == [[7, 8, 9], [0, 8, 9]]


def test_a_lost_life_ends_an_episode_but_frames_are_not_stored_again():
    replay = Replay(SMALL, 10)
    replay.add(0, frames(0, 0, 1, 2), np.array([1, 2]), np.zeros(2), terminated=True, truncated=False)
    replay.add(0, frames(1, 2, 3), np.array([3]), np.zeros(1), terminated=True, truncated=False)
    replay.flush()
    assert [row[0] for row in rows_of(whole(replay))] == [[0, 0, 1], [0, 1, 2], [1, 2, 3]]
    assert replay._rows == 3


def test_what_a_lane_had_under_way_is_dropped_when_it_is_forgotten():
    replay = Replay(SMALL, 10, n_step=3)
    replay.add(0, frames(0, 0, 1, 2), np.array([1, 2]), np.zeros(2), terminated=False, truncated=False)
    replay.forget(0)
    replay.add(0, frames(0, 0, 5), np.array([3]), np.zeros(1), terminated=True, truncated=False)
    replay.flush()
    assert [row[:2] for row in rows_of(whole(replay))] == [([0, 0, 5], 3)]
    assert replay.dropped == 2


def test_vectors_and_actions_of_a_box():
    spec = EnvSpec(frame=(3,), stack=1, dtype="float32", action=Box((2,), -1.0, 1.0))
    replay = Replay(spec, 10, discount=0.5)
    states = np.arange(9, dtype=np.float32).reshape(3, 3) / 7
    actions = np.array([[0.5, -0.5], [1.0, 0.25]], dtype=np.float32)
    replay.add(0, states, actions, np.array([1.0, 2.0]), terminated=False, truncated=True)
    replay.flush()
    batch = whole(replay)
    np.testing.assert_array_equal(batch.observations, states[:2, None])
    np.testing.assert_array_equal(batch.next_observations, states[1:, None])
    np.testing.assert_array_equal(batch.actions, actions)
    assert batch.discounts.tolist() == [0.5, 0.5]


# Against a plain reference


def check(replay, players, *, n, discount):
    """Everything that can be drawn is as it was seen. Returns the actions, which are the numbers of the steps."""
    expected = {}
    for player in players:
        expected |= player.transitions(n, discount)
    batch = whole(replay)
    actions = batch.actions.tolist()
    observations, returns, discounts, later = zip(*(expected[action] for action in actions), strict=True)
    np.testing.assert_array_equal(batch.observations, np.stack(observations))
    np.testing.assert_allclose(batch.returns, returns, atol=1e-6)
    np.testing.assert_array_equal(batch.discounts, np.array(discounts, dtype=np.float32))
    follows = np.flatnonzero(discounts)
    np.testing.assert_array_equal(batch.next_observations[follows], np.stack(later)[follows])
    return actions


@pytest.mark.parametrize(("n", "seed"), [(1, 0), (3, 1)])
def test_what_is_drawn_is_what_was_seen(n, seed):
    rng = np.random.default_rng(seed)
    numbers = itertools.count()
    players = [Player(lane, rng, numbers) for lane in range(7)]
    replay = Replay(SPEC, 1_500, n_step=n, discount=0.9, block=97, headroom=300)
    entered = {}  # number in the memory by action
    for turn in itertools.count():
        player = players[rng.integers(len(players))]
        run, ends = player.run(int(rng.integers(1, 12)))
        replay.add(*run, **ends)
        if turn % 400 == 0:
            replay.flush()
        if turn % 400 in (0, 207) or next_number(numbers) > 50_000:  # also while rows wait for a flush
            actions = check(replay, players, n=n, discount=0.9)
            for action, number in zip(actions, all_numbers(replay).tolist(), strict=True):
                assert entered.setdefault(action, number) == number
            assert len(set(actions)) == len(actions)
        if next_number(numbers) > 50_000:
            break
    assert replay.inserted > 30 * replay.capacity
    assert len(replay) == replay.capacity


def next_number(numbers):
    """Without taking it."""
    return numbers.__reduce__()[1][0]


@pytest.mark.parametrize("headroom", [60, 12_000])
def test_two_hundred_lanes_of_speeds_one_to_twenty(headroom):
    rng = np.random.default_rng(2)
    numbers = itertools.count()
    players = [Player(lane, rng, numbers) for lane in range(200)]
    speeds = np.linspace(1, 20, 200)
    replay = Replay(SPEC, 10_000, n_step=3, discount=0.9, block=50, headroom=headroom)
    lived = set()
    for turn, lane in enumerate(rng.choice(200, 4_000, p=speeds / speeds.sum())):
        run, ends = players[lane].run(5)
        replay.add(*run, **ends)
        if turn % 800 == 0:
            replay.flush()
            lived.update(check(replay, players, n=3, discount=0.9))
    replay.flush()
    lived.update(check(replay, players, n=3, discount=0.9))
    # With little headroom, transitions of slow lanes leave before others, and a few of them before they are complete.
    assert replay.dropped <= (headroom == 60) * 20
    assert replay.inserted + replay.dropped + replay.lanes.pending == next_number(numbers)
    assert len(lived) >= replay.inserted - (headroom == 60) * 50
    assert (len(replay) == 10_000) == (headroom == 12_000) == (len(replay.holes) == 0)
    assert len(replay) > 8_500


def test_draws_are_equal():
    replay = Replay(SMALL, 50, block=10, headroom=30)
    for i in range(130):
        replay.add(i % 3, frames(0, 0, i), np.array([i % 100]), np.zeros(1), terminated=True, truncated=False)
    replay.flush()
    generator = torch.Generator().manual_seed(0)
    numbers = replay.sample(1_000_000, generator).numbers
    counts = np.bincount(numbers.numpy() - replay.oldest, minlength=len(replay))
    assert len(counts) == len(replay) == 50
    expected = 1_000_000 / 50
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    assert chi2 < 49 + 5 * np.sqrt(2 * 49)


def test_a_memory_that_is_filled_block_by_block_is_the_same():
    """As it is on other devices than the CPU."""
    rng = np.random.default_rng(8)
    players = [Player(lane, rng, itertools.count()) for lane in range(3)]
    replays = [Replay(SPEC, 200, n_step=2, block=20, headroom=40, staged=staged) for staged in (False, True)]
    for turn in range(300):
        run, ends = players[turn % 3].run(4)
        for replay in replays:
            replay.add(*run, **ends)
    one, other = (replay.sample(500, torch.Generator().manual_seed(0)) for replay in replays)
    assert all(torch.equal(part, same) for part, same in zip(one, other, strict=True))


def test_the_same_adds_and_draws_give_the_same_bits():
    def draw():
        rng = np.random.default_rng(3)
        players = [Player(lane, rng, itertools.count()) for lane in range(3)]
        replay = Replay(SPEC, 200, n_step=2, block=20, headroom=40)
        generator = torch.Generator().manual_seed(4)
        batches = []
        for turn in range(200):
            run, ends = players[turn % 3].run(4)
            replay.add(*run, **ends)
            if turn > 20:
                batches.append([part.clone() for part in replay.sample(8, generator)])
        return batches

    for one, other in zip(draw(), draw(), strict=True):
        for part, same in zip(one, other, strict=True):
            assert torch.equal(part, same)


def test_batches_take_turns_in_their_buffers():
    replay = Replay(SMALL, 10, buffers=2)
    replay.add(0, frames(0, 0, 1), np.array([1]), np.zeros(1), terminated=True, truncated=False)
    replay.flush()
    generator = torch.Generator()
    first, second, third = (replay.sample(4, generator).numbers.data_ptr() for _ in range(3))
    assert first != second
    assert first == third


def test_a_transition_of_atari_takes_at_most_7100_bytes():
    spec = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(18))
    replay = Replay(spec, 1_000_000)
    assert replay.bytes + replay.host_bytes <= 7_100 * replay.capacity


def test_what_does_not_fit_says_what_would():
    spec = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(18))
    with pytest.raises(ConfigError, match=r"needs 7\d+\.\d+ GB of cpu, and .* REPLAY_STEPS=\d+ would fit"):
        Replay(spec, 100_000_000)


class Device:
    """What is not here, as far as its size goes."""

    type = "cuda"

    def __str__(self):
        return "cuda:0"


def test_a_memory_is_beside_the_model_if_it_fits(monkeypatch):
    spec = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(18))
    monkeypatch.setattr(replay_size, "room", lambda device: 8e9 if device.type == "cuda" else 100e9)
    monkeypatch.setattr(replay_size, "available_memory", lambda: 100e9)
    device = Device()
    assert pick_replay_device("auto", spec, 1_000_000, device) is device
    assert pick_replay_device("auto", spec, 2_000_000, device) == torch.device("cpu")
    assert pick_replay_device("cpu", spec, 1_000, device) == torch.device("cpu")
    check_room(size_of(spec, 1_000_000, staged=True), device)
    with pytest.raises(ConfigError, match=r"14.19 GB of cuda:0, and 7.20 GB can be had: REPLAY_STEPS=1000000 .*=cpu"):
        check_room(size_of(spec, 2_000_000, staged=True), device)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"frames": frames(0, 0)}, "frames and"),
        ({"rewards": np.array([np.nan])}, "not finite"),
        ({"truncated": True}, "needs the frame"),
    ],
)
def test_runs_that_do_not_fit_together_are_refused(change, said):
    run = {"frames": frames(0, 0, 1), "actions": np.array([1]), "rewards": np.zeros(1), "truncated": False, **change}
    with pytest.raises(ValueError, match=said):
        Replay(SMALL, 10).add(0, terminated=False, **run)
