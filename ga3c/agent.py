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
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from types import FrameType

import numpy as np

from ga3c import wire
from ga3c.config import Config
from ga3c.envs import GameFault, make_games
from ga3c.exchange import AgentLink
from ga3c.rollout import Rollout
from ga3c.wire import Header, Kind, Parts, Reply

log = logging.getLogger(__name__)

NICENESS = 5  # below the server's threads: an agent that waits costs nothing, a trainer that waits costs everything
PATIENCE = 1.0  # seconds without a message after which an agent looks whether its server is still there
LAST_WORDS_SECONDS = 1.0  # that an agent which fails takes, at most, to tell the server why
PR_SET_PDEATHSIG = 1  # of Linux's prctl


class Player:
    """Environments that play in step: half of an agent, so that one half plays while the other waits.

    It knows nothing of sockets: ``begin`` and ``play`` give the messages to send, the last of which is the request
    whose reply ``play`` takes next.
    """

    def __init__(self, config: Config, *, run: int, agent: int, half: int, count: int, first_env: int) -> None:
        self._run, self._agent, self._half = run, agent, half
        self._random = np.random.default_rng([config.seed, agent, half])
        self._games = make_games(config, count)
        self._rollout = Rollout(
            self._games.spec,
            count,
            t_max=config.t_max,
            discount=config.discount,
            reward_clip=config.reward_clip,
            agent=agent,
            first_env=first_env,
            stagger=True,
        )
        self._observations = np.empty(0)
        self._request_header = self._header(Kind.REQUEST).pack()

    def begin(self) -> list[Parts]:
        self._observations = self._games.reset(int(self._random.integers(2**30)))
        return [self._request(played=0)]

    def play(self, reply: Reply) -> list[Parts]:
        """Finish what the values complete, act on the policies, and ask for the next prediction."""
        messages = [
            wire.encode_experience(self._run, self._half, experience)
            for experience in self._rollout.finish(reply.values)
        ]
        actions = sample(reply.policies, self._random)
        played = self._games.step(actions)
        self._rollout.record(self._observations, actions, reply.version, played)
        self._observations = played.observations
        if played.finished:
            messages.append(wire.encode_scores(self._header(Kind.SCORES), played.finished))
        messages.append(self._request(sum(played.real.tolist())))
        return messages

    def close(self) -> int:
        """End the environments; returns the steps that are in no experience and so are lost."""
        self._games.close()
        return self._rollout.unfinished

    def _header(self, kind: Kind) -> Header:
        return Header(kind, self._run, self._agent, self._half)

    def _request(self, played: int) -> Parts:
        return wire.encode_request(self._request_header, self._observations, played)


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


def half_sizes(config: Config) -> list[int]:
    """Environments of each half of an agent: two halves, or one where there is a single environment."""
    envs = config.envs_per_agent or 1
    return [envs - envs // 2, envs // 2] if envs > 1 else [1]


def make_players(config: Config, run: int, agent: int) -> Iterator[Player]:
    """The halves of one agent, made one by one, since it takes time."""
    counts = half_sizes(config)
    for half, count in enumerate(counts):
        yield Player(config, run=run, agent=agent, half=half, count=count, first_env=half * counts[0])


@dataclass(frozen=True)
class AgentTask:
    """All that an agent process has to know."""

    config: Config
    endpoint: str
    run: int
    agent: int


def run_agent(task: AgentTask, log_queue: multiprocessing.Queue[logging.LogRecord]) -> None:
    """The body of an agent process: play until the server says STOP or is gone."""
    _set_up_process(log_queue)
    link = None
    try:
        link = AgentLink(task.endpoint, task.run, task.agent, patience=PATIENCE)
        _serve(task, link)
    except Exception as error:
        log.exception("agent %d failed", task.agent)
        if link is not None:
            reason = str(error) if isinstance(error, GameFault) else f"{type(error).__name__}: {error}"
            link.send([wire.encode_failure(Header(Kind.FAILURE, task.run, task.agent), reason)])
            link.close(LAST_WORDS_SECONDS)
        sys.exit(1)  # which waits until the queue has taken the traceback
    link.close()
    log_queue.cancel_join_thread()  # a good end must not wait for a log that nobody reads any more


def _serve(task: AgentTask, link: AgentLink) -> None:
    players: list[Player] = []
    parent = multiprocessing.parent_process()
    assert parent is not None
    for player in make_players(task.config, task.run, task.agent):
        players.append(player)
        link.send(player.begin())
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


def _set_up_process(log_queue: multiprocessing.Queue[logging.LogRecord]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server decides what it means
    signal.signal(signal.SIGTERM, _leave)
    if sys.platform == "linux":
        # Also where an environment hangs and nothing looks at the parent: the kernel ends an agent with its server.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    root = logging.getLogger()
    root.handlers[:] = [logging.handlers.QueueHandler(log_queue)]
    root.setLevel(logging.INFO)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
