"""A training run from its settings to its summary."""

from __future__ import annotations

import logging
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ga3c.agents.crew import AgentsKeepDying
from ga3c.games.ale import find_rom
from ga3c.runs.resolve import probe, resolve
from ga3c.runs.checkpoint import CheckpointError, load_newest, save_checkpoint
from ga3c.settings.config import Config
from ga3c.runs.display import Display, make_display
from ga3c.games.spec import EnvSpec
from ga3c.system.limits import MEMORY_WITH_TORCH, limit_advice, make_room
from ga3c.system.logs import SHORT, RunLog
from ga3c.runs.rundir import RunDirectory
from ga3c.engines.server import Server
from ga3c.settings.declare import ConfigError
from ga3c.memory.stats import Snapshot, Stats, window_row
from ga3c.system.signals import stop_requests
from ga3c.runs.tuning import Tuning

if TYPE_CHECKING:
    from ga3c.engines.workers import Learner
    from ga3c.models.model import TrainableModel
    from ga3c.engines.serial import SerialServer

log = logging.getLogger(__name__)

RATES = (
    "pps",
    "tps",
    "trained_per_second",
    "agents",
    "remote_agents",
    "predictors",
    "trainers",
    "lag_mean",
)  # of the whole session
# The settings that decide which players there are: only the same ones can go on with a saved play.
PLAYERS = ("serial", "seed", "agents", "envs_per_agent", "t_max", "correction")
FAILED = "failed: "  # what an exit reason begins with then
SHORTEST_WINDOW = 0.2  # seconds; what is left at the end and shorter than that has no rates worth a line


class Interrupted(Exception):
    """The run is to end before it has begun to play."""


class RunFailed(RuntimeError):
    """A run ended by a failure: logged with its traceback, and saved as far as it came."""


def train(config: Config) -> dict[str, Any]:
    """Train until a maximum is reached or the run is interrupted; returns the summary, as in ``summary.json``."""
    with stop_requests() as interrupted:
        return run_training(config, interrupted)


def run_training(config: Config, interrupted: threading.Event) -> dict[str, Any]:
    """``train`` for a caller who has its own way to interrupt."""
    spec = probe(config)
    config = resolve(config, spec)
    if not config.serial:
        make_room(config.agents or 1, memory_each=MEMORY_WITH_TORCH if config.algo == "a3c" else 0.0)
    if interrupted.is_set():
        raise KeyboardInterrupt  # before there is anything to end or to tell of
    return Training(config, spec, interrupted).run()


class AnyServer(Protocol):
    """What a run needs of the server that plays and trains, of whichever kind."""

    @property
    def setting(self) -> dict[str, int]:
        """NA, NP and NT as they are now."""

    def wait(self, seconds: float) -> None:
        """Let it work for about this long. Raises what it failed with."""

    def stop(self) -> None:
        """End it all."""


class Training:
    """One run: the server, of the kind that the settings ask for, and all that is written of it."""

    def __init__(self, config: Config, spec: EnvSpec, interrupted: threading.Event) -> None:
        self._config = config
        self._spec = spec
        self._stats = Stats()
        self._interrupted = interrupted
        self._saved_version = -1  # of the newest checkpoint of this session
        self._unsaved = ""  # why the last checkpoint could not be written
        self._arrays, self._state = self._read_resumed()
        if self._state:
            self._stats.load(self._state["stats"])
        self._directory = RunDirectory(config)
        self._config = config = config.replace(run=str(self._directory.path))
        self._display: Display = make_display(config, config.run, sys.stderr)
        self._log = RunLog(
            self._directory.path / "log.txt", self._display.log_handler(logging.Formatter(SHORT, "%H:%M:%S"))
        )
        self._model: TrainableModel | None = None
        self._server: AnyServer | None = None
        self._serial: SerialServer | None = None  # the same, if it is one
        self._tuning: Tuning | None = None
        self._playing = False
        self._first: Snapshot = self._stats.snapshot()  # when play began
        self._window = self._first  # when the window of the next line began

    def run(self) -> dict[str, Any]:
        reason, error = "", None
        try:
            reason = self._loop(*self._start())
        except Interrupted:
            reason = "interrupted"
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
        if summary["exit_reason"].startswith(FAILED):
            raise RunFailed(summary["exit_reason"].removeprefix(FAILED)) from error
        return summary

    def _start(self) -> tuple[AnyServer, TrainableModel]:
        config = self._config
        play = self._take_up_play()
        if config.serial:
            self._start_serial(play)
        elif config.algo == "a3c":
            self._start_a3c()
        else:
            self._start_parallel()
        assert self._server is not None
        assert self._model is not None
        device, network = self._model.device, self._model.network
        log.info("%s on %s: the %s network has %d weights", config.game, device, config.network, network.weights)
        log.info("the run is in %s", self._directory.path)
        return self._server, self._model

    def _start_serial(self, play: dict[str, Any] | None) -> None:
        from ga3c.engines.serial import SerialServer

        learner = self._make_learner()
        self._server = self._serial = SerialServer(self._config, self._spec, learner, self._stats, play)

    def _start_a3c(self) -> None:
        from ga3c.engines.lone import A3CServer

        self._server = server = A3CServer(self._config, self._spec, self._stats, self._log.queue)
        self._restore(server.model)
        self._leave_if_interrupted()
        server.start()

    def _start_parallel(self) -> None:
        config = self._config
        self._server = server = Server(config, self._spec, self._stats, self._log.queue)
        server.start_agents()
        self._leave_if_interrupted()
        learner = self._make_learner()
        self._leave_if_interrupted()
        server.start(learner)
        if config.tuner != "off":
            gpu = learner.model.device.type != "cpu"
            self._tuning = Tuning(config, server, self._stats, self._directory.path, gpu=gpu)

    def _take_up_play(self) -> dict[str, Any] | None:
        """Where a serial run stood, if this one can go on there; else what was under way then is lost."""
        play: dict[str, Any] | None = self._state.get("play")
        if play is not None:
            before = self._state["config"]
            changed = [
                name.upper()
                for name in PLAYERS
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

    def _make_learner(self) -> Learner:
        from ga3c.engines.workers import Learner

        learner = Learner(self._config, self._spec, self._stats)
        self._restore(learner.model)
        return learner

    def _restore(self, model: TrainableModel) -> None:
        """Let the model be where the run stood; from here on it is what is saved, and so it can be resumed."""
        if self._state:
            model.load(self._state["updates"], self._arrays)
            log.info("resumed at step %d, update %d", self._stats.totals.steps, self._state["updates"])
        self._directory.write_config(self._config)
        self._model = model

    def _loop(self, server: AnyServer, model: TrainableModel) -> str:
        """Log and save at their intervals, until there is a reason to stop."""
        next_log = time.monotonic() + self._config.log_seconds
        next_save = time.monotonic() + self._config.checkpoint_seconds
        before = self._stats.totals.predictions
        while not (reason := self._reason_to_stop()):
            server.wait(0.05)
            now = time.monotonic()
            if not self._playing and self._stats.totals.predictions > before:
                self._playing = True
                self._first = self._window = self._stats.snapshot()  # rates leave out the start
                log.info("first prediction after %.1f s", self._stats.session_seconds)
                if self._tuning is not None:
                    self._tuning.begin()
            if now >= next_log:
                self._log_window(server)
                next_log += self._config.log_seconds
                if now >= next_log:  # it is late by more than a window: the next one has its full time
                    next_log = now + self._config.log_seconds
            if now >= next_save:
                self._directory.add_games(self._stats.take_games())  # all that the checkpoint counts
                self._save(model)
                next_save = now + self._config.checkpoint_seconds
        return reason

    def _reason_to_stop(self) -> str:
        config, totals = self._config, self._stats.totals
        if self._interrupted.is_set():
            return "interrupted"
        if config.max_steps and totals.steps >= config.max_steps:
            return "max_steps"
        if config.max_episodes and totals.episodes >= config.max_episodes:
            return "max_episodes"
        if config.max_seconds and self._stats.seconds >= config.max_seconds:
            return "max_seconds"
        return ""

    def _log_window(self, server: AnyServer) -> None:
        now = self._stats.snapshot()
        last = self._stats.scores[-1] if self._stats.scores else None
        row = window_row(self._window, now, server.setting, last, self._stats.score)
        self._window = now
        self._display.update(row)
        self._directory.add_metrics(row)
        self._directory.add_games(self._stats.take_games())

    def _end(self, reason: str, refused: bool) -> dict[str, Any]:
        """Stop everything, save, and write the summary: after a maximum, Ctrl-C and a failure alike."""
        if self._tuning is not None:
            self._tuning.stop()
        rates: dict[str, Any] = dict.fromkeys(RATES, 0)
        if self._server is not None:
            if self._playing and self._stats.seconds - self._window.seconds > SHORTEST_WINDOW:
                self._log_window(self._server)
            # Taken before the stop, which is no part of what is measured.
            row = window_row(self._first, self._stats.snapshot(), self._server.setting, None, None)
            rates = {key: row[key] for key in RATES}
            self._server.stop()
        self._directory.add_games(self._stats.take_games())
        if self._model is not None and not refused:
            self._save(self._model)
            if self._unsaved:
                reason = f"{FAILED}{reason.removeprefix(FAILED)}, and {self._unsaved_training()}"
                log.error("%s", reason)
        summary = self._summary(rates, reason)
        if not refused:  # else it is no run, and one that was to be resumed stays as it is
            self._directory.write_summary(summary)
            log.info("%s: summary in %s", reason, self._directory.path / "summary.json")
        self._directory.close()
        return summary

    def _summary(self, rates: dict[str, Any], reason: str) -> dict[str, Any]:
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

    def _save(self, model: TrainableModel) -> None:
        version, arrays = model.state()
        stats = self._stats.state()
        stats["totals"]["updates"] = version  # trainers may have gone on since
        state = {
            "updates": version,
            "steps": stats["totals"]["steps"],
            "game": self._config.game,
            "network": self._config.network,
            "config": self._config.to_dict(),
            "stats": stats,
            "play": self._serial.state() if self._serial is not None else None,
        }
        try:
            save_checkpoint(self._directory.checkpoints, arrays, state, self._config.keep_checkpoints)
        except OSError as error:
            if not self._unsaved:
                log.warning("no checkpoint can be written (%s); training goes on", error)
            self._unsaved = str(error)
        else:
            if self._unsaved:
                log.info("checkpoints can be written again")
            self._saved_version, self._unsaved = version, ""

    def _unsaved_training(self) -> str:
        """What is lost where the last checkpoint could not be written."""
        newest = (
            f"the newest is of update {self._saved_version}"
            if self._saved_version >= 0
            else "nothing of this session is saved"
        )
        return f"its last checkpoint could not be written ({self._unsaved}): {newest}"

    def _read_resumed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The checkpoint to go on from, refused where it is of something else."""
        if not self._config.resume:
            return {}, {}
        path, arrays, state = load_newest(Path(self._config.resume))
        if _same_game(state["game"]) != _same_game(self._config.game):
            raise CheckpointError(f"{path} is of GAME={state['game']}, not {self._config.game}")
        for name in ("network", "hidden", "normalize"):
            saved, wanted = state["config"][name], getattr(self._config, name)
            if saved != wanted:
                raise CheckpointError(f"{path} is of {name.upper()}={saved}, not {wanted}")
        return arrays, state


def explain(error: Exception, config: Config) -> str:
    """What went wrong and, where that is known, what to do about it."""
    advice = ""
    for part in (error, error.__cause__):
        if part is None or advice:
            continue
        advice = limit_advice(part, config.agents or 1)
        if "torch" in sys.modules:
            from ga3c.engines.workers import memory_advice

            advice = advice or memory_advice(part)
    return f"{error}. {advice}" if advice else str(error)


def _same_game(game: str) -> str:
    return find_rom(game) or game
