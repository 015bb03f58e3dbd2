"""A training run from its settings to its summary."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ga3c.agents.crew import AgentsKeepDying
from ga3c.algorithms.rule import make_acting, make_learning
from ga3c.engines.engine import Engine, make_engine
from ga3c.engines.server import Server
from ga3c.games.make import one_name
from ga3c.games.spec import EnvSpec
from ga3c.memory.figures import FIGURES, window_row
from ga3c.memory.stats import Snapshot, Stats
from ga3c.models.names import is_own
from ga3c.runs.checkpoint import CheckpointError, load_newest
from ga3c.runs.display import make_display
from ga3c.runs.resolve import probe, resolve
from ga3c.runs.rundir import Rates, RunDirectory, Summary
from ga3c.runs.saving import Saving
from ga3c.runs.tuning import Tuning
from ga3c.settings.config import Config, Resolved
from ga3c.settings.declare import ConfigError, settings_that
from ga3c.system.limits import MEMORY_WITH_TORCH, limit_advice, room_for
from ga3c.system.logs import RunLog, screen_handler
from ga3c.system.signals import stop_requests

if TYPE_CHECKING:
    from ga3c.models.model import TrainableModel

log = logging.getLogger(__name__)

Callback = Callable[[dict[str, Any]], object]  # gets the row of figures of each log interval; False ends the run

FAILED = "failed: "  # what an exit reason begins with then
SHORTEST_WINDOW = 0.2  # seconds; less than that at the end has no rates worth a line, unless it is all there is


class Interrupted(Exception):
    """The run is to end before it has begun to play."""


class CallbackFailed(Exception):
    """What the caller's code raised, as the cause: it ends the run, and is raised again when all is saved."""


class RunFailed(RuntimeError):
    """A run ended by a failure: logged with its traceback, and saved as far as it came."""


def train(config: Config, callback: Callback | None = None) -> Summary:
    """Train until a maximum is reached or the run is interrupted; returns the summary, as in ``summary.json``.

    The callback gets the figures of each log interval, as in ``metrics.jsonl``. When it returns False, the run ends.
    """
    with stop_requests() as interrupted:
        return run_training(config, interrupted, callback)


def run_training(config: Config, interrupted: threading.Event, callback: Callback | None = None) -> Summary:
    """``train`` for a caller who has its own way to interrupt."""
    alone = config.recipe.agents_learn
    if alone and config.device not in ("auto", "cpu"):
        raise ConfigError(
            f"ALGO={config.algo} trains on the CPU, in every agent by itself: DEVICE={config.device} is for others"
        )
    spec = probe(config)
    resolved = resolve(config, spec)
    if is_own(resolved.network):
        make_learning(resolved, spec)  # what does not fit is refused before anything starts, though torch takes seconds
    room = room_for(resolved.agents, memory_each=MEMORY_WITH_TORCH if alone else 0.0)
    with contextlib.nullcontext() if resolved.serial else room:
        if interrupted.is_set():
            raise KeyboardInterrupt  # before there is anything to end or to tell of
        # What followed from other settings does so again when the run is resumed, maybe with others.
        following = {name: getattr(config, name) for name in settings_that(Config, "follows")}
        return Training(resolved, spec, interrupted, following, callback).run()


class Training:
    """One run: the server, of the kind that the settings ask for, and all that is written of it."""

    def __init__(
        self,
        config: Resolved,
        spec: EnvSpec,
        interrupted: threading.Event,
        following: dict[str, Any],
        callback: Callback | None,
    ) -> None:
        """With the settings that follow from others, as they were given."""
        self._config = config
        self._spec = spec
        self._following = following
        self._stats = Stats()
        self._interrupted = interrupted
        self._callback = callback
        self._enough = False  # the callback says so
        self._arrays, self._state = self._read_resumed()
        if self._state:
            self._stats.load(self._state["stats"])
        self._directory = RunDirectory(config)
        self._config = config = config.replace(run=str(self._directory.path))
        self._saving = Saving(self._directory.checkpoints, config, self._stats)
        self._figures = (*FIGURES, *make_acting(config, spec).figures)
        self._display = make_display(config, config.run, sys.stderr, self._figures)
        self._log = RunLog(self._directory.path / "log.txt", screen_handler(self._display.stream))
        self._model: TrainableModel | None = None
        self._engine: Engine | None = None
        self._tuning: Tuning | None = None
        self._playing = False
        self._first: Snapshot = self._stats.snapshot()  # when play began
        self._window = self._first  # when the window of the next line began

    def run(self) -> Summary:
        reason, error = "", None
        raised: BaseException | None = None  # by the callback
        try:
            reason = self._loop(*self._start())
        except Interrupted:
            reason = "interrupted"
        except CallbackFailed as caught:
            raised = caught.__cause__
            reason = f"{FAILED}the callback raised {type(raised).__name__}: {raised}"
        except Exception as caught:
            if isinstance(caught, AgentsKeepDying) and self._interrupted.is_set():
                reason = "interrupted"  # by a signal to the whole group, which agents heard as well
            else:
                reason, error = f"{FAILED}{explain(caught, self._config)}", caught
                if not isinstance(caught, ConfigError):  # wrong words need no traceback
                    log.exception("the run failed")
        try:
            summary = self._end(reason, refused=isinstance(error, ConfigError))
        finally:
            self._display.close()
            self._log.close()
        if isinstance(error, ConfigError):
            raise error
        if raised is not None:
            raise raised
        if summary["exit_reason"].startswith(FAILED):
            raise RunFailed(summary["exit_reason"].removeprefix(FAILED)) from error
        return summary

    def _start(self) -> tuple[Engine, TrainableModel]:
        config = self._config
        play = self._take_up_play()
        self._engine = engine = make_engine(config, self._spec, self._stats, self._log.queue)
        self._leave_if_interrupted()
        model = engine.prepare()
        self._restore(model)
        self._leave_if_interrupted()
        engine.start(play)
        if config.tuner != "off" and not config.serial:
            assert isinstance(engine, Server)
            gpu = model.device.type != "cpu"
            self._tuning = Tuning(config, engine, self._stats, self._directory.path, gpu=gpu)
        name, weights = config.network, model.network.weights
        for remark in self._spec.remarks:
            log.warning("%s", remark)
        log.info("%s on %s: the %s network has %d weights", config.game, model.device, name, weights)
        log.info("the run is in %s", self._directory.path)
        return engine, model

    def _take_up_play(self) -> dict[str, Any] | None:
        """Where a serial run stood, if this one can go on there; else what was under way then is lost."""
        play: dict[str, Any] | None = self._state.get("play")
        if play is not None:
            before = self._state["config"]
            changed = [
                name.upper()
                for name in settings_that(Config, "decides", "players")
                if before.get(name, getattr(Config, name)) != getattr(self._config, name)
            ]
            if not changed:
                return play
            log.warning("all environments begin a new episode, since other settings are given: %s", ", ".join(changed))
        lost = self._stats.totals.under_way
        if lost:
            self._stats.add(lost_steps=lost)
            log.warning("%d steps were under way when the checkpoint was written, and are lost", lost)
        return None

    def _leave_if_interrupted(self) -> None:
        """While it starts, which takes seconds."""
        if self._interrupted.is_set():
            raise Interrupted

    def _restore(self, model: TrainableModel) -> None:
        """Let the model be where the run stood; from here on it is what is saved, and so it can be resumed."""
        if self._state:
            model.load(self._state["updates"], self._arrays)
            log.info("resumed at step %d, update %d", self._stats.totals.steps, self._state["updates"])
        self._directory.write_config({**self._config.to_dict(), **self._following})
        self._model = model

    def _loop(self, engine: Engine, model: TrainableModel) -> str:
        """Log and save at their intervals, until there is a reason to stop."""
        next_log = time.monotonic() + self._config.log_seconds
        next_save = time.monotonic() + self._config.checkpoint_seconds
        before = self._stats.totals.predictions
        while not (reason := self._reason_to_stop()):
            engine.wait(0.05)
            now = time.monotonic()
            if not self._playing and self._stats.totals.predictions > before:
                self._playing = True
                self._first = self._window = self._stats.snapshot()  # rates leave out the start
                log.info("first prediction after %.1f s", self._stats.session_seconds)
                if self._tuning is not None:
                    self._tuning.begin()
            if now >= next_log:
                self._call_back(self._log_window(engine))
                next_log += self._config.log_seconds
                if now >= next_log:  # it is late by more than a window: the next one has its full time
                    next_log = now + self._config.log_seconds
            if now >= next_save:
                self._directory.add_games(self._stats.take_games())  # all that the checkpoint counts
                self._saving.save(model, engine.state())
                next_save = now + self._config.checkpoint_seconds
        if not self._playing and reason.startswith("max_"):
            self._tell_unplayed(reason)
        return reason

    def _reason_to_stop(self) -> str:
        if self._interrupted.is_set():
            return "interrupted"
        return "callback" if self._enough else self._stats.reached(self._config)

    def _call_back(self, row: dict[str, Any]) -> None:
        if self._callback is None:
            return
        try:
            answer = self._callback(dict(row))
            self._enough = answer is not None and not answer
        except BaseException as error:  # whatever it is: agents and files are ours to end first
            raise CallbackFailed from error

    def _tell_unplayed(self, maximum: str) -> None:
        """A run that ends before it plays looks like one that works: say why, and what to do."""
        totals = self._stats.totals
        reached = {
            "max_steps": f"{totals.steps} steps",
            "max_episodes": f"{totals.episodes} games",
            "max_seconds": f"{self._stats.seconds:.1f} s",
        }[maximum]
        word, value = maximum.upper(), getattr(self._config, maximum)
        done = "are behind it" if self._state else "had passed"
        log.warning(
            "%s=%g was reached before the first prediction, since %s %s: give a larger %s",
            word,
            value,
            reached,
            done,
            word,
        )

    def _log_window(self, engine: Engine) -> dict[str, Any]:
        now = self._stats.snapshot()
        last = self._stats.scores[-1] if self._stats.scores else None
        row = window_row(self._window, now, engine.setting, last, self._stats.score, self._figures)
        self._window = now
        self._display.update(row)
        self._directory.add_metrics(row, self._figures)
        self._directory.add_games(self._stats.take_games())
        return row

    def _end(self, reason: str, refused: bool) -> Summary:
        """Stop everything, save, and write the summary: after a maximum, Ctrl-C and a failure alike."""
        if self._tuning is not None:
            self._tuning.stop()
        rates: Any = dict.fromkeys(Rates.__annotations__, 0)
        if self._engine is not None:
            unlogged = self._stats.seconds - self._window.seconds
            if self._playing and (unlogged > SHORTEST_WINDOW or self._window is self._first):
                self._log_window(self._engine)
            # Taken before the stop, which is no part of what is measured.
            row = window_row(self._first, self._stats.snapshot(), self._engine.setting, None, None)
            rates = {key: row[key] for key in rates}
            self._engine.stop()
        self._directory.add_games(self._stats.take_games())
        if self._model is not None and self._engine is not None and not refused:
            unsaved = self._saving.save_last(self._model, self._engine.state())
            if unsaved:
                reason = f"{FAILED}{reason.removeprefix(FAILED)}, and {unsaved}"
                log.error("%s", reason)
        summary = self._summary(rates, reason)
        if not refused:  # else it is no run, and one that was to be resumed stays as it is
            if self._directory.write_summary(summary):
                log.info("%s: summary in %s", reason, self._directory.path / "summary.json")
            else:
                log.warning("%s: there is no summary of it", reason)
        self._directory.close()
        return summary

    def _summary(self, rates: Rates, reason: str) -> Summary:
        totals = self._stats.totals
        return {
            "steps": totals.steps,
            "updates": totals.updates,
            "episodes": totals.episodes,
            "seconds": self._stats.seconds,
            **rates,
            "score": self._stats.score,
            "lag_max": self._stats.lag_max_ever,
            "stale_steps": totals.stale_steps,
            "lost_steps": totals.lost_steps,
            "unaccounted_steps": totals.unaccounted_steps,
            "bad_updates": totals.bad_updates,
            "bad_messages": totals.bad_messages,
            "run": str(self._directory.path),
            "exit_reason": reason,
        }

    def _read_resumed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The checkpoint to go on from, refused where it is of something else."""
        if not self._config.resume:
            return {}, {}
        path, arrays, state = load_newest(Path(self._config.resume))
        if one_name(state["game"]) != one_name(self._config.game):
            raise CheckpointError(f"{path} is of GAME={state['game']}, not {self._config.game}")
        for name in settings_that(Config, "decides", "model"):
            wanted, usual = getattr(self._config, name), getattr(Config, name)
            # Of an older run: what there was before the setting was.
            saved = state["config"].get(name, wanted if usual is None else usual)
            if saved != wanted:
                raise CheckpointError(f"{path} is of {name.upper()}={saved}, not {wanted}")
        return arrays, state


def explain(error: Exception, config: Resolved) -> str:
    """What went wrong and, where that is known, what to do about it."""
    advice = ""
    for part in (error, error.__cause__):
        if part is None or advice:
            continue
        advice = limit_advice(part, config.agents)
        if "torch" in sys.modules:
            from ga3c.engines.workers import memory_advice

            advice = advice or memory_advice(part)
    return f"{error}. {advice}" if advice else str(error)
