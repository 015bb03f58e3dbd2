"""The default strategy: simulated annealing that knows its noise and pools what it learns.

Each window measures either a challenger or, again, the incumbent. Challengers are drawn by what they promise, the more
freely the higher the temperature; one is accepted by what all windows together say of it against the incumbent: at
first also if it is a little worse, and when it is cold only if it is surely better. As nothing promises more, the
strategy holds what it has and probes rarely. It opens again when the windows say that the machine has changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.space import Setting
from tuner.strategy import Decision, Measurement, Plan
from tuner.surrogate import STEP_BEFORE, Surrogate, make_prior

# Gains, deviations and temperatures are of log TPS: 0.01 is one percent.
HOT, COLD = 0.02, 0.0005  # first and lowest temperature
COOLING = 0.8  # per challenger
SPREAD = 0.2  # of a temperature: the promise by which a challenger has to fall short to become rare
SURE = 0.9  # deviations by which a gain has to be above 0, once it is cold
RETURN = 0.003  # gain of a setting measured before at which it becomes the incumbent again
HORIZON = 40.0  # windows that a gain is expected to last: what it has to pay for its trial in
TRIAL = 0.08  # of a window that a trial costs in any case, by the change of settings there and back
PROBE_EVERY = 8  # windows, while nothing is worth one
NEAR = 3  # windows after which the incumbent is measured again, so that a comparison is one of now
CHANGED = 3.0  # log odds at which the machine has changed, by two windows at least
LEAST_NOISE = 0.004
FIRST_NOISE, FIRST_WINDOWS = 0.04, 1  # a guess of the noise, and how many windows it weighs
STALE_SHARE = 0.01  # of the steps thrown away as too old
LAG_ROOM = 1.2  # agents beyond those that would just have the lag of the limit, which are not tried any more
QUEUE_BATCHES = 3.0  # that the training queue may gain over a window
IDLE_MOST = 2  # windows without any update after which the incumbent is left


@dataclass(frozen=True)
class Refusal:
    """A setting that trains on what is too old, for its lag or for a growing queue."""

    setting: Setting
    more_trainers: bool  # would be worse: they raise the lag, but empty a queue

    def covers(self, setting: Setting) -> bool:
        """Whether a setting can only be worse."""
        trainers, refused = setting.trainers, self.setting.trainers
        return setting.agents >= self.setting.agents and (
            trainers >= refused if self.more_trainers else trainers <= refused
        )


class Anneal:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._random = np.random.default_rng(plan.seed)
        self._incumbent = plan.start
        self._surrogate: Surrogate | None = None  # made when first needed: its prior takes seconds
        self._time = 0
        self._measured_at = -math.inf  # when the incumbent was last
        self._suspect = False  # a window was so far off that the incumbent has to tell whether the machine changed
        self._cold_since = 0  # last window that was worth something else than holding
        self._temperature = HOT
        self._spreads: list[float] = []  # variances of windows, from their parts
        self._surprises: list[float] = []  # squared deviations of the incumbent's windows from what was expected
        self._refusals: list[Refusal] = []
        self._failed: set[Setting] = set()  # could not be applied, or made no update
        self._over = ""  # why the incumbent has to be left
        self._idle = 0  # windows of the incumbent in a row without any update
        self._proposal = plan.start

    def propose(self) -> Setting:
        self._proposal = self._choose()
        return self._proposal

    def observe(self, measurement: Measurement) -> Decision:
        self._time += 1
        if measurement.problem:
            if self._proposal != self._incumbent:
                self._failed.add(self._proposal)
            return self._decide("failed", measurement.problem)
        if measurement.mean_tps <= 0:
            return self._observe_nothing(measurement)
        if (spread := measurement.spread) is not None:
            self._spreads.append(spread)
        excess = self._excess(measurement)
        if measurement.setting == self._incumbent:
            return self._observe_incumbent(measurement, excess)
        return self._observe_challenger(measurement, excess)

    def random_state(self) -> Any:
        return self._random.bit_generator.state["state"]

    # Proposals

    def _choose(self) -> Setting:
        leaving = bool(self._over) or self._idle >= IDLE_MOST
        if not leaving and (self._surrogate is None or self._suspect):
            return self._incumbent
        here = self._index(self._incumbent)
        mean, deviation = self._knowledge.gain_over(here)
        allowed = self._allowed()
        allowed[here] = False
        if not allowed.any():  # where nothing is within the limits, the smallest comes nearest
            return self._setting(0) if self._over else self._incumbent
        if leaving:
            return self._setting(int(np.where(allowed, mean, -np.inf).argmax()))
        if self._time - self._measured_at >= NEAR:
            return self._incumbent
        worth = worth_of_a_window(mean, deviation, self._noise())
        worth[~allowed] = -np.inf
        if worth.max() < 0 and self._time - self._cold_since < PROBE_EVERY:
            return self._incumbent
        self._cold_since = self._time
        weights = np.exp((worth - worth.max()) / max(self._temperature * SPREAD, 1e-6))
        return self._setting(int(self._random.choice(len(weights), p=weights / weights.sum())))

    def _allowed(self) -> NDArray[np.bool_]:
        """Settings that neither failed nor are worse in what another one was refused for."""
        allowed = np.ones(len(self._knowledge.prior.settings), dtype=np.bool_)
        if self._failed or self._refusals:  # rare, and a decision should take milliseconds
            for index, setting in enumerate(self._knowledge.prior.settings):
                refused = any(refusal.covers(setting) for refusal in self._refusals)
                allowed[index] = setting not in self._failed and not refused
        return allowed

    # Observations

    def _observe_incumbent(self, measurement: Measurement, excess: str) -> Decision:
        tps, first = measurement.mean_tps, not self._knowledge.windows
        self._over, self._idle = excess, 0
        if excess:
            self._refuse(measurement)
        self._measured_at = self._time
        if first:
            self._learn(measurement)
            return self._decide("start", f"{tps:.2f} TPS to compare with")
        surprise, expected = self._surprise(measurement)
        self._surprises.append(min(surprise**2, 9.0))
        self._learn(measurement)
        if reopened := self._look_for_change():
            return reopened
        if self._suspect:
            told = f"{tps:.2f} TPS, {abs(surprise):.1f} deviations from the expected {math.exp(expected):.2f}"
            return self._decide("kept", f"{told}: to be measured again at once")
        if excess:
            return self._decide("kept", f"{excess}: to be left")
        return self._return() or self._decide("kept", f"{tps:.2f} TPS, measured again: as expected")

    def _look_for_change(self) -> Decision | None:
        """Begin again if the windows say that the machine has changed; forget one that was only disturbed."""
        knowledge, suspected = self._knowledge, self._suspect
        change = knowledge.change()
        if change.evidence <= CHANGED:
            if suspected and knowledge.disturbance(1) > max(CHANGED, knowledge.disturbance(0)):
                knowledge.drop(1)
            self._suspect = len(knowledge.windows) > STEP_BEFORE and knowledge.disturbance(0) > CHANGED
            return None
        self._suspect = False
        knowledge.begin_epoch(change)
        self._refusals.clear()
        self._failed.clear()
        self._temperature = HOT
        self._cold_since = self._time
        told = f"TPS {math.expm1(change.gain):+.0%} for {change.windows} windows"
        return self._decide("reopened", f"{told}: the machine has changed")

    def _observe_challenger(self, measurement: Measurement, excess: str) -> Decision:
        challenger, incumbent = measurement.setting, self._incumbent
        self._learn(measurement)
        self._cool()
        if not excess and (reopened := self._look_for_change()):
            return reopened
        if excess and not (self._over and challenger == self._setting(0)):
            self._refuse(measurement)
            return self._decide("refused", excess)
        mean, deviation = self._knowledge.gain_over(self._index(incumbent))
        gain, doubt = float(mean[self._index(challenger)]), float(deviation[self._index(challenger)])
        told = f"{math.expm1(gain):+.1%} ± {doubt:.1%} against {incumbent}"
        if self._over:
            return self._accept(f"{told}, which had to be left: {self._over}")
        if self._idle:
            return self._accept(f"{measurement.mean_tps:.2f} TPS, where {incumbent} made no update")
        sure = gain - self._needed() * doubt
        if sure > 0:
            return self._accept(told)
        if self._random.random() < math.exp(sure / self._temperature):
            return self._accept(f"{told}, within the temperature of {self._temperature:.2%}")
        return self._return() or self._decide("refused", told)

    def _observe_nothing(self, measurement: Measurement) -> Decision:
        if measurement.setting == self._incumbent:
            self._idle += 1
            self._measured_at = self._time
            return self._decide("kept", "no update in the whole window: nothing to compare")
        self._failed.add(measurement.setting)
        return self._decide("refused", "no update in the whole window")

    def _return(self) -> Decision | None:
        """Back to a setting that was measured before, if all windows together now say that it is better."""
        mean, deviation = self._knowledge.gain_over(self._index(self._incumbent))
        sure = mean - self._needed() * deviation
        allowed = self._allowed()
        here = self._index(self._incumbent)
        known = sorted(index for index in self._knowledge.measured() if allowed[index])
        best = max(known, key=lambda index: sure[index], default=here)
        if sure[best] <= RETURN:
            return None
        was = self._incumbent
        self._take(self._setting(best))
        self._measured_at = -math.inf
        return self._decide("returned", f"{math.expm1(mean[best]):+.1%} against {was}, by all windows so far")

    def _refuse(self, measurement: Measurement) -> None:
        """Not again, nor what would be worse. Lag grows with the agents, so it tells how many are too many."""
        setting, limit = measurement.setting, self.plan.lag_limit
        old = measurement.stale > STALE_SHARE or (limit and measurement.lag_mean > limit)
        if limit and measurement.lag_mean > limit:
            agents = math.ceil(LAG_ROOM * setting.agents * limit / measurement.lag_mean)
            setting = setting._replace(agents=min(setting.agents, agents))
        refusal = Refusal(setting, more_trainers=bool(old))
        if refusal not in self._refusals:
            self._refusals.append(refusal)

    def _accept(self, reason: str) -> Decision:
        self._take(self._proposal)
        self._measured_at = self._time
        return self._decide("accepted", reason)

    def _take(self, setting: Setting) -> None:
        self._incumbent = setting
        self._over, self._idle = "", 0

    def _decide(self, verdict: str, reason: str) -> Decision:
        return Decision(verdict, self._incumbent, reason, self._temperature)

    def _needed(self) -> float:
        """Deviations by which a gain has to be above 0: none as long as it is hot and everything is worth a try."""
        return SURE * (1 - self._temperature / HOT)

    def _cool(self) -> None:
        self._temperature = max(self._temperature * COOLING, COLD)

    def _excess(self, measurement: Measurement) -> str:
        """Why a setting must not be taken, however many updates it makes: what it trains on is too old."""
        limit = self.plan.lag_limit
        if limit and measurement.lag_mean > limit:
            return f"policy lag of {measurement.lag_mean:.1f} updates, above the limit of {limit:g}"
        if measurement.stale > STALE_SHARE:
            return f"{measurement.stale:.0%} of the steps were too old to train on"
        system, queue = self.plan.system, measurement.training_queue
        half = len(queue) // 2
        if half:
            first, last = fmean(queue[:half]), fmean(queue[-half:])
            # What a bounded queue may hold: some batches, and what was under way when it was full.
            room = QUEUE_BATCHES * max(1.0, system.min_batch / system.t_max)
            if last - first > room + measurement.setting.agents * system.envs_per_agent:
                return f"the training queue grew from {first:.0f} to {last:.0f} experiences"
        return ""

    # Knowledge

    @property
    def _knowledge(self) -> Surrogate:
        if self._surrogate is None:
            self._surrogate = Surrogate(make_prior(self.plan.space, self.plan.system, (self.plan.start.agents,)))
        return self._surrogate

    def _learn(self, measurement: Measurement) -> None:
        knowledge = self._knowledge
        knowledge.set_noise(self._noise())
        knowledge.add(self._index(measurement.setting), self._time, math.log(measurement.mean_tps))

    def _surprise(self, measurement: Measurement) -> tuple[float, float]:
        """How many deviations a window is away from what was expected of it, and the log TPS that was."""
        mean, deviation = self._knowledge.expect(self._index(measurement.setting), self._time)
        return (math.log(measurement.mean_tps) - mean) / math.hypot(deviation, self._noise()), mean

    def _noise(self) -> float:
        """Deviation of a window: from the spread of its parts, more if the incumbent's windows vary by more."""
        guess = FIRST_NOISE**2 * FIRST_WINDOWS
        squared = (guess + sum(self._spreads[-30:])) / (FIRST_WINDOWS + len(self._spreads[-30:]))
        surprises = self._surprises[-20:]
        wider = max(1.0, fmean(surprises)) if len(surprises) >= 5 else 1.0
        return max(math.sqrt(squared * wider), LEAST_NOISE)

    def _index(self, setting: Setting) -> int:
        return self._knowledge.index[setting]

    def _setting(self, index: int) -> Setting:
        return self._knowledge.prior.settings[index]


def expected_gain(mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the better of two settings over the one at hand, if the other's gain is normal."""
    ratio = mean / np.maximum(deviation, 1e-9)
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi)
    share = 0.5 * (1 + _erf(ratio / math.sqrt(2)))
    gain: NDArray[np.float64] = mean * share + deviation * density
    return gain


_erf = np.vectorize(math.erf, otypes=[float])


def worth_of_a_window(mean: NDArray[np.float64], deviation: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """What it is worth to measure each setting once: the gain that this may show, less what it costs.

    A window is noisy, so it moves what is believed of a setting by less than its deviation.
    """
    shown = deviation**2 / np.hypot(deviation, noise)
    worth: NDArray[np.float64] = expected_gain(mean, shown) - (TRIAL + np.maximum(-mean, 0.0)) / HORIZON
    return worth
