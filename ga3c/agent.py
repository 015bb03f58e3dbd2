"""The agent: K environments that act on predictions, and the process that runs them. Never imports torch."""

from __future__ import annotations

import ctypes
import logging
import logging.handlers
import multiprocessing
import os
import signal
import sys
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from ga3c import wire
from ga3c.checked import GameFault
from ga3c.config import Config
from ga3c.envs import make_games, make_seed
from ga3c.exchange import AgentLink
from ga3c.games import Playable
from ga3c.rollout import Rollout
from ga3c.wire import Header, Kind, Parts, Reply

log = logging.getLogger(__name__)

NICENESS = 5  # below the server's threads: an agent that waits costs nothing, a trainer that waits costs everything
PATIENCE = 1.0  # seconds without a message after which an agent looks whether its server is still there
LAST_WORDS_SECONDS = 1.0  # that an agent which fails takes, at most, to tell the server why
PR_SET_PDEATHSIG = 1  # of Linux's prctl


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


@dataclass(frozen=True)
class AgentTask:
    """All that an agent process has to know."""

    config: Config
    endpoint: str
    run: int
    agent: int


def run_agent(task: AgentTask, log_queue: multiprocessing.Queue[logging.LogRecord]) -> None:
    """The body of an agent process: play until the server says STOP or is gone."""
    set_up_process(log_queue)
    link = None
    try:
        link = AgentLink(task.endpoint, task.run, task.agent, patience=PATIENCE)
        _serve(task, link)
    except Exception as error:
        log.exception("agent %d failed", task.agent)
        if link is not None:
            header = Header(Kind.FAILURE, task.run, task.agent)
            link.send([wire.encode_failure(header, describe_failure(error))])
            link.close(LAST_WORDS_SECONDS)
        sys.exit(1)  # which waits until the queue has taken the traceback
    link.close()
    log_queue.cancel_join_thread()  # a good end must not wait for a log that nobody reads any more


def describe_failure(error: Exception) -> str:
    """Last words: a game that broke is named in its fault, anything else by its kind."""
    return str(error) if isinstance(error, GameFault) else f"{type(error).__name__}: {error}"


def _serve(task: AgentTask, link: AgentLink) -> None:
    players: list[Player] = []
    parent = multiprocessing.parent_process()
    assert parent is not None
    for player, messages in begin_players(task.config, task.run, task.agent):
        players.append(player)
        link.send(messages)
    while True:
        head = link.receive()
        if head is None:
            if not parent.is_alive():
                break
            continue
        header = wire.read_header(head)
        if header.kind == Kind.STOP:
            break
        link.send(players[header.half].play(wire.decode_reply(header, head)))
    for player in players:
        player.close()


def set_up_process(log_queue: multiprocessing.Queue[logging.LogRecord], niceness: int = NICENESS) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server decides what it means
    signal.signal(signal.SIGTERM, _leave)
    if sys.platform == "linux":
        # Also where an environment hangs and nothing looks at the parent: the kernel ends an agent with its server.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if hasattr(os, "nice"):
        os.nice(niceness)
    root = logging.getLogger()
    root.handlers[:] = [logging.handlers.QueueHandler(log_queue)]
    root.setLevel(logging.INFO)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
