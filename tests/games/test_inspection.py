"""What ``check`` finds in an environment that is wrong in one way, and what it measures in one that is right."""

import contextlib
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from ga3c.games.inspection import MIND, OK, WRONG, Broken, Inspection
from ga3c.games.measuring import Advice, measure
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError

GAME = "ga3c-tests/Checked-v0"
TEN = 10  # steps of a game


class Right(gymnasium.Env):
    """Counts its steps. Each fault below changes one thing."""

    observation_space = Box(-1, 1, (2,))
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.observe(), {}

    def step(self, action):
        self.at += 1
        return self.observe(), self.reward(), self.at == self.length(), False, {}

    def observe(self):
        return np.array([self.at / 1000, self.np_random.random()], np.float32)

    def reward(self):
        return float(self.at == 3)

    def length(self):
        return int(self.np_random.integers(self.at, TEN + 1))


@pytest.fixture
def made():
    """Registers an environment of which these attributes are others."""

    def make(limit=100, **changed):
        gymnasium.register(GAME, type("Changed", (Right,), changed), max_episode_steps=limit)

    yield make
    gymnasium.registry.pop(GAME, None)


def inspect(steps=60):
    """What is found, as (kind, subject, text)."""
    found = []
    with contextlib.suppress(Broken):
        Inspection(Config(game=GAME), found.append, lambda doing: None).run(steps, seconds=20)
    return found


def wrong(kind=WRONG):
    return [f"{finding.subject}: {finding.text}" for finding in inspect() if finding.kind == kind]


def test_nothing_is_wrong_with_what_is_right(made):
    made()
    assert {finding.kind for finding in inspect()} == {OK}


SHOWS = {
    "shape": (lambda self: np.zeros(3, np.float32), "observation: has the shape (3,) instead of (2,) in reset"),
    "type": (lambda self: np.zeros(2, complex), "observation: is of complex128, which are no numbers"),
    "not finite": (lambda self: np.full(2, np.nan, np.float32), "observation: is not finite in reset"),
}


@pytest.mark.parametrize("fault", SHOWS)
def test_observations_that_do_not_fit_are_wrong(made, fault):
    observe, said = SHOWS[fault]
    made(observe=observe)
    assert said in wrong()


def test_whole_numbers_that_are_not_whole_are_wrong(made):
    made(observation_space=Box(0, 9, (2,), np.int64))
    assert "observation: is of float32, and its space of int64" in wrong()


def test_more_digits_than_the_space_has_are_only_told(made):
    made(observe=lambda self: np.zeros(2, np.float64))
    assert wrong() == []
    assert "observation: is of float64, and its space of float32" in wrong(MIND)


def test_numbers_beyond_the_bounds_are_told_and_those_of_an_image_are_wrong(made):
    made(observe=lambda self: np.full(2, 2, np.float32))
    assert wrong() == []
    assert "observation: leaves the bounds of its space in reset" in wrong(MIND)
    gymnasium.registry.pop(GAME)
    made(observation_space=Box(0, 9, (6, 6), np.uint8), observe=lambda self: np.full((6, 6), 10, np.uint8))
    assert "observation: leaves the bounds of its space in reset" in wrong()


def test_large_numbers_are_told(made):
    made(observation_space=Box(-np.inf, np.inf, (2,)), observe=lambda self: np.array([-1e4, 3], np.float32))
    (said,) = wrong(MIND)
    assert said.startswith("observation: had numbers from -10000 to 3: scale them")


def test_parts_are_named(made):
    space = Dict({"a": Box(-1, 1, (2,)), "b": Discrete(3)})
    made(observation_space=space, observe=lambda self: {"b": 3})
    assert wrong() == [
        "observation: has no 'a' in reset",
        "observation: 'b' is not in Discrete(3): 3 in reset",
        "observation: has no 'a' in step",
        "observation: 'b' is not in Discrete(3): 3 in step",
    ]


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (float("nan"), "is not finite: nan"),
        (None, "is of type NoneType, not a number"),
        (np.ones(1), "is of type ndarray, not a number"),
    ],
)
def test_rewards_that_are_no_numbers_are_wrong(made, reward, said):
    made(reward=lambda self: reward)
    assert wrong() == [f"reward: {said}"]


def test_the_old_way_to_return_a_step_is_named(made):
    made(step=lambda self, action: (self.observe(), 0.0, False, {}))
    (said,) = wrong()
    assert said.startswith("step: returns (ndarray, float, bool, dict), as the old Gym did, instead of (observation,")


def test_a_reset_without_info_is_named(made):
    made(reset=lambda self, seed=None, options=None: np.zeros(2, np.float32))
    assert wrong() == ["reset: returns a ndarray instead of (observation, info)"]


def test_an_exception_is_told_with_its_place(made):
    def step(self, action):
        raise KeyError("a level that is not there")

    made(step=step)
    (said,) = wrong()
    assert said.startswith("step: raised KeyError: 'a level that is not there' (")
    assert "test_inspection.py, line" in said


def test_flags_of_another_type_are_told(made):
    made(step=lambda self, action: (self.observe(), 0.0, 0, False, {}))
    assert "step: terminated is of type int, not bool" in wrong(MIND)


def test_a_seed_that_decides_nothing_is_told(made):
    chance = np.random.default_rng()
    made(observe=lambda self: chance.random(2, np.float32))
    (said,) = wrong(MIND)
    assert said.startswith("seed: the same seed and actions gave something else")


def test_a_game_that_remembers_the_one_before_is_told(made):
    def observe(self):
        self.shown = getattr(self, "shown", 0) + 1e-4
        return np.full(2, self.shown, np.float32)

    made(observe=observe)
    (said,) = wrong(MIND)
    assert said.startswith("seed: a game before has an effect on the next one")


def test_warnings_are_told_once_and_without_colours(made):
    def length(self):
        warnings.warn("\x1b[33mWARN: it is slippery\x1b[0m", stacklevel=1)
        return TEN

    made(length=length)
    assert wrong(MIND) == ["warning: it is slippery"]


def test_actions_that_cannot_be_taken_are_told_as_by_a_run(made):
    made(action_space=Box(-1, 1, (1,)))
    with pytest.raises(ConfigError, match="DiscretizeAction"):
        inspect()


def advised(limit=None, steps=400, config=None, **changed):
    config = config or Config(game=GAME)
    measured = measure(config, steps, 20, lambda doing: None)
    for name, value in changed.items():
        setattr(measured, name, value)
    advice = Advice(config, measured, limit)
    return {f"{finding.kind} {finding.subject}": finding.text for finding in advice.findings()}, advice.settings


def test_what_is_measured(made):
    made()
    found, settings = advised()
    assert found["ok network"] == "2 numbers: NETWORK=mlp"
    assert "steps/s on a core" in found["ok speed"]
    assert settings["ENVS_PER_AGENT"] in ("4", "8", "16", "32")
    assert "truncated) after " in found["ok games"]
    assert "played by chance they scored " in found["ok games"]
    assert found["ok rewards"].startswith("1 to 1, in ")
    assert "REWARD_CLIP" not in settings


def test_a_reward_in_every_step_wants_another_clip(made):
    made(reward=lambda self: 1.0)
    found, settings = advised()
    assert found["ok rewards"] == "1 to 1, in 100 % of the steps: REWARD_CLIP=0.1 keeps the values small"
    assert settings["REWARD_CLIP"] == "0.1"


@pytest.mark.parametrize(
    ("reward", "kind", "said"),
    [
        (lambda self: 0.0, "mind", "all were 0: learning begins when play by chance meets the first one"),
        (lambda self: 0.01 * (self.at == 1), "mind", "small beside the entropy bonus"),
        (lambda self: [100.0, 0.5][self.at % 2], "mind", "50 % of these are beyond ±1 and count as 1"),
        (lambda self: 50.0 * (self.at == 1), "ok", "50 to 50, in "),
    ],
)
def test_rewards_are_judged(made, reward, kind, said):
    made(reward=reward, length=lambda self: TEN)
    found, _ = advised(steps=400)
    assert said in found[f"{kind} rewards"]


def test_rewards_that_hardly_ever_come_want_more_entropy(made):
    made(reward=lambda self: float(self.at == 300), limit=400, length=lambda self: -1)
    found, settings = advised(steps=4000)
    assert found["ok rewards"].endswith(" % of the steps: BETA=0.01 keeps all actions alive until they are met often")
    assert settings["BETA"] == "0.01"


def test_games_that_never_end_are_told(made):
    made(limit=None, length=lambda self: -1)
    assert "max_episode_steps" in advised()[0]["mind games"]
    assert advised(limit=1000)[0]["ok games"].endswith("they are truncated after 1,000")


def test_a_time_limit_that_is_told_as_an_end_is_noticed(made):
    made(length=lambda self: TEN)
    assert advised()[0]["mind games"] == "all were terminated after 10 steps: a time limit is to be told as truncated"


def test_long_games_with_rare_rewards_want_a_larger_discount(made):
    made(limit=900, length=lambda self: -1)
    found, settings = advised(steps=4000)
    assert (found["ok discount"], settings["DISCOUNT"]) == ("games are long and rewards rare: DISCOUNT=0.996", "0.996")


def test_slow_steps_want_more_patience(made):
    made()
    assert advised(slowest=12.0)[1]["STALL_SECONDS"] == "120"


def test_of_ale_only_speed_and_games_are_told():
    found, settings = advised(config=Config(game="Pong"), steps=8)
    assert "ENVS_PER_AGENT" not in settings
    assert found["ok network"].startswith("images of 84×84, 4 of them stacked: NETWORK=small; COLOR=1")
