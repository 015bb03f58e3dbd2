"""Many games at once: observations, states, threads, new games, and what is refused."""

import numpy as np
import pytest

from tests.games.emulator.needs_warp import WITHOUT_WARP
from tests.games.emulator.oracle import Oracle

pytestmark = WITHOUT_WARP


def batched(*words, **options):
    from ga3c.games.emulator import BatchedAtari

    return BatchedAtari(*words, **options)


def area(picture):
    """(210, 160) to 84 × 84 by the areas that pixels have in common, in floating point."""

    def weights(small, large):
        edges = np.arange(small + 1) * large / small
        cells = np.arange(large)
        return np.clip(np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells), 0, None)

    rows, columns = weights(84, 210), weights(84, 160)
    return rows @ picture @ columns.T / (2.5 * 160 / 84)


def test_an_observation_is_the_brighter_of_two_frames_of_ale_by_area():
    import torch

    oracle, ours = Oracle("breakout"), batched("breakout")
    ours.start(64)
    for action in (1, 0, 3, 2, 3, 3, 1):
        pictures = []
        for _ in range(4):
            oracle.act(oracle.actions[action])
            pictures.append(oracle.gray())
        observations = ours.step(torch.tensor([action]))[0]
        wanted = area(np.maximum(pictures[-1], pictures[-2]).astype(float))
        assert np.abs(observations[0, -1].numpy() - wanted).max() <= 0.501
    assert observations[0, -1].numpy().max() > 100


def test_the_same_actions_from_a_kept_state_give_the_same():
    import torch

    atari = batched("space_invaders", 8, seed=3)
    atari.reset()
    kept = atari.state()

    def play():
        chance = torch.Generator().manual_seed(1)
        total = 0.0
        for _ in range(150):
            actions = torch.randint(0, len(atari.actions), (8,), generator=chance)
            total += atari.step(actions)[1].sum().item()
        return total, atari.ram().clone()

    first, ram = play()
    atari.load_state(kept)
    again, same = play()
    assert first > 0
    assert first == again
    assert (ram == same).all()


def test_threads_change_nothing():
    import torch

    one, two = (batched("pong", 7, threads=threads, seed=5) for threads in (1, 2))
    assert (one.reset() == two.reset()).all()
    for step in range(10):
        actions = torch.arange(7) * step % len(one.actions)
        seen, other = one.step(actions), two.step(actions)
        assert all((a == b).all() for a, b in zip(seen[:4], other[:4], strict=True))
    assert len(torch.unique(one.ram(), dim=0)) > 1  # the games are not all the same


def test_a_game_that_is_over_begins_anew_with_the_step_after():
    import torch

    atari = batched("breakout", 4, max_num_frames_per_episode=40)
    atari.reset(seed=1)
    nothing = torch.zeros(4, dtype=torch.int64)
    ends = [atari.step(nothing)[3].all().item() for _ in range(12)]
    assert ends.index(True) == 9
    assert sum(ends) == 1
    assert atari.lives.tolist() == [5] * 4


def test_sticky_actions_repeat_the_last_one():
    import torch

    firm, sticky = batched("breakout", 1), batched("breakout", 64, repeat_action_probability=0.25)
    for atari in (firm, sticky):
        atari.start(64)
    sticky.load_state(firm.state().repeat(64, 1))
    sticky._states[:, 16:20] = torch.randint(1, 255, (64, 4), generator=torch.Generator().manual_seed(1)).byte()
    for step in range(6):
        sticky.step(torch.full((64,), 2 + step % 2))
    assert len(torch.unique(sticky.ram(), dim=0)) > 8


def test_what_is_not_known_is_refused(monkeypatch):
    from ga3c.games.emulator import cartridges

    with pytest.raises(ValueError, match="does not know zork: play it with ALE"):
        batched("zork")
    with pytest.raises(ValueError, match="how seaquest counts rewards and lives is not known yet"):
        batched("seaquest")
    monkeypatch.setitem(cartridges.CARTRIDGES, "pong", cartridges.Cartridge("0" * 32, cartridges.ALL))
    with pytest.raises(ValueError, match="is not the one that the emulator was proven with"):
        cartridges.rom_of("pong")
