"""How many agents there are to be: one thread wants them, another one gives up what cannot be had."""

import time

import pytest

from ga3c.agents.crew import Agents, AgentsKeepDying
from ga3c.agents.places.local import LocalPlace
from ga3c.memory.stats import Stats
from ga3c.messages.member import Member
from ga3c.runs.resolve import probe, resolve
from ga3c.settings.config import Config

pytestmark = pytest.mark.processes


class Counterpart:
    """Whoever was let in plays at once."""

    def admit(self, agent, envs):
        pass

    def member(self, agent):
        return Member(played=1)

    def stop_agent(self, agent):
        pass

    def dismiss(self, agent):
        return 0


class Full:
    """A place that refuses the third agent; ``meanwhile`` is what another thread does at that moment."""

    def __init__(self, meanwhile=lambda: None):
        self.meanwhile = meanwhile
        self.started = 0

    def start(self, number, task):
        if self.started == 2:
            self.meanwhile()
            raise BlockingIOError("no more processes")
        self.started += 1
        return LocalPlace().start(number, task)


@pytest.fixture
def agents():
    config = Config(game="CartPole-v1", agents=2)
    agents = Agents(
        resolve(config, probe(config)), Counterpart(), Stats(), lambda number: (time.sleep, (60,)), place=Full()
    )
    agents.want(2)
    agents.tend()
    yield agents
    agents.stop(0)


def test_more_than_there_can_be_is_given_up(agents):
    agents.want(3)
    agents.tend()
    assert (agents.wanted, agents.crew.playing) == (3, 2)
    assert "no more processes" in agents.refusal
    agents.want(2)
    assert agents.refusal == ""


def test_what_is_wanted_while_more_is_given_up_is_not_given_up_with_it(agents):
    agents._supervision._place.meanwhile = lambda: agents.want(2)
    agents.want(3)
    agents.tend()
    assert (agents.wanted, agents.refusal, agents.crew.playing) == (2, "", 2)


def test_fewer_than_ever_played_are_no_attempt_that_could_be_given_up(agents):
    agents._supervision.end()
    with pytest.raises(AgentsKeepDying, match="no more processes"):
        agents.tend()
