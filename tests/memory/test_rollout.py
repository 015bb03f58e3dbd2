"""Experiences and returns: by hand, against a scripted environment, and against a referee over long random play."""

import math
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from ga3c.algorithms.actor_critic.acting import n_step_returns
from ga3c.algorithms.rule import make_acting
from ga3c.games.gym import GymGames
from ga3c.games.make import make_games
from ga3c.games.spec import Box, Discrete, EnvSpec, Played
from ga3c.memory.experience import Field, Schema, action_field
from ga3c.memory.rollout import Rollout, StepsNotFinite
from ga3c.settings.config import Config, Resolved

SPEC = EnvSpec(frame=(2, 2), stack=3, dtype="uint8", action=Discrete(9))


def make_rule(spec=SPEC, *, discount=0.5, corrected=False):
    return make_acting(Resolved(discount=discount, correction="vtrace" if corrected else "none"), spec)


def make_rollout(count=1, rule=None, spec=SPEC, **changes):
    settings = {"t_max": 5, "reward_clip": 0.0, **changes}
    return Rollout(spec, count, rule or make_rule(spec), **settings)


def outputs(values, spec=SPEC):
    """Predictions with these values."""
    return np.column_stack([np.full((len(values), spec.action.n), 1 / spec.action.n), values])


def observation(*numbers):
    """One environment's observation: a stack of frames, each filled with its number."""
    return np.stack([np.full(SPEC.frame, number, dtype=SPEC.dtype) for number in numbers])[None]


def unfinished(rollout):
    """Steps that are in no experience yet."""
    return sum(map(len, rollout._tracks))


def played(reward, *, terminated=False, truncated=False, real=True):
    """One step of one environment. Its observation is of no interest to a rollout."""
    return Played(
        observations=observation(0, 0, 0),
        rewards=np.array([reward], dtype=np.float32),
        terminated=np.array([terminated]),
        truncated=np.array([truncated]),
        real=np.array([real]),
        finished=(),
    )


def play(rollout, steps, *, value=0.0, version=0):
    """Record the steps in turn (action i on observation (i, i+1, i+2)); returns all experiences that got complete."""
    experiences = []
    for i, step in enumerate(steps):
        rollout.record(observation(i, i + 1, i + 2), np.array([i]), {}, version, step)
        experiences += rollout.finish(outputs([value]))
    return experiences


# By hand, with γ = ½


def test_returns_with_a_bootstrap():
    # R₂ = 2 + ½·4 = 4, R₁ = 0 + ½·4 = 2, R₀ = 1 + ½·2 = 2
    np.testing.assert_array_equal(n_step_returns(np.array([1.0, 0.0, 2.0]), 4.0, 0.5), [2.0, 2.0, 4.0])


def test_returns_without_a_bootstrap():
    # R₂ = 2, R₁ = ½·2 = 1, R₀ = 1 + ½·1 = 1.5
    np.testing.assert_array_equal(n_step_returns(np.array([1.0, 0.0, 2.0]), 0.0, 0.5), [1.5, 1.0, 2.0])


def test_experiences_are_cut_at_t_max():
    rollout = make_rollout(t_max=2)
    first, second = play(rollout, [played(r) for r in (1, 2, 3, 4, 5)], value=8.0)
    # (1 + ½·6, 2 + ½·8) and (3 + ½·8, 4 + ½·8): the bootstrap is V of the observation after the second step.
    np.testing.assert_array_equal(first.fields["returns"], [4.0, 6.0])
    np.testing.assert_array_equal(second.fields["returns"], [7.0, 8.0])
    assert [list(first.fields["actions"]), list(second.fields["actions"])] == [[0, 1], [2, 3]]
    assert unfinished(rollout) == 1


def test_the_bootstrap_is_the_value_that_comes_after_the_last_step():
    rollout = make_rollout(t_max=2)
    for i, value in enumerate([100.0, 8.0]):
        rollout.record(observation(0, 0, 0), np.array([i]), {}, 0, played(1))
        experiences = rollout.finish(outputs([value]))
    np.testing.assert_array_equal(experiences[0].fields["returns"], [1 + 0.5 * 5, 1 + 0.5 * 8])


def test_the_terminal_step_is_trained():
    # A game whose only reward comes with its end, such as a lost ball: without the last step it would never be seen.
    (experience,) = play(make_rollout(), [played(0), played(0), played(-1, terminated=True)], value=7.0)
    assert list(experience.fields["actions"]) == [0, 1, 2]
    np.testing.assert_array_equal(experience.fields["returns"], [-0.25, -0.5, -1.0])
    assert list(experience.fields["actions"]) != [0, 1]  # the original GA3C drops the terminal step


def test_termination_bootstraps_nothing_also_exactly_at_t_max():
    (experience,) = play(make_rollout(t_max=2), [played(1), played(1, terminated=True)], value=7.0)
    np.testing.assert_array_equal(experience.fields["returns"], [1.5, 1.0])


def test_an_episode_of_one_step():
    (experience,) = play(make_rollout(), [played(3, terminated=True)], value=7.0)
    np.testing.assert_array_equal(experience.fields["returns"], [3.0])


def test_truncation_bootstraps_the_value_of_the_observation_reached():
    (experience,) = play(make_rollout(), [played(1), played(1, truncated=True)], value=6.0)
    np.testing.assert_array_equal(experience.fields["returns"], [1 + 0.5 * 4, 1 + 0.5 * 6])
    assert list(experience.fields["returns"]) != [1.5, 1.0]  # what a termination would give


def test_the_autoreset_step_is_no_data():
    rollout = make_rollout()
    steps = [played(1), played(1, terminated=True), played(50, real=False), played(2), played(2, terminated=True)]
    first, second = play(rollout, steps, value=7.0)
    assert [list(first.fields["actions"]), list(second.fields["actions"])] == [[0, 1], [3, 4]]
    np.testing.assert_array_equal(second.fields["returns"], [3.0, 2.0])
    assert (first.first_step, second.first_step) == (0, 2)  # and it has no number
    assert list(second.frames[:, 0, 0]) == [3, 4, 5, 6]  # observations (3, 4, 5) and (4, 5, 6)
    assert unfinished(rollout) == 0


def test_the_flags_of_an_autoreset_step_mean_nothing():
    rollout = make_rollout()
    play(rollout, [played(1, terminated=True)])
    assert play(rollout, [played(0, real=False, terminated=True), played(1)]) == []
    assert unfinished(rollout) == 1


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(
    ("reward", "value", "clip"),
    [(math.nan, 0.0, 1.0), (math.nan, 0.0, 0.0), (math.inf, 0.0, 0.0), (0.0, math.nan, 1.0), (0.0, -math.inf, 1.0)],
)
def test_numbers_that_are_not_finite_end_it(reward, value, clip, corrected):
    # A reward that is no number, clipped to one, would train silently.
    rollout = make_rollout(rule=make_rule(corrected=corrected), t_max=2, reward_clip=clip)
    for step in (played(reward), played(0)):
        rollout.record(observation(0, 1, 2), np.array([0]), {"chances": [0.5]} if corrected else {}, 0, step)
    with pytest.raises(StepsNotFinite, match="returns that are not finite"):
        rollout.finish(outputs([value]))


def test_a_value_that_nothing_is_bootstrapped_with_may_be_anything():
    (experience,) = play(make_rollout(), [played(3, terminated=True)], value=math.nan)
    np.testing.assert_array_equal(experience.fields["returns"], [3.0])


@pytest.mark.parametrize(
    ("clip", "clipped"), [(1.0, [1.0, -1.0, 0.5, 0.0]), (2.0, [2.0, -2.0, 0.5, 0.0]), (0.0, [3.0, -7.0, 0.5, 0.0])]
)
def test_rewards_are_clipped_for_training(clip, clipped):
    # With γ = 0 the returns are the rewards.
    rollout = make_rollout(rule=make_rule(discount=0.0), t_max=4, reward_clip=clip)
    (experience,) = play(rollout, [played(r) for r in (3.0, -7.0, 0.5, 0.0)])
    np.testing.assert_array_equal(experience.fields["returns"], clipped)


def test_the_version_is_that_of_the_oldest_step():
    rollout = make_rollout(t_max=3)
    experiences = []
    for version in (3, 4, 5, 6, 9, 9):
        experiences += play(rollout, [played(0)], version=version)
    assert [experience.version for experience in experiences] == [3, 6]


def test_frames_stand_once_and_give_every_observation():
    (experience,) = play(make_rollout(t_max=4), [played(0)] * 4)
    assert experience.frames.shape == (2 + 4, 2, 2)
    for i in range(4):
        np.testing.assert_array_equal(experience.frames[i : i + 3], observation(i, i + 1, i + 2)[0])


def test_an_experience_does_not_change_when_play_goes_on():
    rollout = make_rollout(t_max=2)
    (first,) = play(rollout, [played(1), played(1)])
    before = [first.frames.copy(), first.fields["actions"].copy(), first.fields["returns"].copy()]
    play(rollout, [played(50)] * 7, value=9.0)
    for old, now in zip(before, (first.frames, *first.fields.values()), strict=True):
        np.testing.assert_array_equal(old, now)


def test_environments_are_numbered_and_do_not_mix():
    rollout = make_rollout(count=2, t_max=3, agent=7, first_env=10)
    observations = np.concatenate([observation(1, 2, 3), observation(11, 12, 13)])
    experiences = []
    for i in range(3):
        step = Played(
            observations=observations,
            rewards=np.array([1.0, 4.0], dtype=np.float32),
            terminated=np.array([False, i == 1]),  # the second ends at its second step
            truncated=np.array([False, False]),
            real=np.array([True, i < 2]),
            finished=(),
        )
        rollout.record(observations, np.array([i, i + 5]), {}, i, step)
        experiences += rollout.finish(outputs([8.0, 200.0]))
    second, first = experiences
    assert (first.agent, first.env, second.agent, second.env) == (7, 10, 7, 11)
    np.testing.assert_array_equal(first.fields["returns"], [1 + 0.5 * 3.5, 1 + 0.5 * 5, 1 + 0.5 * 8])
    np.testing.assert_array_equal(second.fields["returns"], [6.0, 4.0])
    assert [list(first.fields["actions"]), list(second.fields["actions"])] == [[0, 1, 2], [5, 6]]
    assert (first.frames[0, 0, 0], second.frames[0, 0, 0]) == (1, 11)


# A scripted environment behind Gymnasium's own vector environment


class Scripted(gymnasium.Env):
    """Observations are (episode, step) and rewards the step; episode 0 terminates at step 3, episode 1 is truncated at
    step 2, episode 2 terminates at step 1, and so on."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(1000)
    received: tuple[list[int], ...] = ()

    def __init__(self):
        self.episode = -1
        self.actions = []
        Scripted.received += (self.actions,)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.at = 0
        return self._observe(), {}

    def step(self, action):
        self.actions.append(int(action))
        self.at += 1
        terminated = (self.episode % 3, self.at) in ((0, 3), (2, 1))
        truncated = (self.episode % 3, self.at) == (1, 2)
        return self._observe(), float(self.at), terminated, truncated, {}

    def _observe(self):
        return np.array([self.episode, self.at], dtype=np.float32)


@pytest.fixture
def scripted():
    gymnasium.register("ga3c-tests/Scripted-v0", entry_point=Scripted, disable_env_checker=True)
    Scripted.received = ()
    yield "ga3c-tests/Scripted-v0"
    del gymnasium.registry["ga3c-tests/Scripted-v0"]


def values_of(observations):
    """V = 100·episode + step, so that a return tells which observation it was bootstrapped with."""
    return 100 * observations[:, 0, 0] + observations[:, 0, 1]


def test_gymnasium_episodes_become_experiences(scripted):
    games = GymGames(Config(game=scripted), 1)
    rollout = make_rollout(spec=games.spec)
    observations = games.reset(seed=0)
    experiences = []
    for i in range(9):  # 3 + reset + 2 + reset + 1 + reset; the last completes what is before it
        experiences += rollout.finish(outputs(values_of(observations), games.spec))
        step = games.step(np.array([i]))
        rollout.record(observations, np.array([i]), {}, 0, step)
        observations = step.observations
    games.close()
    terminated, truncated, short = experiences
    # Episode 0: R₂ = 3, R₁ = 2 + ½·3, R₀ = 1 + ½·3.5
    np.testing.assert_array_equal(terminated.fields["returns"], [2.75, 3.5, 3.0])
    np.testing.assert_array_equal(terminated.frames, [[0, 0], [0, 1], [0, 2]])
    # Episode 1, truncated at its observation (1, 2), whose value is 102: R₁ = 2 + ½·102, R₀ = 1 + ½·53
    np.testing.assert_array_equal(truncated.fields["returns"], [27.5, 53.0])
    np.testing.assert_array_equal(truncated.frames, [[1, 0], [1, 1]])
    assert truncated.fields["returns"][1] != 2 + 0.5 * 200  # the value of (2, 0), which the reset gave
    assert truncated.fields["returns"][1] != 2.0  # as if it had terminated
    np.testing.assert_array_equal(short.fields["returns"], [1.0])
    np.testing.assert_array_equal(short.frames, [[2, 0]])
    # Steps 3, 6 and 8 only reset; the environment never saw their actions, and neither does the trainer.
    assert Scripted.received[0] == [0, 1, 2, 4, 5, 7]
    assert [action for experience in experiences for action in experience.fields["actions"]] == [0, 1, 2, 4, 5, 7]


# A referee that keeps everything and checks the experiences against it


class Referee:
    """Notes each real step of each environment in full; an experience has to agree with its notes in every number."""

    def __init__(self, count, *, t_max, discount, clip):
        self.t_max, self.discount, self.clip = t_max, discount, clip
        self.steps = [[] for _ in range(count)]
        self.checked = [0] * count
        self.kinds = {"terminated": 0, "truncated": 0, "cut": 0}

    def note(self, observations, actions, policies, version, step, next_values):
        for env, steps in enumerate(self.steps):
            if step.real[env]:
                steps.append(
                    {
                        "observation": observations[env].copy(),
                        "action": int(actions[env]),
                        "version": version,
                        "reward": float(np.clip(step.rewards[env], -self.clip, self.clip)),
                        "end": bool(step.terminated[env]),
                        "cut": bool(step.truncated[env]),
                        "next_value": float(next_values[env]),
                        "next_observation": step.observations[env].copy(),
                        "chance": float(policies[env, actions[env]]),
                    }
                )

    def check(self, experience):
        # No gap and no overlap: each experience begins where the one before it ended.
        assert experience.first_step == self.checked[experience.env]
        self.checked[experience.env] += experience.steps
        steps = self.steps[experience.env][experience.first_step : self.checked[experience.env]]
        assert 1 <= len(steps) == experience.steps <= self.t_max
        # Within one episode, and ended for a reason.
        assert not any(step["end"] or step["cut"] for step in steps[:-1])
        last = steps[-1]
        assert last["end"] or last["cut"] or len(steps) == self.t_max
        self.kinds["terminated" if last["end"] else "truncated" if last["cut"] else "cut"] += 1
        assert experience.version == steps[0]["version"]
        stack = len(last["observation"])
        bootstrap = 0.0 if last["end"] else last["next_value"]
        for i, step in enumerate(steps):
            np.testing.assert_array_equal(experience.frames[i : i + stack], step["observation"])
            assert experience.fields["actions"][i] == step["action"]
            after = [later["reward"] for later in steps[i:]]
            expected = sum(self.discount**k * r for k, r in enumerate(after)) + self.discount ** len(after) * bootstrap
            assert experience.fields["returns"][i] == pytest.approx(expected, rel=1e-5, abs=1e-5)
        # What V-trace needs.
        np.testing.assert_array_equal(experience.frames[len(steps) :], last["next_observation"])
        np.testing.assert_allclose(experience.fields["rewards"], [step["reward"] for step in steps])
        np.testing.assert_allclose(experience.fields["chances"], [step["chance"] for step in steps], rtol=1e-6)
        assert experience.terminated == last["end"]

    def finish(self, rollout):
        """At the end all steps were checked but those under way."""
        assert sum(map(len, self.steps)) - sum(self.checked) == unfinished(rollout)
        assert all(len(steps) - checked <= self.t_max for steps, checked in zip(self.steps, self.checked, strict=True))


def referee_games(games, rounds, *, t_max=5, discount=0.9, clip=1.0):
    """Play these games at random under the eyes of a referee."""
    chance = np.random.default_rng(3)
    rule = make_rule(games.spec, discount=discount, corrected=True)
    rollout = make_rollout(games.count, rule, games.spec, t_max=t_max, reward_clip=clip)
    referee = Referee(games.count, t_max=t_max, discount=discount, clip=clip)
    observations = games.reset(seed=5)
    values = np.zeros(games.count)
    for number in range(rounds):
        policies = chance.dirichlet(np.ones(games.spec.action.n), size=games.count)
        predicted = np.column_stack([policies, values])
        for experience in rollout.finish(predicted):
            referee.check(experience)
        actions, kept = rule.act(predicted, chance)
        step = games.step(actions)
        rollout.record(observations, actions, kept, number // 3, step)
        values = chance.normal(size=games.count)
        referee.note(observations, actions, policies, number // 3, step, values)
        observations = step.observations
    games.close()
    referee.finish(rollout)
    return referee


class Dice:
    """Games of pure chance: random frames, rewards and ends, with a reset on the step after an end."""

    def __init__(self, count, chance):
        self.spec, self.count = SPEC, count
        self._chance = chance
        self._over = np.zeros(count, dtype=bool)

    def reset(self, seed):
        self._stacks = np.zeros((self.count, *self.spec.observation), dtype=np.uint8)
        self._stacks[:, -1] = self._frames()
        return self._stacks.copy()

    def step(self, actions):
        real = ~self._over
        terminated = real & (self._chance.random(self.count) < 0.1)
        truncated = real & ~terminated & (self._chance.random(self.count) < 0.1)
        self._stacks[:, :-1] = self._stacks[:, 1:]
        self._stacks[self._over] = 0
        self._stacks[:, -1] = self._frames()
        self._over = terminated | truncated
        rewards = self._chance.normal(0, 2, size=self.count).astype(np.float32)
        return Played(self._stacks.copy(), rewards, terminated, truncated, real, ())

    def close(self):
        pass

    def _frames(self):
        return self._chance.integers(256, size=(self.count, *self.spec.frame))


@pytest.mark.parametrize("t_max", [1, 2, 5, 20])
def test_long_random_play(t_max):
    referee = referee_games(Dice(4, np.random.default_rng(t_max)), 1500, t_max=t_max)
    assert min(referee.kinds.values()) > 10, referee.kinds
    assert min(referee.checked) > 1000


@pytest.mark.parametrize(("game", "rounds"), [("Pong", 300), ("Breakout", 500)])
def test_atari_play(game, rounds):
    games = make_games(Config(game=game, episodic_life=game == "Breakout"), 3)
    referee = referee_games(games, rounds)
    assert referee.kinds["cut"] > 100
    if game == "Breakout":
        assert referee.kinds["terminated"] > 10  # lives and games
        assert sum(map(len, referee.steps)) < 3 * rounds  # games ended, and their resets were no data


def test_gymnasium_play():
    referee = referee_games(make_games(Config(game="CartPole-v1"), 3), 500)
    ends = referee.kinds["terminated"]
    assert ends > 20
    # After each end a step went to the reset, unless play stopped there.
    resets = 3 * 500 - sum(map(len, referee.steps))
    assert ends <= resets <= ends + 3


def test_staggered_rollouts_end_evenly_spread_from_the_start():
    spec = EnvSpec(frame=(1,), stack=1, dtype="float32", action=Discrete(2))
    rollout = make_rollout(8, spec=spec, t_max=4, spread=True)
    nothing = np.zeros(8, dtype=bool)
    played = Played(np.zeros((8, 1, 1)), np.ones(8, dtype=np.float32), nothing, nothing, ~nothing, ())
    ended = []
    for _ in range(12):
        rollout.record(np.zeros((8, 1, 1)), np.zeros(8, dtype=np.int64), {}, 0, played)
        complete = rollout.finish(outputs(np.zeros(8), spec))
        ended.append([(experience.env, experience.steps) for experience in complete])
    # The first experiences have 1, 1, 2, 2, 3, 3, 4, 4 steps, and all that follow 4: two end at each step.
    assert [len(some) for some in ended] == [2] * 12
    assert ended[:4] == [[(2 * i, i + 1), (2 * i + 1, i + 1)] for i in range(4)]
    assert all(steps == 4 for some in ended[4:] for _, steps in some)


def test_without_a_correction_nothing_is_sent_for_it():
    cut, ended = play(make_rollout(t_max=2), [played(1), played(1), played(1), played(1, terminated=True)])
    for experience in (cut, ended):
        assert experience.fields.keys() == {"actions", "returns"}
        assert len(experience.frames) == SPEC.stack - 1 + experience.steps
    assert (cut.terminated, ended.terminated) == (False, True)


def test_an_action_that_was_drawn_has_a_chance():
    """Rounding may draw one whose probability is 0; what divides by it must not fail."""
    spec = replace(SPEC, action=Discrete(2))
    rule = make_rule(spec, corrected=True)
    predicted = np.array([[0.0, 0.0, 7.0]], dtype=np.float32)  # a sum below every draw
    actions, kept = rule.act(predicted, np.random.default_rng(0))
    assert actions.tolist() == [1]
    rollout = make_rollout(1, rule, spec, t_max=1)
    rollout.record(observation(0, 1, 2), actions, kept, 0, played(1))
    (experience,) = rollout.finish(predicted)
    (chance,) = experience.fields["chances"]
    assert 0 < chance < 1e-5
    (field,) = [field for field in rule.schema.fields if field.name == "chances"]
    assert not field.misfit(experience.fields["chances"])  # so it is taken on the other side


class Counting:
    """A rule with actions that are arrays, which keeps something of its own and learns from nothing but that."""

    schema = Schema((action_field(Box((2,), -1, 1)), Field("marks", "<f4", (2,))), reached=True)

    def finish(self, steps, outputs):
        marks = np.array(steps.kept["marks"], dtype=np.float32)
        marks[-1] += outputs
        return {"actions": np.array(steps.actions, dtype=np.float32), "marks": marks}


def test_a_rule_has_actions_and_fields_of_its_own():
    spec = replace(SPEC, action=Box((2,), -1, 1))
    rollout, chance = make_rollout(rule=Counting(), spec=spec, t_max=2), np.random.default_rng(0)
    steps, experiences = [], []
    for i in range(4):
        step = {"action": chance.uniform(-1, 1, (1, 2)).astype(np.float32), "marks": [[i, 10.0 * i]]}
        rollout.record(observation(i, i + 1, i + 2), step["action"], {"marks": step["marks"]}, 0, played(1))
        experiences += rollout.finish(np.array([[100.0, 1000.0]]))
        steps.append(step)
    for number, experience in enumerate(experiences):
        assert experience.first_step == 2 * number
        own = steps[2 * number : 2 * number + 2]
        assert experience.fields.keys() == {"actions", "marks"}
        np.testing.assert_array_equal(experience.fields["actions"], np.concatenate([step["action"] for step in own]))
        marks = np.array([step["marks"][0] for step in own])
        np.testing.assert_array_equal(experience.fields["marks"], marks + np.array([[0, 0], [100, 1000]]))
    assert len(experiences) == 2


@pytest.mark.parametrize("corrected", [False, True])
def test_steps_under_way_go_on_from_a_state(corrected):
    def record(rollout, number):
        kept = {"chances": [0.25 * (number + 1)]} if corrected else {}
        rollout.record(observation(number, number + 1, number + 2), np.array([number]), kept, number, played(number))

    rule = make_rule(corrected=corrected)
    whole, first, second = (make_rollout(rule=rule, t_max=3) for _ in range(3))
    for number in range(2):
        record(whole, number)
        record(first, number)
    second.load(first.state(), cut=[])
    for rollout in (whole, second):
        record(rollout, 2)
    (expected,), (got,) = whole.finish(outputs([8.0])), second.finish(outputs([8.0]))
    assert got.fields.keys() == expected.fields.keys()
    for name, numbers in expected.fields.items():
        np.testing.assert_array_equal(got.fields[name], numbers)
    np.testing.assert_array_equal(got.frames, expected.frames)
    assert (got.version, got.first_step, got.terminated) == (0, 0, False)


@pytest.mark.parametrize("corrected", [False, True])
def test_steps_under_way_of_a_checkpoint_of_format_4_go_on(corrected):
    """It had the chances beside actions and rewards: a list, empty where nothing was corrected."""
    state = {
        "limit": 3,
        "over": False,
        "terminated": False,
        "version": 6,
        "next_step": 40,
        "frames": np.arange(4 + corrected, dtype=np.uint8)[:, None, None] * np.ones(SPEC.frame, np.uint8),
        "actions": [4, 5],
        "rewards": [1.0, 2.0],
        "chances": [0.5, 0.75] if corrected else [],
    }
    rollout = make_rollout(rule=make_rule(corrected=corrected), t_max=3)
    rollout.load([state], cut=[])
    kept = {"chances": [0.25]} if corrected else {}
    rollout.record(observation(2, 3, 4), np.array([6]), kept, 9, played(4, terminated=True))
    (experience,) = rollout.finish(outputs([100.0]))
    assert (experience.version, experience.first_step, experience.terminated) == (6, 40, True)
    assert experience.fields["actions"].tolist() == [4, 5, 6]
    assert experience.fields["returns"].tolist() == [1 + 0.5 * 4, 2 + 0.5 * 4, 4]
    if corrected:
        assert experience.fields["rewards"].tolist() == [1, 2, 4]
        assert experience.fields["chances"].tolist() == [0.5, 0.75, 0.25]
    shown = [0, 1, 2, 3, 4] + [0] * corrected  # ``played`` reaches zeros
    assert experience.frames[:, 0, 0].tolist() == shown
    assert not rollout.state()[0]["kept"]


def test_an_episode_that_cannot_go_on_is_learnt_as_a_truncated_one():
    rollout, other = make_rollout(t_max=3), make_rollout(t_max=3)
    rollout.record(observation(0, 1, 2), np.array([1]), {}, 0, played(1))
    other.load(rollout.state(), cut=[0])
    (experience,) = other.finish(outputs([6.0]))
    assert experience.fields["returns"].tolist() == [1 + 0.5 * 6]
    assert not experience.terminated
