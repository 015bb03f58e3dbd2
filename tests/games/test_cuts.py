"""First games are cut at different steps, so that games of the same length do not stay in step."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from ga3c.agents.player import begin_players
from ga3c.games.make import make_games
from ga3c.games.repeatable import RepeatableGames
from ga3c.games.spec import Finished
from ga3c.memory.turn import Reply
from ga3c.settings.config import Config, Resolved

LENGTH = 6


class Clock(gymnasium.Env):
    """Shows the steps of its game, which has LENGTH of them, each with a reward of 1; images where it is asked to.

    Its end is that of the game, or a limit to it.
    """

    action_space = Discrete(2)

    def __init__(self, image=False, limited=False):
        self._limited = limited
        shape, dtype = ((84, 84), np.uint8) if image else ((1,), np.float32)
        self.observation_space = Box(0, 255, shape, dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._show(), {}

    def step(self, action):
        assert self._time < LENGTH, "a game that is over is played on"
        self._time += 1
        over = self._time == LENGTH
        return self._show(), 1.0, over and not self._limited, over and self._limited, {}

    def _show(self):
        return np.full(self.observation_space.shape, self._time, self.observation_space.dtype)


@pytest.fixture(autouse=True)
def clocks():
    gymnasium.register("ga3c-tests/Clock-v0", Clock)
    gymnasium.register("ga3c-tests/Picture-v0", Clock, kwargs={"image": True})
    gymnasium.register("ga3c-tests/Limited-v0", Clock, kwargs={"limited": True})
    yield
    for name in ("Clock", "Picture", "Limited"):
        del gymnasium.registry[f"ga3c-tests/{name}-v0"]


def play(games, steps):
    return [games.step(np.zeros(games.count, dtype=np.int64)) for _ in range(steps)]


@pytest.mark.parametrize("game", ["Clock", "Picture"])
def test_a_cut_is_a_truncation_and_the_next_step_begins_a_new_game(game):
    games = make_games(Config(game=f"ga3c-tests/{game}-v0"), 40)
    games.reset(seed=3, stagger=LENGTH - 1)
    played = play(games, 3 * LENGTH)
    times = np.stack([step.observations[:, -1].reshape(40, -1)[:, 0] for step in played], axis=1)
    cuts = set()
    for env in range(40):
        truncated = np.array([step.truncated[env] for step in played])
        (cut,) = np.flatnonzero(truncated)  # one of each, and no more
        cuts.add(int(cut) + 1)
        # What stands at the cut is what the game showed last; the extra step of the old game is never seen.
        following = [0, *range(1, LENGTH + 1)] * 3
        expected = [*range(1, cut + 2), *following][: 3 * LENGTH]
        np.testing.assert_array_equal(times[env], expected)
        assert [step.real[env] for step in played] == [time != 0 for time in expected]
        assert [step.rewards[env] for step in played] == [float(time != 0) for time in expected]
        assert [step.terminated[env] for step in played] == [time == LENGTH for time in expected]
    assert cuts == {1, 2, 3, 4, 5}  # at 5, the extra step ends the old game


@pytest.mark.parametrize("game", ["Clock", "Limited"])
def test_a_game_that_is_over_is_not_cut_as_well(game):
    """Whether it came to its end or to its limit with the step of the cut, or with the step after it."""
    games = make_games(Config(game=f"ga3c-tests/{game}-v0"), 60)
    games.reset(seed=3, stagger=2 * LENGTH)
    cut = 0
    for step in play(games, 3 * LENGTH + 1):
        ends = step.terminated | step.truncated
        assert not (step.terminated & step.truncated).any()
        assert not (ends & ~step.real).any()
        assert set(step.finished) <= {Finished(float(LENGTH), LENGTH)}
        cut += ends.sum() - len(step.finished)
    assert 30 < cut < 60  # one of each, but of those that were over just then


def test_a_game_that_was_cut_has_no_score():
    games = make_games(Config(game="ga3c-tests/Clock-v0"), 40)
    games.reset(seed=3, stagger=LENGTH - 1)
    finished = [game for step in play(games, 5 * LENGTH) for game in step.finished]
    assert len(finished) > 100
    assert set(finished) == {Finished(float(LENGTH), LENGTH)}


def test_stacked_images_begin_anew_after_a_cut():
    games = make_games(Config(game="ga3c-tests/Picture-v0"), 8)
    games.reset(seed=0, stagger=4)
    played = play(games, 8)
    for env in range(8):
        (cut,) = np.flatnonzero([step.truncated[env] for step in played])
        stacks = [step.observations[env, :, 0, 0].tolist() for step in played]
        assert stacks[cut] == [max(time, 0) for time in range(cut - 2, cut + 2)]
        assert stacks[cut + 1] == [0, 0, 0, 0]
        assert stacks[cut + 2] == [0, 0, 0, 1]


def test_games_of_the_same_length_end_at_different_times():
    games = make_games(Config(game="ga3c-tests/Clock-v0"), 100)
    for stagger, most in ((0, 100), (LENGTH + 1, 45)):
        games.reset(seed=0, stagger=stagger)
        ends = [len(step.finished) for step in play(games, 100)][20:]
        assert max(ends) <= most
        assert sum(ends) == pytest.approx(100 * 80 / (LENGTH + 1), rel=0.1)
    games.reset(seed=0)
    assert max(len(step.finished) for step in play(games, 2 * LENGTH)) == 100  # nothing is left of it


@pytest.mark.parametrize("settings", [{"game": "Boxing"}, {"game": "Breakout", "episodic_life": True}])
def test_cuts_of_atari_games_leave_the_others_as_they_are(settings):
    games = make_games(Config(**settings), 4)

    def steps(stagger):
        games.reset(seed=5, stagger=stagger)
        chance = np.random.default_rng(0)
        return [games.step(chance.integers(games.spec.action.n, size=4)) for _ in range(60)]

    plain, staggered = steps(0), steps(50)
    for env in range(4):
        (cut,) = np.flatnonzero([step.truncated[env] for step in staggered])
        for step in range(cut + 1):
            np.testing.assert_array_equal(staggered[step].observations[env], plain[step].observations[env])
        begun = staggered[cut + 1]
        assert not begun.real[env]
        assert staggered[cut + 2].real[env]
        assert not begun.observations[env, :3].any()  # a stack of one frame
        assert begun.observations[env, 3].any()
    games.close()


def test_agents_stagger_their_games():
    def ends(stagger):
        """Games of an agent that ended with each of its first steps."""
        config = Resolved(game="ga3c-tests/Clock-v0", envs_per_agent=16, stagger=stagger)
        ended = np.zeros(3 * LENGTH, dtype=int)
        for number, (player, _) in enumerate(begin_players(config, agent=0)):
            reply = Reply(number, 0, np.tile(np.array([0.5, 0.5, 0], dtype=np.float32), (8, 1)))
            for step in range(len(ended)):
                ended[step] += len(player.play(reply).finished)
            player.close()
        return ended.tolist()

    assert ends(0) == [0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0]
    staggered = ends(LENGTH - 1)
    assert max(staggered) < 10
    assert sum(staggered) >= 16


def finish(pieces):
    """What a generator returns in the end."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value


def test_the_serial_mode_cuts_first_games_too_and_repeats_the_cuts():
    def make():
        return make_games(Config(game="ga3c-tests/Clock-v0"), 1)

    def begin(count):
        games = RepeatableGames(make().spec, count, make, seeds=(0, 0), stagger=LENGTH - 1)
        for _ in games.begin():
            pass
        return games

    games = begin(12)
    played = play(games, 3 * LENGTH)
    cuts = [np.flatnonzero([step.truncated[env] for step in played]).tolist() for env in range(12)]
    assert all(len(cut) == 1 for cut in cuts)
    assert len({cut[0] for cut in cuts}) > 2
    assert {game for step in played for game in step.finished} == {Finished(float(LENGTH), LENGTH)}
    # Brought back at any time, before and after the cuts, it goes on as if it had never stopped.
    for stop in range(2 * LENGTH):
        games = begin(12)
        play(games, stop)
        again = begin(12)
        assert finish(again.restore(games.state())) == []
        for step, expected in zip(play(again, LENGTH), played[stop:], strict=False):
            for got, wanted in zip(step, expected, strict=True):
                np.testing.assert_array_equal(got, wanted)
