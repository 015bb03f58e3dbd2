"""The replay memory as the server sees it: which updates follow from steps, when, and who waits for whom meanwhile."""

import itertools
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ga3c.engines.trainer import BAD_UPDATES_IN_A_ROW, BadUpdates, Trainer, UpdatesNotFinite
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.memory.memory import make_memory
from ga3c.memory.stats import Stats
from ga3c.models.model import Loss
from ga3c.settings.config import Resolved
from tests.helpers.waiting import wait_until

SPEC = EnvSpec(frame=(1,), stack=1, dtype="float32", action=Discrete(1_000_000))  # an action is the step's own number
SETTINGS = {"algo": "dqn", "replay_steps": 1000, "replay_start": 20, "train_period": 4, "target_period": 40, "batch": 8}


class Learner:
    """Whose updates they would be: it only notes when its target is renewed."""

    spec = SPEC
    device = torch.device("cpu")
    acts_by_target = None

    def __init__(self):
        self.renewed = 0

    def renew_target(self):
        self.renewed += 1


class Play:
    """A memory, and agents that fill it: each round is a step of every environment."""

    def __init__(self, agents=1, envs=4, **settings):
        self.config = Resolved(**{**SETTINGS, "n_step": 1, "envs_per_agent": envs, **settings})
        self.stats, self.learner = Stats(), Learner()
        self.room = 0  # how often it was told that there is room again
        self.memory = make_memory(self.config, self.stats, on_room=self._on_room)
        self.memory.attach(self.learner)
        self.numbers = itertools.count()
        self.firsts = {}
        self.agents = range(agents)
        for agent in self.agents:
            self.join(agent)

    def _on_room(self):
        self.room += 1

    def join(self, agent):
        self.stats.ledger.open(agent, self.config.envs_per_agent)
        self.firsts |= {(agent, env): 0 for env in range(self.config.envs_per_agent)}

    def experience(self, agent, env, steps=1, **end):
        """Steps that this environment has played."""
        first = self.firsts[agent, env]
        self.firsts[agent, env] += steps
        numbers = np.array([next(self.numbers) for _ in range(steps)], dtype=np.int32)
        frames = np.append(numbers, -1).astype(np.float32)[:, None]
        fields = {"actions": numbers, "rewards": np.ones(steps, dtype=np.float32)}
        made = Experience(agent, env, first, 0, frames, fields, **end)
        for number in range(steps):
            self.stats.ledger.play(agent, env, b"\1")
            self.stats.add(steps=1)
            if number == steps - 1:
                self.stats.ledger.deliver(made)
        return made

    def round(self, agents=None):
        made = [
            self.experience(agent, env, terminated=True)
            for agent in (self.agents if agents is None else agents)
            for env in range(self.config.envs_per_agent)
        ]
        self.memory.add(made)
        return made

    def updates(self, most=10**9):
        """Make those that were granted; how many these were."""
        made = 0
        while made < most and (batch := self.memory.take()) is not None:
            self.memory.learned(batch, 0)
            made += 1
        return made

    def drawable(self):
        return self.memory._ring.inserted

    def end(self):
        for agent in self.agents:
            self.stats.add(lost_steps=self.stats.ledger.leave(agent))
        self.memory.close()
        self.memory.give_up()
        self.stats.close_ledger()
        return self.stats.totals


# Updates follow from steps


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize(("envs", "period"), [(4, 4), (4, 1), (3, 4), (1, 7), (7, 3), (16, 4)])
def test_updates_are_the_share_of_steps_that_was_asked_for(envs, period, concurrent):
    play = Play(envs=envs, train_period=period, concurrent=concurrent, replay_start=20)
    made = rounds = 0
    while rounds * envs < 2000:
        assert not (play.memory.hold() and not play.updates()), "who plays waits for nothing"
        made = play.memory._made
        play.round()
        rounds += 1
    stored = play.drawable()
    trained_for = stored - 20  # those that it begins with are for nothing, but for some of the last round
    assert abs(made - trained_for / period) <= (40 + 2 * envs) / period + 1
    assert play.stats.totals.stored_steps == stored


def test_each_step_counts_for_the_next_update_but_no_more():
    play = Play(envs=3, replay_start=9, train_period=4)
    made = []
    for _ in range(11):
        play.round()
        play.memory.hold()
        made.append(play.updates())
    # From the third round on 3 steps each: ¾ of an update, 1½, 2¼, 3, 3¾ …
    assert made == [0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0]


def test_nothing_is_trained_before_there_is_enough():
    for concurrent in (False, True):
        play = Play(envs=4, replay_start=20, concurrent=concurrent)
        for _ in range(4):
            play.round()
            assert not play.memory.hold()
            assert play.memory.take() is None
        assert play.drawable() == 16
        assert play.learner.renewed == 1  # when it was attached
        play.round()
        assert play.memory.hold() == (not concurrent)
        assert play.updates() == 1  # of the four steps with which it was enough


def test_enough_may_be_more_than_there_is_room_for():
    play = Play(envs=4, replay_steps=100, replay_start=140)
    while play.drawable() < 140:
        assert play.updates() == 0
        play.round()
        play.memory.hold()
    assert len(play.memory._ring) == 100
    assert play.updates() == 1


# With CONCURRENT=0


def test_who_plays_waits_for_the_updates_of_the_last_round():
    play = Play(envs=8, replay_start=20, concurrent=False)
    for _ in range(3):
        assert not play.memory.hold()
        play.round()
    assert play.learner.acts_by_target is False
    assert play.memory.hold()
    assert play.memory.full
    assert play.updates(1) == 1
    assert play.memory.hold()
    assert not play.room
    assert play.updates() == 1
    assert play.room == 1
    assert not play.memory.full
    assert not play.memory.hold()
    assert play.memory.take() is None  # asking again grants nothing


def test_the_target_is_renewed_every_so_many_steps():
    play = Play(envs=8, replay_start=16, target_period=40, concurrent=False)
    renewed = []
    for _ in range(17):
        play.round()
        while play.memory.hold():
            play.updates()
        renewed.append(play.learner.renewed - 1)
    # The steps until the start count for no period: 8 with the last of them, then 40 in each five rounds.
    assert renewed == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 2


# With CONCURRENT=1


def in_a_window(**settings):
    """Just when a window of 40 steps begins that has updates to make."""
    play = Play(**{"envs": 8, "replay_start": 16, "concurrent": True, **settings})
    while play.memory._granted - play.memory._made < 10:
        assert play.drawable() < 200, "no window has so many updates"
        play.updates()
        play.memory.hold()
        play.round()
    return play


def test_a_window_has_as_many_updates_as_the_steps_before_it_gave():
    play = in_a_window()
    assert play.learner.acts_by_target is True
    assert play.memory._granted - play.memory._made == 40 // 4


def test_the_memory_does_not_change_while_a_window_is_played():
    play = in_a_window()
    before, renewed, told = play.drawable(), play.learner.renewed, play.room
    for _ in range(4):  # one round is there
        assert not play.memory.hold()
        assert not play.memory.full
        assert play.drawable() == before
        play.round()
    # The steps are played, and their updates are not done.
    assert play.memory.hold()
    assert play.memory.full
    for left in range(9, -1, -1):
        assert play.drawable() == before
        assert play.learner.renewed == renewed
        assert play.memory.hold()
        assert play.updates(1) == 1
        assert play.room == told + (not left)
    assert not play.memory.full
    assert not play.memory.hold()
    assert play.drawable() == before + 40
    assert play.learner.renewed == renewed + 1
    assert play.memory._granted - play.memory._made == 10


def test_updates_that_are_done_early_wait_for_the_steps():
    play = in_a_window()
    renewed = play.learner.renewed
    assert play.updates() == 10
    before = play.drawable()
    for _ in range(4):
        assert not play.memory.hold()
        assert play.memory.take() is None
        assert (play.drawable(), play.learner.renewed) == (before, renewed)
        play.round()
    assert not play.memory.hold()
    assert (play.drawable(), play.learner.renewed) == (before + 40, renewed + 1)


@pytest.mark.parametrize("concurrent", [False, True])
def test_what_is_drawn_does_not_depend_on_who_was_faster(concurrent):
    """Neither on the order in which experiences arrive, nor on when updates are made in a window."""

    def drawn(shuffle, late):
        random = np.random.default_rng(shuffle)
        play = Play(agents=3, envs=4, concurrent=concurrent, n_step=3, replay_start=48, target_period=48)
        found = []
        for _ in range(40):
            while play.memory.hold():
                found.append(play.memory.take())
                found[-1] = [numbers.clone() for numbers in found[-1]]
                play.memory.learned(found[-1], 0)
            if concurrent and not late:
                while (batch := play.memory.take()) is not None:
                    found.append([numbers.clone() for numbers in batch])
                    play.memory.learned(batch, 0)
            made = [play.experience(agent, env) for agent in play.agents for env in range(4)]
            order = random.permutation(len(made)) if shuffle else range(len(made))
            for place in order:
                play.memory.add([made[place]])
        return found

    wanted = drawn(0, late=False)
    assert len(wanted) > 50
    for shuffle in (0, 1, 2):
        for one, other in zip(wanted, drawn(shuffle, late=True), strict=False):
            assert all(map(torch.equal, one, other))


# Updates that fail


@pytest.mark.parametrize("concurrent", [False, True])
def test_an_update_that_was_not_applied_counts_as_made(concurrent):
    play = in_a_window(concurrent=True) if concurrent else Play(envs=8, replay_start=8)
    rounds = 0
    while play.memory._made < 50:
        while (batch := play.memory.take()) is not None:
            play.memory.dropped(batch, "lost_steps")
        assert not play.memory.hold() or play.memory._made < play.memory._granted
        play.round()
        rounds += 1
        assert rounds < 200
    assert play.stats.totals.lost_steps == 0  # the steps are still there


class Broken:
    """A model whose gradients are no use."""

    measures_pixels = False
    updates = 0
    target = SimpleNamespace(weights=None)
    device = torch.device("cpu")
    network = SimpleNamespace(spec=SPEC)

    def __init__(self, error=None):
        self.error = error

    def gradient(self, loss):
        if self.error:
            raise self.error
        return 0, torch.full((2,), torch.nan), Loss(torch.tensor(torch.nan), {})


def broken_trainer(play, error=None):
    return Trainer(play.config, None, Broken(error), play.memory, play.stats, BadUpdates())


def test_bad_updates_in_a_row_end_the_run_and_never_the_patience_of_who_waits():
    play = in_a_window()
    with pytest.raises(UpdatesNotFinite):
        broken_trainer(play).run(play.memory.consumer())
    assert play.stats.totals.bad_updates == BAD_UPDATES_IN_A_ROW
    assert play.memory._taken == play.memory._made  # none is owed
    assert play.end().unaccounted_steps == 0


def test_a_trainer_that_fails_owes_nothing():
    play = in_a_window()
    with pytest.raises(RuntimeError, match="out of memory"):
        broken_trainer(play, RuntimeError("out of memory")).train(play.memory.take())
    assert play.memory._taken == play.memory._made
    assert play.updates() == 9
    assert play.end().unaccounted_steps == 0


# Threads


def loop(consumer, body=lambda batch: None):
    thread = threading.Thread(target=lambda: [body(batch) for batch in consumer], daemon=True)
    thread.start()
    return thread


def ends(thread):
    thread.join(10)
    return not thread.is_alive()


@pytest.mark.parametrize("who", ["memory", "consumer"])
def test_closing_ends_the_loop_of_who_waits(who):
    play = Play()
    consumer = play.memory.consumer()
    waiting = loop(consumer)
    (play.memory if who == "memory" else consumer).close()
    assert ends(waiting)


def test_a_consumer_made_after_close_ends_at_once():
    play = in_a_window()
    play.memory.close()
    assert list(play.memory.consumer()) == []
    assert play.memory.take() is None


def test_a_trainer_that_waits_is_woken_by_what_is_granted():
    play = Play(envs=8, replay_start=16)
    trained = []

    def learn(batch):
        trained.append(len(batch))
        play.memory.learned(batch, 0)

    thread = loop(play.memory.consumer(), learn)
    for _ in range(10):
        play.round()
        wait_until(lambda: not play.memory.hold())
    play.memory.close()
    assert ends(thread)
    assert trained == [8] * (10 - 1) * 2


# Steps and agents


def test_a_step_ends_when_it_is_stored():
    play = in_a_window()
    totals = play.stats.totals
    assert totals.stored_steps == play.drawable()
    under_way = totals.under_way
    assert under_way == len(play.memory) == totals.steps - totals.stored_steps == 8
    assert {gap.end - gap.first_step for gap in play.stats.ledger.gaps()} == {1}
    totals = play.end()
    assert totals.lost_steps == under_way  # the window that was cut
    assert totals.steps == totals.stored_steps + totals.lost_steps
    assert totals.unaccounted_steps == 0


def test_what_a_checkpoint_keeps_is_what_was_not_stored():
    play = in_a_window()
    arrived = play.memory.state()
    assert [experience.steps for experience in arrived] == [1] * 8
    play.memory.hold()
    assert play.memory.state() == arrived
    play.updates()
    for _ in range(4):
        play.round()
    play.memory.hold()
    assert play.memory.state() == []


def test_an_agent_that_left_leaves_what_is_complete():
    play = Play(agents=2, envs=2, n_step=3, replay_start=1000)
    for _ in range(5):
        play.memory.add([play.experience(agent, env) for agent in play.agents for env in range(2)])
        play.memory.hold()
    assert play.drawable() == 4 * 2  # of five steps two have three steps after them
    assert play.memory._ring.lanes.pending == 4 * 3
    play.memory.forget(1)
    play.stats.ledger.leave(1)
    assert play.memory._ring.lanes.pending == 4 * 3  # only between windows
    play.memory.hold()
    assert play.memory._ring.lanes.pending == 2 * 3
    assert play.memory._ring.dropped == 2 * 3
    # Another one has its place, and a number of its own; nobody waits for who is gone.
    play.join(2)
    for _ in range(5):
        play.memory.add([play.experience(agent, env) for agent in (0, 2) for env in range(2)])
        assert not play.memory.hold()
    assert play.drawable() == 2 * 7 + 2 * 2 + 2 * 2
    play.agents = (0, 2)
    totals = play.end()
    assert (totals.lost_steps, totals.unaccounted_steps) == (0, 0)
    assert totals.stored_steps == totals.steps == 40


def test_a_window_ends_although_an_agent_of_it_left():
    play = in_a_window(agents=2, envs=4)
    play.memory.forget(1)
    lost = play.stats.ledger.leave(1)
    play.updates()
    before = play.drawable()
    for _ in range(8):  # all the steps are of the other one, so it takes twice as many rounds
        assert not play.memory.hold()
        assert play.drawable() == before
        play.round(agents=[0])
    assert not play.memory.hold()
    assert play.drawable() == before + 40
    play.agents = [0]
    totals = play.end()
    assert (lost, totals.lost_steps, totals.unaccounted_steps) == (0, 0, 0)


# What is shown


def test_gauges_tell_how_full_it_is_and_what_is_asked_for():
    play = Play(envs=10, replay_steps=100, replay_start=10, batch=16, train_period=4)
    assert play.stats.gauges == {"memory_full": 0.0, "replay_ratio_asked": 4.0}
    for _ in range(5):
        play.round()
        while play.memory.hold():
            play.updates()
    assert play.stats.gauges["memory_full"] == 0.5
    for _ in range(8):
        play.round()
        while play.memory.hold():
            play.updates()
    assert play.stats.gauges["memory_full"] == 1.0
