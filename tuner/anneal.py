"""The default strategy: simulated annealing that knows its noise and pools what it learns.

Each window measures either a challenger or, again, the incumbent. Challengers are drawn by what they promise, the more
freely the higher the temperature; one is accepted by what all windows together say of it against the incumbent, and
at a temperature also if it is a little worse. As the temperature falls and nothing promises more, the strategy holds
what it has and probes rarely. It opens again when the incumbent's TPS is no longer what it was.
"""

from __future__ import annotations

import math
from statistics import fmean, variance
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.space import Setting
from tuner.strategy import Decision, Measurement, Plan
from tuner.surrogate import Surrogate, make_prior

# Gains, deviations and temperatures are of log TPS: 0.01 is one percent.
HOT, COLD = 0.02, 0.0005  # first and lowest temperature
COOLING = 0.8  # per challenger
SPREAD = 0.2  # of a temperature: the promise by which a challenger has to fall short to become rare
RETURN = 0.003  # gain of a setting measured before at which it becomes the incumbent again
WORTH_A_WINDOW = 0.002  # expected gain below which no challenger is worth its window
CAUTION = 0.08  # how much of an expected loss counts against the expected gain of a challenger
PROBE_EVERY = 8  # windows, while nothing is worth one
NEAR = 3  # windows after which the incumbent is measured again, so that a comparison is one of now
ALARM, WARNING = 4.0, 2.6  # deviations from what was expected: one such window, or two in a row, mean a change
LEAST_NOISE = 0.004
FIRST_NOISE, FIRST_WINDOWS = 0.04, 1  # a guess of the noise, and how many windows it weighs
STALE_SHARE = 0.01  # of the steps thrown away as too old
LAG_ROOM = 1.2  # agents beyond those that would just have the lag of the limit, which are not tried any more
QUEUE_GROWTH = 1.5  # batches that the training queue may gain over a window


class Anneal:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._random = np.random.default_rng(plan.seed)
        self._incumbent = plan.start
        self._surrogate: Surrogate | None = None  # made when first needed: its prior takes seconds
        self._time = 0
        self._measured_at = -math.inf  # when the incumbent was last
        self._warned = 0.0  # deviations of the incumbent's last window from what was expected
        self._suspect = False  # a challenger was so far off that the incumbent has to tell whether the machine changed
        self._cold_since = 0  # last window that was worth something else than holding
        self._temperature = HOT
        self._spreads: list[float] = []  # variances of windows, from their parts
        self._surprises: list[float] = []  # squared deviations of the incumbent's windows from what was expected
        self._refused: list[Setting] = []  # for their lag or queue, with all above them
        self._failed: set[Setting] = set()  # could not be applied
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
        self._note_spread(measurement)
        excess = self._excess(measurement)
        if measurement.setting == self._incumbent:
            return self._observe_incumbent(measurement, excess)
        return self._observe_challenger(measurement, excess)

    def random_state(self) -> Any:
        return self._random.bit_generator.state["state"]

    # Proposals

    def _choose(self) -> Setting:
        if self._surrogate is None or self._suspect:
            return self._incumbent
        mean, deviation = self._surrogate.gain_over(self._index(self._incumbent))
        allowed = self._allowed()
        if not allowed[self._index(self._incumbent)]:
            return self._setting(int(np.where(allowed, mean, -np.inf).argmax()))  # the best guess within the limits
        if self._time - self._measured_at >= NEAR:
            return self._incumbent
        promise = expected_gain(mean, deviation) + CAUTION * np.minimum(mean, 0.0)
        promise[self._index(self._incumbent)] = -np.inf
        promise[~allowed] = -np.inf
        if promise.max() < WORTH_A_WINDOW and self._time - self._cold_since < PROBE_EVERY:
            return self._incumbent
        self._cold_since = self._time
        weights = np.exp((promise - promise.max()) / max(self._temperature * SPREAD, 1e-6))
        return self._setting(int(self._random.choice(len(weights), p=weights / weights.sum())))

    def _allowed(self) -> NDArray[np.bool_]:
        """Settings that were neither refused, nor have more agents and trainers than a refused one, nor failed."""
        settings = self._knowledge.prior.settings
        return np.array(
            [
                setting not in self._failed
                and not any(
                    setting.agents >= refused.agents and setting.trainers >= refused.trainers
                    for refused in self._refused
                )
                for setting in settings
            ]
        )

    # Observations

    def _observe_incumbent(self, measurement: Measurement, excess: str) -> Decision:
        tps, first = measurement.mean_tps, self._surrogate is None
        if excess:
            self._refuse(measurement)
        surprise, expected = self._surprise(measurement)
        changed = not first and self._has_changed(surprise)
        if changed:
            self._reopen(math.log(tps) - expected)
        elif not first:
            self._surprises.append(min(surprise**2, 9.0))
        self._suspect = False
        self._measured_at = self._time
        self._learn(measurement)
        if changed:
            told = f"{tps:.2f} TPS, {abs(surprise):.1f} deviations from the expected {math.exp(expected):.2f}"
            return self._decide("reopened", f"{told}: the machine has changed")
        if excess:
            return self._decide("kept", f"{excess}: to be left")
        if first:
            return self._decide("start", f"{tps:.2f} TPS to compare with")
        return self._decide("kept", f"{tps:.2f} TPS, measured again: as expected" + self._return())

    def _has_changed(self, surprise: float) -> bool:
        """Whether the machine is no longer what it was: one window far off what was expected, or two in a row."""
        before, self._warned = self._warned, surprise
        return abs(surprise) > ALARM or (abs(surprise) > WARNING and surprise * before > WARNING**2)

    def _reopen(self, gain: float) -> None:
        self._knowledge.begin_epoch(gain)
        self._surprises.clear()
        self._refused.clear()
        self._warned = 0.0
        self._temperature = HOT
        self._cold_since = self._time

    def _observe_challenger(self, measurement: Measurement, excess: str) -> Decision:
        challenger, incumbent = measurement.setting, self._incumbent
        self._suspect = abs(self._surprise(measurement)[0]) > ALARM
        self._learn(measurement)
        self._cool()
        leaving = not self._allowed()[self._index(incumbent)]
        if excess:
            self._refuse(measurement)
            return self._decide("refused", excess)
        mean, deviation = self._knowledge.gain_over(self._index(incumbent))
        gain, doubt = float(mean[self._index(challenger)]), float(deviation[self._index(challenger)])
        told = f"{gain:+.1%} ± {doubt:.1%} against {incumbent}"
        if leaving:
            return self._accept(f"{told}, which is over its limit")
        if gain > 0:
            return self._accept(told)
        if self._random.random() < math.exp(gain / self._temperature):
            return self._accept(f"{told}, within the temperature of {self._temperature:.2%}")
        return self._decide("refused", told + self._return())

    def _observe_nothing(self, measurement: Measurement) -> Decision:
        if measurement.setting == self._incumbent:
            return self._decide("kept", "no update in the whole window: nothing to compare")
        self._failed.add(measurement.setting)
        return self._decide("refused", "no update in the whole window")

    def _return(self) -> str:
        """Back to a setting that was measured before, if all windows together now say that it is better; in words."""
        mean, _ = self._knowledge.gain_over(self._index(self._incumbent))
        allowed = self._allowed()
        known = [index for index in self._knowledge.measured() if allowed[index]]
        best = max(known, key=lambda index: mean[index])
        if mean[best] <= RETURN:
            return ""
        was = self._incumbent
        self._take(self._setting(best))
        return f"; back to {self._incumbent}, by now {mean[best]:+.1%} against {was}"

    def _refuse(self, measurement: Measurement) -> None:
        """Not again, nor anything with more agents and trainers. Lag grows with the agents, so it tells how many."""
        agents, limit = measurement.setting.agents, self.plan.lag_limit
        if limit and measurement.lag_mean > limit:
            agents = min(agents, math.ceil(LAG_ROOM * agents * limit / measurement.lag_mean))
        self._refused.append(measurement.setting._replace(agents=agents))

    def _accept(self, reason: str) -> Decision:
        self._take(self._proposal)
        self._measured_at = self._time
        return self._decide("accepted", reason)

    def _take(self, setting: Setting) -> None:
        self._incumbent = setting
        self._warned = 0.0

    def _decide(self, verdict: str, reason: str) -> Decision:
        return Decision(verdict, self._incumbent, reason, self._temperature)

    def _cool(self) -> None:
        self._temperature = max(self._temperature * COOLING, COLD)

    def _excess(self, measurement: Measurement) -> str:
        """Why a setting must not be taken, however many updates it makes: what it trains on is too old."""
        limit = self.plan.lag_limit
        if limit and measurement.lag_mean > limit:
            return f"policy lag of {measurement.lag_mean:.1f} updates, above the limit of {limit:g}"
        if measurement.stale > STALE_SHARE:
            return f"{measurement.stale:.0%} of the steps were too old to train on"
        experiences = QUEUE_GROWTH * max(1.0, self.plan.system.min_batch / self.plan.system.t_max)
        first, last = measurement.training_queue[0], measurement.training_queue[-1]
        if last - first > max(experiences, first):
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

    def _note_spread(self, measurement: Measurement) -> None:
        mean = measurement.mean_tps
        if len(measurement.tps) > 1:
            self._spreads.append(variance(part / mean for part in measurement.tps) / len(measurement.tps))

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
