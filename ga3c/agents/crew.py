"""The agent processes as the server sees them: started, stopped, and replaced when they die."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from ga3c.agents.deaths import DEATHS_WINDOW
from ga3c.agents.places.local import LocalPlace
from ga3c.agents.places.place import Place, Task, how_it_ended
from ga3c.agents.player import halves
from ga3c.agents.silence import SilenceWatch
from ga3c.agents.supervision import AgentProcess, Supervision
from ga3c.memory.stats import Stats
from ga3c.messages.member import Member
from ga3c.settings.config import Resolved
from ga3c.system.limits import why_not_started
from ga3c.system.logs import SparingLog

log = logging.getLogger(__name__)

LEAVE_SECONDS = 0.6  # an agent that was told to leave and has not by then is killed
FRUITLESS_TOLERATED = 2  # deaths in a row without a single step: a replacement would not do better
LAST_WORDS_SECONDS = 0.5  # that the reason of an agent which failed may still be under way
STALLS_WINDOW = 10.0  # times STALL_SECONDS in which more silent agents than deaths are tolerated stop the run

TOLD_EACH = 10  # deaths of one kind within a minute that have a line each; of more there are only a few lines


class AgentsKeepDying(RuntimeError):
    """Starting agents does not help; the message has the last one's end."""


class Counterpart(Protocol):
    """Who agents talk to: how they are let in and out, and what is known of each."""

    def admit(self, agent: int, envs: int) -> None: ...
    def member(self, agent: int) -> Member: ...
    def stop_agent(self, agent: int) -> None: ...
    def dismiss(self, agent: int) -> int:
        """Returns its steps that were under way, and are lost."""


@dataclass(frozen=True)
class Crew:
    """How many agents there are."""

    playing: int = 0
    starting: int = 0  # all that have not played yet: environments take time to make
    leaving: int = 0


@dataclass(frozen=True)
class Wish:
    """How many agents are wanted, and what came of it; replaced as a whole, since two threads have a say in it."""

    count: int = 0
    most: float = math.inf  # as many as there can be, where more was given up
    refusal: str = ""  # why, then

    @property
    def target(self) -> int:
        return int(min(self.count, self.most))


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
        place: Place | None = None,
    ) -> None:
        """``task`` tells what the process of the agent with this number does; it is admitted then."""
        self.started = 0
        self.crew = Crew()  # when they were last tended; replaced as a whole, so that any thread may read it
        self._config = config
        self._counterpart = counterpart
        self._stats = stats
        self._task = task
        self._supervision = Supervision(place or LocalPlace())
        self._silence = SilenceWatch(config.stall_seconds, len(halves(config)))
        self._many_died = SparingLog(log, "%d more agents died and are replaced; the last, agent %s")
        self._fruitless = 0  # blows in a row to agents that had not played, since one began
        self._proven = 0  # the most that were wanted and all played
        self._wish = Wish()
        self._wishing = threading.Lock()  # while the wish is replaced

    @property
    def wanted(self) -> int:
        return self._wish.count

    @property
    def refusal(self) -> str:
        """Why there are fewer than wanted, where more was given up."""
        return self._wish.refusal

    def want(self, count: int) -> None:
        """For any thread; ``tend`` follows."""
        with self._wishing:
            self._wish = Wish(count)

    def tend(self) -> None:
        """Notice deaths, and start or stop agents until there are as many as wanted."""
        now = time.monotonic()
        self._watch()
        self._reap(now)
        while len(self._staying()) < self._wish.target and self._supervision.may_start:
            wish = self._wish
            try:
                self._start()
            except OSError as error:
                why = why_not_started(error, wish.target)
                if not self._give_up_more(wish, why):
                    raise AgentsKeepDying(why) from None
        for number in self._staying()[self._wish.target :]:
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
            self._supervision.wait(0.05)
            self.tend()
        for number in self._supervision.end():
            self._stats.add(lost_steps=self._counterpart.dismiss(number))
        self.crew = Crew()

    @property
    def _agents(self) -> dict[int, AgentProcess]:
        return self._supervision.agents

    def _give_up_more(self, wish: Wish, why: str) -> bool:
        """Go back to as many as have all played before, unless it was those that failed."""
        with self._wishing:
            if wish is not self._wish:
                return True  # another number is wanted by now, which has its own chance
            if not 0 < self._proven < wish.target:
                return False
            self._wish = replace(wish, most=self._proven, refusal=why)
        self._fruitless = 0
        self._supervision.deaths.clear()
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
        try:
            self._supervision.start(number, self._task(number))
        except OSError:
            self._counterpart.dismiss(number)
            raise
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
                self._died(number, agent, member, lost)

    def _died(self, number: int, agent: AgentProcess, member: Member, lost: int) -> None:
        wish, deaths = self._wish, self._supervision.deaths
        kind = end = how_it_ended(agent.process)
        window = DEATHS_WINDOW
        if agent.quiet:
            kind, end = "silence", f"was silent for {agent.quiet:.0f} s, so it was killed"
            window = max(DEATHS_WINDOW, STALLS_WINDOW * self._config.stall_seconds)
        elif member.last_words:
            kind, end = "failure", f"failed: {member.last_words}"
        if self._supervision.note_death(agent, kind, self._stats.totals.steps, window):
            self._fruitless = 0 if member.played else self._fruitless + 1
        if self._fruitless > FRUITLESS_TOLERATED or deaths.too_many(kind, wish.count):
            why = f"{deaths.count(kind)} agents died within {window:.0f} s; the last, agent {number}, {end}"
            if not self._give_up_more(wish, why):
                raise AgentsKeepDying(why)
        elif deaths.count(kind) <= TOLD_EACH:
            log.warning("agent %d %s and is replaced; %d steps of it are lost", number, end, lost)
        else:
            self._many_died.add(f"{number}, {end}")
