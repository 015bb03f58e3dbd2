"""What a trace amounts to, in numbers and in sentences: for the terminal, the picture and the page alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tuner.space import Setting
from tuner.text import gain_in_words, number, unit_of
from tuner.trace import Trace, Trial

# What the verdicts of a strategy mean, in the order of a legend.
VERDICTS = {
    "start": "first window: the setting to compare with",
    "accepted": "accepted: the setting that was tried is kept from here on",
    "refused": "refused: it went back to the setting before",
    "kept": "kept: the setting in force, measured again",
    "returned": "returned: to a setting that was measured before, by what is known now",
    "reopened": "reopened: speed has changed, so the search begins again",
    "failed": "failed: the setting could not be measured",
}


@dataclass(frozen=True)
class Story:
    """A run, or a replay of one, as it is shown."""

    name: str
    trace: Trace
    simulated: frozenset[int] = frozenset()  # numbers of the trials whose TPS is the simulator's
    notes: tuple[str, ...] = ()  # what a reader has to know beside the figures

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.trace.trials

    @property
    def start(self) -> Setting:
        return self.trace.plan.start

    @property
    def final(self) -> Setting:
        return self.trials[-1].decision.incumbent if self.trials else self.start

    @property
    def start_tps(self) -> float | None:
        return _mean_tps(self.trials, self.start)

    @property
    def final_tps(self) -> float | None:
        """Since the machine changed for the last time, if it did and the setting was measured since."""
        reopened = [index for index, trial in enumerate(self.trials) if trial.decision.verdict == "reopened"]
        since = self.trials[reopened[-1] :] if reopened else self.trials
        now = _mean_tps(since, self.final)
        return now if now is not None else _mean_tps(self.trials, self.final)

    @property
    def gain(self) -> float | None:
        """How many times the TPS of the start the final setting has."""
        first, last = self.start_tps, self.final_tps
        return last / first if first and last is not None else None

    @property
    def held_since(self) -> float | None:
        """Seconds of the run from which the final setting was the incumbent without a break."""
        since = None
        for trial in reversed(self.trials):
            if trial.decision.incumbent != self.final:
                break
            since = trial.seconds
        return since

    def count(self, verdict: str) -> int:
        return Counter(trial.decision.verdict for trial in self.trials)[verdict]


def _mean_tps(trials: Sequence[Trial], setting: Setting) -> float | None:
    """The mean of all windows under a setting: one window can be lucky."""
    there = [tps_of(trial) for trial in trials if trial.measurement.setting == setting]
    known = [tps for tps in there if tps is not None]
    return fmean(known) if known else None


def tps_of(trial: Trial) -> float | None:
    """TPS of a window; none if it could not be measured."""
    measured = trial.measurement
    if measured.problem or not measured.tps or not all(map(math.isfinite, measured.tps)):
        return None
    return measured.mean_tps


def began(trial: Trial) -> float:
    """Seconds of the run when the setting of a trial was applied."""
    return trial.seconds - trial.window - trial.settling


def in_words(setting: Setting) -> str:
    return ", ".join(
        f"{number} {name}{'' if number == 1 else 's'}"
        for number, name in zip(setting, ("agent", "predictor", "trainer"), strict=True)
    )


def closing_sentence(story: Story) -> str:
    """Start, end, gain and windows of a run in one sentence."""
    if not story.trials:
        return f"{story.name}: the run ended before its first window did, so nothing was decided."
    windows = f"{len(story.trials)} window{'' if len(story.trials) == 1 else 's'} of {story.trace.plan.window:g} s"
    if story.final == story.start:
        return (
            f"{story.name}: stayed at {story.start}, {number(story.final_tps)} TPS, over {windows}{_reopened(story)}."
        )
    return (
        f"{story.name}: {story.start} → {story.final}, {number(story.start_tps)} → {number(story.final_tps)} TPS "
        f"({gain_in_words(story.gain)}) in {windows}{_reopened(story)}."
    )


def _reopened(story: Story) -> str:
    count = story.count("reopened")
    return f"; speed changed and the search began anew {'once' if count == 1 else f'{count} times'}" if count else ""


def printable(text: str) -> str:
    """Texts come from a file: what a terminal would obey, or no font can show, is not printed."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def names_of(paths: list[Path]) -> list[str]:
    """The directories' own names, or whole paths where those would be the same."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def time_unit(stories: Sequence[Story]) -> tuple[float, str]:
    """Seconds of the unit in which a time axis is best read, and its name."""
    return unit_of(max((trial.seconds for story in stories for trial in story.trials), default=0.0))
