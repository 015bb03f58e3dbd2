"""The controller: a thread that tries the settings of a strategy on a running server and tells it what came of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from tuner.record import Record, restore
from tuner.space import Setting
from tuner.strategy import Measurement, Plan, Strategy
from tuner.trace import Trace, Trial
from tuner.window import Counters, measurement

log = logging.getLogger(__name__)

PARTS = 6  # equal parts of a window; what they differ by tells the noise
SETTLING = 0.1  # of a window, thrown away after each change
SETTLING_LEAST = 1.0  # seconds
PATIENCE = 60.0  # seconds without any progress after which a setting counts as one that cannot be had
PATIENCE_IN_ALL = 3.0  # times that, however it goes back and forth: agents may die as fast as others start
ENV_PATIENCE = 1.0  # seconds more for each environment that a core has to make: agents that start at once end at once
SPOILED_MOST = 3  # windows in a row in which agents died; then the setting counts as one that does not hold
LOOK_SECONDS = 0.05


class Tunable(Protocol):
    """A running server, as the controller sees it."""

    def apply(self, setting: Setting) -> None:
        """Begin to change to this setting. Raises if the server refuses it."""

    @property
    def setting(self) -> Setting:
        """What really runs now: agents that play, and threads."""

    def unsettled(self) -> str:
        """What is not yet as applied, in words; empty: all wanted agents play, and who had to leave is gone.

        Raises if the server has given up.
        """

    def counters(self) -> Counters: ...


class Stopped(Exception):
    """``stop`` was called: what was going on ends here."""


class NotMeasured(Exception):
    """A setting could not be measured; the message says why."""


class Controller(threading.Thread):
    """Tunes until ``stop``. The strategy is made in this thread, so that its computing delays nobody."""

    def __init__(
        self,
        server: Tunable,
        plan: Plan,
        record: Record,
        make: Callable[[Plan], Strategy],
        resumed: Trace | None = None,
    ) -> None:
        super().__init__(name="tuner", daemon=True)
        self._server = server
        self._plan = plan
        self._record = record
        self._make = make
        self._resumed = resumed
        self._number = 0  # of the last trial
        self._incumbent = plan.start
        self._applied: Setting | None = None  # what the server was told last; None: it is told in any case
        self._failures = 0  # in a row
        self._stopping = threading.Event()

    def stop(self, seconds: float) -> None:
        """End at once: a window that is not over is not recorded, and a strategy that computes is not waited for."""
        self._stopping.set()
        if self.is_alive():
            self.join(seconds)

    def run(self) -> None:
        try:
            strategy = self._begin()
            while True:
                self._trial(strategy)
        except Stopped:
            pass
        except Exception:
            log.exception("the tuner failed and ends; training goes on with %s", self._incumbent)
            self._put_back()
        finally:
            self._record.close()

    def _begin(self) -> Strategy:
        """The strategy of the resumed trace, brought to where that ends, or else a new one."""
        if self._resumed is not None:
            strategy = self._make(self._resumed.plan)
            try:
                restore(strategy, self._resumed)
            except Exception as error:  # also what a strategy says to a trace that an older one left
                self._record.set_aside(f"{type(error).__name__}: {error}")
            else:
                self._go_on_after(self._resumed)
                return strategy
        self._record.begin(self._plan)
        return self._make(self._plan)

    def _go_on_after(self, trace: Trace) -> None:
        self._record.mend(trace)
        self._plan = trace.plan
        if trace.trials:
            self._number, self._incumbent = trace.trials[-1].number, trace.trials[-1].decision.incumbent
        log.info("tuner: goes on after trial %d with %s", self._number, self._incumbent)

    def _trial(self, strategy: Strategy) -> None:
        """Try what the strategy proposes, tell it what was measured, and write down what it decides."""
        before, proposed = self._incumbent, strategy.propose()
        self._wait(0)  # it may have computed for long
        asked = self._server.counters().seconds
        try:
            changed, marks = self._measure(proposed)
            started, ended = marks[0].seconds, marks[-1].seconds
            measured = measurement(proposed, marks)
        except NotMeasured as problem:
            changed, started = True, self._server.counters().seconds
            ended = started
            measured = Measurement(self._server.setting, (0.0,), 0.0, problem=str(problem))
        decision = strategy.observe(measured)
        self._wait(0)
        self._number += 1
        self._incumbent = decision.incumbent
        self._record.add(
            Trial(
                number=self._number,
                seconds=ended,
                settling=started - asked if changed else 0.0,
                window=ended - started,
                before=before,
                proposed=proposed,
                measurement=measured,
                decision=decision,
                random_state=strategy.random_state(),
            )
        )
        log.info("tuner: %s %s: %s", proposed, decision.verdict, decision.reason)
        self._recover(bool(measured.problem))

    def _measure(self, setting: Setting) -> tuple[bool, list[Counters]]:
        """Whether the server had to change for this setting, and the counters of a window in which it held."""
        changed = settle = setting != self._applied
        if changed:
            self._change_to(setting)
        for _ in range(SPOILED_MOST):
            self._wait_for_effect(setting)
            agents = self._server.counters().agents_started
            if settle:
                self._wait(self._settling)
            if marks := self._window(setting, agents):
                return changed, marks
            settle = True
            log.info("tuner: %s is measured again: an agent died meanwhile", setting)
        raise NotMeasured(f"agents died in each of {SPOILED_MOST} windows under {setting}")

    def _change_to(self, setting: Setting) -> None:
        self._applied = None
        try:
            self._server.apply(setting)
        except Exception as error:
            raise NotMeasured(f"the server refused {setting}: {error}") from error
        self._applied = setting

    def _wait_for_effect(self, setting: Setting) -> None:
        """Until the setting is what really runs, as long as it comes nearer, but not for ever."""
        seen, until = "", 0.0
        system = self._plan.system
        patience = PATIENCE + ENV_PATIENCE * setting.agents * system.envs_per_agent / system.cores
        last = time.monotonic() + PATIENCE_IN_ALL * patience
        while unsettled := self._unsettled(setting):
            now = time.monotonic()
            if now >= last:
                raise NotMeasured(f"{setting} did not take effect in {PATIENCE_IN_ALL * patience:.3g} s: {unsettled}")
            if unsettled != seen:
                seen, until = unsettled, now + patience
            elif now >= until:
                raise NotMeasured(f"{setting} did not take effect: for {patience:.3g} s only {unsettled}")
            self._wait(LOOK_SECONDS)

    def _unsettled(self, setting: Setting) -> str:
        try:
            unsettled = self._server.unsettled()
        except Exception as error:
            raise NotMeasured(f"the server gave {setting} up: {error}") from error
        running = self._server.setting
        return unsettled or (f"{running} runs" if running != setting else "")

    def _window(self, setting: Setting, agents: int) -> list[Counters]:
        """The counters at the bounds of the parts of a window; none if an agent died: the setting did not hold then."""
        marks = [self._server.counters()]
        for _ in range(PARTS):
            self._wait(self._plan.window / PARTS)  # each its full time: one cut short after a late one would be noise
            marks.append(self._server.counters())
            if marks[-1].agents_started != agents or self._unsettled(setting):
                return []
        return marks

    @property
    def _settling(self) -> float:
        return max(SETTLING * self._plan.window, SETTLING_LEAST)

    def _recover(self, failed: bool) -> None:
        """After a failure: back to the incumbent, and a pause, so that a server that refuses all is left in peace."""
        self._failures = self._failures + 1 if failed else 0
        if failed:
            self._put_back()
            self._wait(min(self._failures * self._settling, self._plan.window))

    def _put_back(self) -> None:
        self._applied = None
        if self._stopping.is_set():
            return  # the server is about to stop, and must not grow again
        try:
            self._server.apply(self._incumbent)
        except Exception as error:
            log.warning("tuner: the server does not take %s back: %s", self._incumbent, error)

    def _wait(self, seconds: float) -> None:
        if self._stopping.wait(max(seconds, 0)):
            raise Stopped
