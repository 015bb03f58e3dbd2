"""The command line: ``[COMMAND] KEY=VALUE …``. Exit codes: 0 done or Ctrl-C, 1 failure or no result, 2 wrong words."""

from __future__ import annotations

from ga3c.system.signals import as_usual, end_at_once, stop_requests

if __name__ == "__main__":
    end_at_once()  # until there is something to end; the imports that follow take a while

import sys
import traceback
from collections.abc import Callable

from ga3c.settings.commands import (
    AgentsOptions,
    BenchOptions,
    CalibrateOptions,
    EvalOptions,
    ExperimentOptions,
    KeysOptions,
    PlayOptions,
    ReplayOptions,
    SimulateOptions,
    SoakOptions,
)
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, nearest, settings_table

USAGE = """\
Usage: ./run.sh [COMMAND] KEY=VALUE …

  ./run.sh GAME=Pong                      train (the command 'train' may be left out)
  ./run.sh GAME=CartPole-v1 MAX_SECONDS=60
  ./run.sh GAME=Pong ALGO=a3c             the asynchronous baseline: agents that train by themselves
  ./run.sh RESUME=runs/pong-…             go on with a run
  ./run.sh eval RUN=runs/… EPISODES=30    play whole games and print their scores
  ./run.sh play RUN=runs/… VIDEO=out.mp4  show or record games
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


def train(words: list[str]) -> int:
    with stop_requests(last=True) as interrupted:
        config = Config.from_words(words)
        from ga3c.runs.training import run_training  # wrong words are told before this import

        run_training(config, interrupted)
    return 0


def evaluate(words: list[str]) -> int:
    from ga3c.runs.evaluate import main

    return main(words)


def play(words: list[str]) -> int:
    from ga3c.runs.play import main

    return main(words)


def agents(words: list[str]) -> int:
    from ga3c.agents.remote_crew import main

    return main(words)


def keys(words: list[str]) -> int:
    from ga3c.messages.keys import main

    return main(words)


def replay(words: list[str]) -> int:
    from ga3c.runs.retrace import main

    return main(words)


def simulate(words: list[str]) -> int:
    from experiments.tuning.simulate import main

    return main(words)


def calibrate(words: list[str]) -> int:
    from experiments.tuning.calibrate import main

    return main(words)


def bench(words: list[str]) -> int:
    from experiments.bench.bench import main

    return main(words)


def experiment(words: list[str]) -> int:
    from experiments.papers.experiment import main

    return main(words)


def soak(words: list[str]) -> int:
    from experiments.soak import main

    return main(words)


def show_help(words: list[str]) -> int:
    print(USAGE)
    for title, options in (
        ("training", Config),
        ("eval", EvalOptions),
        ("play", PlayOptions),
        ("agents", AgentsOptions),
        ("keys", KeysOptions),
        ("replay", ReplayOptions),
        ("simulate", SimulateOptions),
        ("calibrate", CalibrateOptions),
        ("bench", BenchOptions),
        ("experiment", ExperimentOptions),
        ("soak", SoakOptions),
    ):
        print(f"Settings of {title}:\n")
        rows = settings_table(options)
        key_width = max(len(key) for key, _, _ in rows)
        default_width = max(len(default) for _, default, _ in rows)
        for key, default, meaning in rows:
            print(f"  {key:<{key_width}}  {default:<{default_width}}  {meaning}")
        print()
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "eval": evaluate,
    "play": play,
    "agents": agents,
    "keys": keys,
    "replay": replay,
    "simulate": simulate,
    "calibrate": calibrate,
    "bench": bench,
    "experiment": experiment,
    "soak": soak,
    "help": show_help,
    "--help": show_help,
    "-h": show_help,
}


def main(arguments: list[str]) -> int:
    command, words = "train", arguments
    if arguments and "=" not in arguments[0]:
        command, words = arguments[0], arguments[1:]
    try:
        if command not in COMMANDS:
            raise ConfigError(f"'{command}' is not a command.{nearest(command, COMMANDS)} './run.sh help' lists them")
        if command != "train":
            as_usual()
        return COMMANDS[command](words)
    except ConfigError as error:
        print(f"ga3c: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    except Exception as error:
        if type(error).__name__ != "RunFailed":  # that was logged with its traceback
            traceback.print_exc()
        print(f"ga3c: {error}", file=sys.stderr)
        return 1


def run() -> int:
    """What the console script calls."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
