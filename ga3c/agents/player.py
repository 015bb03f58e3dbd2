"""The player: K environments that act on predictions. Never imports torch."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ga3c.games.make import make_games, make_seed
from ga3c.games.spec import Playable
from ga3c.memory.rollout import Rollout
from ga3c.messages import wire
from ga3c.messages.wire import Header, Kind, Parts, Reply
from ga3c.settings.config import Config


class Half(NamedTuple):
    """Environments of an agent that play in step: one half plays while the other waits."""

    number: int
    envs: int
    first_env: int  # its number within the agent


class Player:
    """Plays the environments of one half of an agent.

    It knows nothing of sockets: ``begin`` and ``play`` give the messages to send, the last of which is the request
    whose reply ``play`` takes next.
    """

    def __init__(self, config: Config, games: Playable, *, run: int, agent: int, half: Half) -> None:
        self._config, self._half, self._first_env = config, half.number, half.first_env
        self._random = np.random.default_rng([config.seed, agent, half.number])
        self._games = games
        self._observations = np.empty(0)
        self._enrol(run, agent)

    def _enrol(self, run: int, agent: int) -> None:
        self._run, self._agent = run, agent
        self._rollout = Rollout(
            self._games.spec,
            self._games.count,
            t_max=self._config.t_max,
            discount=self._config.discount,
            reward_clip=self._config.reward_clip,
            agent=agent,
            first_env=self._first_env,
            stagger=True,
            corrected=self._config.corrected,
        )
        self._request_header = self._header(Kind.REQUEST).pack()

    def begin(self, observations: np.ndarray) -> list[Parts]:
        """Ask for the first prediction: of what the environments show."""
        self._observations = observations
        return [self._request(real=bytes(len(observations)))]

    def rejoin(self, run: int, agent: int) -> list[Parts]:
        """Go on under another number: the games stay as they are, the steps of experiences under way are lost."""
        self._enrol(run, agent)
        return [self._request(real=bytes(len(self._observations)))]

    def play(self, reply: Reply) -> list[Parts]:
        """Finish what the values complete, act on the policies, and ask for the next prediction."""
        messages = [
            wire.encode_experience(self._run, self._half, experience)
            for experience in self._rollout.finish(reply.values)
        ]
        actions = sample(reply.policies, self._random)
        played = self._games.step(actions)
        self._rollout.record(self._observations, actions, reply.version, played)
        if self._config.corrected:
            self._rollout.record_correction(reply.policies, actions, played)
        self._observations = played.observations
        if played.finished:
            messages.append(wire.encode_scores(self._header(Kind.SCORES), played.finished))
        messages.append(self._request(played.real.tobytes()))
        return messages

    def close(self) -> None:
        self._games.close()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, but for the environments."""
        return {"random": self._random.bit_generator.state, "tracks": self._rollout.state()}

    def load(self, state: dict[str, Any], cut: list[int]) -> None:
        """Go on from there, with these environments' episodes cut short."""
        self._random.bit_generator.state = state["random"]
        self._rollout.load(state["tracks"], cut)

    def _header(self, kind: Kind) -> Header:
        return Header(kind, self._run, self._agent, self._half)

    def _request(self, real: bytes) -> Parts:
        return wire.encode_request(self._request_header, self._first_env, real, self._observations)


def sample(policies: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """An action of each policy, drawn by its probabilities."""
    last = policies.shape[1] - 1
    # Rounding can leave the last sum below 1, so the number of sums passed is capped at the last action.
    return np.array(
        [
            min(bisect_right(list(accumulate(policy)), draw), last)
            for policy, draw in zip(policies.tolist(), random.random(len(policies)).tolist(), strict=True)
        ]
    )


def halves(config: Config) -> list[Half]:
    """The halves of an agent: two, or one where there is a single environment."""
    envs = config.envs_per_agent or 1
    first = envs - envs // 2
    return [Half(0, first, 0), Half(1, envs - first, first)] if envs > 1 else [Half(0, 1, 0)]


def begin_players(config: Config, run: int, agent: int) -> list[tuple[Player, list[Parts]]]:
    """The halves of one agent with their first messages.

    No message goes before all are made: that takes seconds, and a prediction that waits for it would be old by then.
    """
    begun = []
    for half in halves(config):
        games = make_games(config, half.envs)
        player = Player(config, games, run=run, agent=agent, half=half)
        observations = games.reset(make_seed(config.seed, agent, half.number), config.stagger)
        begun.append((player, player.begin(observations)))
    return begun
