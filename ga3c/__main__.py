"""The command line: ``[COMMAND] KEY=VALUE …``. Exit codes: 0 done or Ctrl-C, 1 failure or no result, 2 wrong words.

What commands need is imported when they are called: it may take seconds, in which Ctrl-C has to mean something already.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

from ga3c.system.signals import as_usual, end_at_once, stop_requests

USAGE = """\
Usage: ./run.sh [COMMAND] KEY=VALUE …

  ./run.sh GAME=Pong                      train (the command 'train' may be left out)
  ./run.sh GAME=CartPole-v1 MAX_SECONDS=60
  ./run.sh GAME=Pong ALGO=a3c             the asynchronous baseline: agents that train by themselves
  ./run.sh RESUME=runs/pong-…             go on with a run
  ./run.sh check GAME=module:Id           what is wrong with an environment, and which settings fit it
  ./run.sh list                           the runs: game, score, steps, and which are at work
  ./run.sh watch RUN=runs/…               the live panel of a run that is at work elsewhere
  ./run.sh eval RUN=runs/… EPISODES=30    play whole games and print their scores
  ./run.sh play RUN=runs/… VIDEO=out.mp4  show or record games
  ./run.sh export RUN=runs/… OUT=m.onnx   the model as a file for onnxruntime, or .pt2 for torch.export.load
  ./run.sh agents SERVER=tcp://host:5555  play for a server on another machine, which has LISTEN=tcp://…
  ./run.sh keys OUT=keys                  make the keys that both machines need for that
  ./run.sh replay RUN=runs/…              what the tuner did, and why: a table, a picture and a page
  ./run.sh simulate                       the tuner's strategies beside each other on simulated machines
  ./run.sh calibrate GRID=runs/…          the simulator of this machine beside a run with TUNER=sweep
  ./run.sh bench QUICK=1 OUT=bench.json   how much of what this machine can give is used, and where the rest goes
  ./run.sh experiment                     the figures and tables of the paper, and how long each takes
  ./run.sh experiment figure3             one of them, or all, on this machine; BUDGET=toy, laptop or paper
  ./run.sh soak MINUTES=60                a run whose agents are killed all the time: does anything grow or get lost?
  ./run.sh test                           format, lint, types and tests; QUICK=1: the quick ones, LONG=1: slow ones too
  ./run.sh help                           this page

Settings may also stand in a TOML file: CONFIG=file.toml. Words on the command line win over it.
"""

# Where the ``main`` of each is, which takes the words and returns the exit code, and the class of its settings.
COMMANDS = {
    "check": ("ga3c.runs.check", "ga3c.settings.commands", "CheckOptions"),
    "list": ("ga3c.runs.list_runs", "ga3c.settings.commands", "ListOptions"),
    "watch": ("ga3c.runs.watch", "ga3c.settings.commands", "WatchOptions"),
    "eval": ("ga3c.runs.evaluate", "ga3c.settings.commands", "EvalOptions"),
    "play": ("ga3c.runs.play", "ga3c.settings.commands", "PlayOptions"),
    "export": ("ga3c.runs.export", "ga3c.settings.commands", "ExportOptions"),
    "agents": ("ga3c.agents.remote_crew", "ga3c.settings.commands", "AgentsOptions"),
    "keys": ("ga3c.messages.keys", "ga3c.settings.commands", "KeysOptions"),
    "replay": ("ga3c.runs.retrace", "ga3c.settings.commands", "ReplayOptions"),
    "simulate": ("experiments.tuning.simulate", "experiments.options", "SimulateOptions"),
    "calibrate": ("experiments.tuning.calibrate", "experiments.options", "CalibrateOptions"),
    "bench": ("experiments.bench.bench", "experiments.options", "BenchOptions"),
    "experiment": ("experiments.papers.experiment", "experiments.options", "ExperimentOptions"),
    "soak": ("experiments.soak", "experiments.options", "SoakOptions"),
}
HELP = ("help", "--help", "-h")


def train(words: list[str]) -> int:
    from ga3c.settings.config import Config

    with stop_requests(last=True) as interrupted:
        config = Config.from_words(words)
        from ga3c.runs.training import RunFailed, run_training  # wrong words are told before this import
        from ga3c.system.malloc import keep_freed_memory
        from ga3c.system.openmp import wait_patiently

        keep_freed_memory()  # here, and not in ``ga3c.train``: this process is ours alone
        wait_patiently()

        try:
            run_training(config, interrupted)
        except RunFailed as error:  # it was logged with its traceback
            return _failed(error)
    return 0


def show_help() -> int:
    from ga3c.settings.declare import settings_table

    print(USAGE)
    places = {"training": ("ga3c.settings.config", "Config")} | {name: place for name, (_, *place) in COMMANDS.items()}
    for title, (module, options) in places.items():
        print(f"Settings of {title}:\n")
        rows = settings_table(getattr(import_module(module), options))
        key_width = max(len(key) for key, _, _ in rows)
        default_width = max(len(default) for _, default, _ in rows)
        for key, default, meaning in rows:
            print(f"  {key:<{key_width}}  {default:<{default_width}}  {meaning}")
        print()
    return 0


def main(arguments: list[str]) -> int:
    from ga3c.settings.declare import ConfigError, nearest

    command, words = "train", arguments
    if arguments and "=" not in arguments[0]:
        command, words = arguments[0], arguments[1:]
    try:
        if command == "train":
            return train(words)
        known = ["train", *COMMANDS, *HELP]
        if command not in known:
            raise ConfigError(f"'{command}' is not a command.{nearest(command, known)} './run.sh help' lists them")
        as_usual()
        if command in HELP:
            return show_help()
        code: int = import_module(COMMANDS[command][0]).main(words)
        return code
    except ConfigError as error:
        print(f"ga3c: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        raise
    except Exception as error:
        import traceback

        traceback.print_exc()
        return _failed(error)


def _failed(error: Exception) -> int:
    print(f"ga3c: {error}", file=sys.stderr)
    return 1


def run() -> int:
    """What the console script and ``python -m ga3c`` call."""
    end_at_once()  # until there is something to end
    with suppress(FileNotFoundError):  # the directory may be gone
        here = os.getcwd()
        if here not in sys.path:  # as with the console script, though GAME and NETWORK may name files that stand here
            sys.path.append(here)
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # as with './run.sh help | head': whoever read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try, and complain, at its end
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(run())
