"""Experiences: what may stand in their fields, and those of older checkpoints."""

import numpy as np
import pytest

from ga3c.algorithms.rule import make_acting
from ga3c.games.spec import Box, Discrete, EnvSpec
from ga3c.memory.experience import Field, action_field, load_experience
from ga3c.settings.config import Resolved

SPEC = EnvSpec(frame=(2,), stack=1, dtype="float32", action=Discrete(3))


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ([0, 1, 2], ""),
        ([-0.5, 2.0, 2.0], ""),
        ([0, 0, -0.51], "marks below -0.5"),
        ([0, 2.01, 0], "marks above 2"),
        ([0, np.nan, 0], "marks that are not finite"),
        ([np.inf, 0, 0], "marks that are not finite"),
        ([-9, 9, 0], "marks below -0.5"),
    ],
)
def test_what_is_wrong_with_the_numbers_of_a_field(numbers, wrong):
    assert Field("marks", "<f4", low=-0.5, high=2).misfit(np.array(numbers, dtype=np.float32)) == wrong


def test_a_field_without_bounds_takes_all_that_is_finite():
    field = Field("marks", "<f4", (2,))
    largest = np.finfo(np.float32).max
    assert field.misfit(np.array([[largest, -largest], [0, 0]], dtype=np.float32)) == ""
    assert field.misfit(np.array([[0, 0], [0, -np.inf]], dtype=np.float32)) == "marks that are not finite"
    assert Field("marks", "<i8").misfit(np.array([2**63 - 1, -(2**63)])) == ""


def test_the_field_of_actions_is_that_of_the_games():
    one_of = action_field(Discrete(3))
    assert [one_of.misfit(np.array([action], dtype=one_of.dtype)) for action in (0, 2, 3, -1)] == [
        "",
        "",
        "actions above 2",
        "actions below 0",
    ]
    array = action_field(Box((2,), -1.0, 0.5))
    assert array.shape == (2,)
    assert array.misfit(np.array([[-1, 0.5]], dtype=array.dtype)) == ""
    assert array.misfit(np.array([[-1, 0.6]], dtype=array.dtype)) == "actions above 0.5"


def flat(**changes):
    """An experience as a checkpoint of format 4 has it, where nothing was corrected."""
    return {
        "agent": 3,
        "env": 1,
        "first_step": 40,
        "version": 7,
        "frames": np.zeros((2, 2), np.float32),
        "actions": np.array([0, 2], np.int32),
        "returns": np.array([1.5, -1], np.float32),
        "rewards": None,
        "chances": None,
        "terminated": False,
        **changes,
    }


@pytest.mark.parametrize("corrected", [False, True])
def test_an_experience_of_a_checkpoint_of_format_4_is_loaded(corrected):
    correction = {
        "rewards": np.array([1, 0], np.float32),
        "chances": np.array([0.5, 0.25], np.float32),
        "frames": np.zeros((3, 2), np.float32),
        "terminated": True,
    }
    state = flat(**(correction if corrected else {}))
    schema = make_acting(Resolved(correction="vtrace" if corrected else "none"), SPEC).schema
    experience = load_experience(state, schema)
    assert (experience.agent, experience.env, experience.first_step, experience.version) == (3, 1, 40, 7)
    assert (experience.steps, experience.terminated) == (2, corrected)
    assert experience.frames is state["frames"]
    names = ["actions", "returns", "rewards", "chances"] if corrected else ["actions", "returns"]
    assert set(experience.fields) == set(names)
    for name in names:
        assert experience.fields[name] is state[name]


def test_an_experience_of_a_checkpoint_of_today_is_loaded():
    schema = make_acting(Resolved(correction="none"), SPEC).schema
    experience = load_experience(flat(), schema)
    again = load_experience(vars(experience), schema)
    assert vars(again) == vars(experience)
