"""The player: K environments that act on predictions. Never imports torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ga3c.algorithms.rule import Acting, make_acting
from ga3c.games.make import make_games, make_seed
from ga3c.games.spec import Playable
from ga3c.memory.rollout import Rollout
from ga3c.memory.turn import Reply, Request, Turn
from ga3c.settings.config import Resolved


class Half(NamedTuple):
    """Environments of an agent that play in step: one half plays while the other waits."""

    number: int
    envs: int
    first_env: int  # its number within the agent


class Player:
    """Plays the environments of one half of an agent.

    It knows nothing of those who predict: ``begin`` and ``play`` give the turn whose request ``play`` takes the reply
    of next.
    """

    def __init__(self, config: Resolved, games: Playable, acting: Acting, *, agent: int, half: Half) -> None:
        self.acting = acting
        self._config, self._half, self._first_env = config, half.number, half.first_env
        self._random = np.random.default_rng([config.seed, agent, half.number])
        self._games = games
        self._observations = np.empty(0)
        self._enrol(agent)

    def _enrol(self, agent: int) -> None:
        self._agent = agent
        self._rollout = Rollout(
            self._games.spec,
            self._games.count,
            self.acting,
            t_max=self._config.t_max,
            reward_clip=self._config.reward_clip,
            agent=agent,
            first_env=self._first_env,
            spread=True,
        )

    def begin(self, observations: np.ndarray) -> Turn:
        """Ask for the first prediction: of what the environments show."""
        self._observations = observations
        return Turn(self._request(real=bytes(len(observations))))

    def rejoin(self, agent: int) -> Turn:
        """Go on under another number: the games stay as they are, the steps of experiences under way are lost."""
        self._enrol(agent)
        return Turn(self._request(real=bytes(len(self._observations))))

    def play(self, reply: Reply) -> Turn:
        """Finish the experiences that the reply completes, act on it, and ask for the next one.

        A reply is for the observations that the last step reached. So what a rule that bootstraps needs of these to
        end an experience comes a turn after its last step, with the prediction that is needed anyway.
        """
        outputs = reply.outputs
        experiences = self._rollout.finish(outputs) if self.acting.bootstraps else ()
        actions, kept = self.acting.act(outputs, self._random)
        played = self._games.step(actions)
        self._rollout.record(self._observations, actions, kept, reply.version, played)
        self._observations = played.observations
        if not self.acting.bootstraps:
            experiences = self._rollout.finish()
        return Turn(self._request(played.real.tobytes()), experiences, played.finished)

    def close(self) -> None:
        self._games.close()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, but for the environments."""
        return {"random": self._random.bit_generator.state, "tracks": self._rollout.state()}

    def load(self, state: dict[str, Any], cut: list[int]) -> None:
        """Go on from there, with these environments' episodes cut short."""
        self._random.bit_generator.state = state["random"]
        self._rollout.load(state["tracks"], cut)

    def _request(self, real: bytes) -> Request:
        return Request(self._agent, self._half, self._first_env, real, self._observations)


def halves(config: Resolved) -> list[Half]:
    """The halves of an agent: two, or one where there is a single environment, or where all play in step."""
    envs = config.envs_per_agent
    if envs == 1 or config.in_step:
        return [Half(0, envs, 0)]
    first = envs - envs // 2
    return [Half(0, first, 0), Half(1, envs - first, first)]


def begin_players(config: Resolved, agent: int) -> list[tuple[Player, Turn]]:
    """The halves of one agent with their first turns.

    No turn goes before all are made: that takes seconds, and a prediction that waits for it would be old by then.
    """
    begun = []
    for half in halves(config):
        games = make_games(config, half.envs)
        player = Player(config, games, make_acting(config, games.spec), agent=agent, half=half)
        observations = games.reset(make_seed(config.seed, agent, half.number), config.stagger)
        begun.append((player, player.begin(observations)))
    return begun
