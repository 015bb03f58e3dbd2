"""The trials of a run as lines of text for a terminal."""

from __future__ import annotations

from tuner.story import Story, printable, tps_of
from tuner.text import number
from tuner.trace import Trial

WIDTH = 100  # columns
LONG = 40  # trials; of more, only those that changed something are listed
CHANGES = ("start", "accepted", "returned", "reopened")


def trial_table(story: Story) -> str:
    """One line per trial; of a long run those that changed something, and how many others there were."""
    long = len(story.trials) > LONG
    shown = [trial for trial in story.trials if not long or trial.decision.verdict in CHANGES]
    settings = [str(trial.proposed) for trial in shown]
    wide = max([len("NA/NP/NT"), *map(len, settings)])
    lines = [_line("minute", "NA/NP/NT", "TPS ", "decision", "reason", wide)] if shown else []
    for trial, setting in zip(shown, settings, strict=True):
        tps = number(tps_of(trial)) + ("*" if trial.number in story.simulated else " ")
        verdict = trial.decision.verdict
        lines.append(_line(f"{trial.seconds / 60:.1f}", setting, tps, verdict, trial.decision.reason, wide))
    if long:
        others = len(story.trials) - len(shown)
        lines.append(f"{'and ' if shown else ''}{others} trials that changed nothing: {_others(story.trials)}")
    if story.simulated:
        lines.append(
            f"* {len(story.simulated)} of {len(story.trials)} windows simulated: the run never measured that setting"
        )
    return "\n".join(lines)


def _line(minute: str, setting: str, tps: str, verdict: str, reason: str, wide: int) -> str:
    line = f"{minute:>7}  {setting:<{wide}}  {tps:>8}  {verdict:<8}  {reason}"
    line = printable(line).rstrip()
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _others(trials: tuple[Trial, ...]) -> str:
    counts: dict[str, int] = {}
    for trial in trials:
        if trial.decision.verdict not in CHANGES:
            counts[trial.decision.verdict] = counts.get(trial.decision.verdict, 0) + 1
    return printable(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))[:WIDTH]
