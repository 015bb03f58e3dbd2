"""The agent processes as the server sees them: started, stopped, and replaced when they die."""

from __future__ import annotations

import logging
import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any, Protocol

from ga3c.agents.deaths import DEATHS_WINDOW, Deaths, how_it_ended
from ga3c.agents.player import halves
from ga3c.agents.silence import SilenceWatch
from ga3c.memory.stats import Stats
from ga3c.messages.member import Member
from ga3c.settings.config import Resolved
from ga3c.system.limits import why_not_started

log = logging.getLogger(__name__)

LEAVE_SECONDS = 0.6  # an agent that was told to leave and has not by then is killed
FRUITLESS_TOLERATED = 2  # deaths in a row without a single step: a replacement would not do better
LAST_WORDS_SECONDS = 0.5  # that the reason of an agent which failed may still be under way
STALLS_WINDOW = 10.0  # times STALL_SECONDS in which more silent agents than deaths are tolerated stop the run


Task = tuple[Callable[..., None], tuple[Any, ...]]  # the body of a process, and what it is given


class AgentsKeepDying(RuntimeError):
    """Starting agents does not help; the message has the last one's end."""


class Counterpart(Protocol):
    """Who agents talk to: how they are let in and out, and what is known of each."""

    def admit(self, agent: int, envs: int) -> None: ...
    def member(self, agent: int) -> Member: ...
    def stop_agent(self, agent: int) -> None: ...
    def dismiss(self, agent: int) -> int:
        """Returns its steps that were under way, and are lost."""


@dataclass
class AgentProcess:
    process: SpawnProcess
    started: float
    plays: bool = False
    leaving_since: float | None = None
    quiet: float = 0.0  # seconds of silence that it was killed for
    found_dead: float | None = None  # when


@dataclass(frozen=True)
class Crew:
    """How many agents there are."""

    playing: int = 0
    starting: int = 0  # all that have not played yet: environments take time to make
    leaving: int = 0


class Agents:
    """As many agent processes as wanted. All is done in ``tend``, which one thread calls often.

    More than ever played together are an attempt: where it fails it is given up, and the run goes on without them.
    Starting from one thread alone matters: on Linux an agent dies with the thread that started it.
    """

    def __init__(
        self,
        config: Resolved,
        counterpart: Counterpart,
        stats: Stats,
        task: Callable[[int], Task],
    ) -> None:
        """``task`` tells what the process of the agent with this number does; it is admitted then."""
        self.wanted = 0
        self.started = 0
        self.refusal = ""  # why there are fewer than wanted, where more was given up
        self.crew = Crew()  # when they were last tended; replaced as a whole, so that any thread may read it
        self._config = config
        self._counterpart = counterpart
        self._stats = stats
        self._task = task
        self._spawn = multiprocessing.get_context("spawn")
        self._agents: dict[int, AgentProcess] = {}
        self._silence = SilenceWatch(config.stall_seconds, len(halves(config)))
        self._deaths = Deaths()
        self._fruitless = 0  # blows in a row to agents that had not played, since one began to
        self._start_after = 0.0
        self._proven = 0  # the most that were wanted and all played
        self._most = math.inf

    def want(self, count: int) -> None:
        """For any thread; ``tend`` follows."""
        self.wanted = count  # first: what is given up after it is of the new number
        self.refusal, self._most = "", math.inf

    def tend(self) -> None:
        """Notice deaths, and start or stop agents until there are as many as wanted."""
        now = time.monotonic()
        self._watch()
        self._reap(now)
        while len(self._staying()) < self._target and now >= self._start_after:
            try:
                self._start()
            except OSError as error:
                why = why_not_started(error, self._target)
                if not self._give_up_more(why):
                    raise AgentsKeepDying(why) from None
        for number in self._staying()[self._target :]:
            self._ask_to_leave(number, now)
        self.crew = self._count()
        if self.crew == Crew(playing=self.wanted):
            self._proven = max(self._proven, self.wanted)

    def process_ids(self) -> list[int]:
        return [agent.process.pid for agent in self._agents.values() if agent.process.pid is not None]

    def stop(self, seconds: float) -> None:
        """End all agents, politely at first."""
        self.want(0)
        now = time.monotonic()
        until = now + seconds
        for number in self._agents:  # before any is looked at: one that is dead already is no reason to fail any more
            self._ask_to_leave(number, now)
        while self._agents and time.monotonic() < until:
            multiprocessing.connection.wait([agent.process.sentinel for agent in self._agents.values()], timeout=0.05)
            self.tend()
        for agent in self._agents.values():
            agent.process.kill()
        for number, agent in self._agents.items():
            agent.process.join(1.0)
            self._stats.add(lost_steps=self._counterpart.dismiss(number))
        self._agents.clear()
        self.crew = Crew()

    @property
    def _target(self) -> int:
        return int(min(self.wanted, self._most))

    def _give_up_more(self, why: str) -> bool:
        """Go back to as many as have all played before, unless it was those that failed."""
        if not 0 < self._proven < self._target:
            return False
        self._most, self.refusal = self._proven, why
        self._fruitless = 0
        self._deaths.clear()
        log.warning("%s; the run goes on with %d", why, self._proven)
        return True

    def _staying(self) -> list[int]:
        return [number for number, agent in self._agents.items() if agent.leaving_since is None]

    def _count(self) -> Crew:
        staying = self._staying()
        for number in staying:
            agent = self._agents[number]
            if not agent.plays and self._counterpart.member(number).played:
                agent.plays = True
                self._fruitless = 0
        playing = sum(self._agents[number].plays for number in staying)
        return Crew(playing, len(staying) - playing, len(self._agents) - len(staying))

    def _ask_to_leave(self, number: int, now: float) -> None:
        self._counterpart.stop_agent(number)
        self._agents[number].leaving_since = now

    def _start(self) -> None:
        number = self._stats.number_agent()
        self._counterpart.admit(number, self._config.envs_per_agent)
        body, given = self._task(number)
        process = self._spawn.Process(target=body, args=given, name=f"agent-{number}", daemon=True)
        try:
            with clean_start():
                process.start()
        except OSError:
            self._counterpart.dismiss(number)
            raise
        self._agents[number] = AgentProcess(process, time.monotonic())
        self.started += 1

    def _watch(self) -> None:
        members = {number: self._counterpart.member(number) for number in self._staying()}
        for number, seconds in self._silence.look(members).items():
            self._agents[number].quiet = seconds
            self._agents[number].process.kill()

    def _reap(self, now: float) -> None:
        for number, agent in list(self._agents.items()):
            if agent.process.is_alive():
                if agent.leaving_since is not None and now - agent.leaving_since > LEAVE_SECONDS:
                    agent.process.kill()
                continue
            member = self._counterpart.member(number)
            agent.found_dead = agent.found_dead or now
            failed = agent.process.exitcode == 1 and not agent.leaving_since
            if failed and not member.last_words and now - agent.found_dead < LAST_WORDS_SECONDS:
                continue
            del self._agents[number]
            lost = self._counterpart.dismiss(number)
            self._stats.add(lost_steps=lost)
            if agent.leaving_since is None:
                self._died(number, agent, member, lost, now)

    def _died(self, number: int, agent: AgentProcess, member: Member, lost: int, now: float) -> None:
        kind = end = how_it_ended(agent.process)
        window = DEATHS_WINDOW
        if agent.quiet:
            kind, end = "silence", f"was silent for {agent.quiet:.0f} s, so it was killed"
            window = max(DEATHS_WINDOW, STALLS_WINDOW * self._config.stall_seconds)
        elif member.last_words:
            kind, end = "failure", f"failed: {member.last_words}"
        if self._deaths.add(kind, now, started=agent.started, window=window):
            self._fruitless = 0 if member.played else self._fruitless + 1
        if self._fruitless > FRUITLESS_TOLERATED or self._deaths.too_many(kind, self.wanted):
            died = f"{self._deaths.count(kind)} agents died within {window:.0f} s"
            why = f"{died}; the last, agent {number}, {end}"
            if not self._give_up_more(why):
                raise AgentsKeepDying(why)
            return
        self._start_after = now + self._deaths.backoff
        log.warning("agent %d %s and is replaced; %d steps of it are lost", number, end, lost)


@contextmanager
def clean_start() -> Iterator[None]:
    """A child that imports neither the user's script nor more threads than it needs.

    Spawned children import ``__main__`` again: a script without the usual guard would start training once more in each
    agent, and one that imports torch would make each agent pay for it. An empty ``__main__`` prevents both.
    """
    changed = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    before = {name: os.environ.get(name) for name in changed}
    main = sys.modules["__main__"]
    # A Ctrl-C goes to the whole group, also to a child that cannot ignore it yet: it inherits this mask.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ.update(changed)
        yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
