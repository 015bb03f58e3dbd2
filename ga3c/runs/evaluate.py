"""``eval``: whole games of a checkpoint, each with its own seed, and what they scored.

Every game is one environment with one seed and dice of its own, and is played to its end. Several are played at a time,
but none knows of the others: game i gives the same score whatever is played beside it, and short games count no more
than long ones. ``play`` shows these very games.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ga3c.algorithms.rule import Acting
from ga3c.games.human_scores import human_normalized
from ga3c.games.make import make_games
from ga3c.games.spec import Games
from ga3c.runs.policy import Policy, Saved
from ga3c.runs.resolve import probe
from ga3c.settings.commands import EvalOptions, PolicyOptions
from ga3c.settings.config import Config
from ga3c.settings.declare import read_words, settings_that
from ga3c.system.files import write_json

TABLES = 8  # games played at a time, and the rows of every prediction


class Rows:
    """The policy, always asked for a batch of the same shape.

    On another shape the same observation may get probabilities that differ in the last bit, so that a game would depend
    on how many are played beside it. So each game keeps to its row, and unused rows are predicted for nothing.
    """

    def __init__(self, policy: Policy) -> None:
        self.acting = policy.acting
        self._policy = policy
        self._rows = np.zeros((TABLES, *policy.spec.observation), dtype=policy.spec.dtype)

    def predict(self, games: Mapping[int, Game]) -> dict[int, np.ndarray]:
        """The outputs (1, width) by which each game's next action is taken, by the number of the game."""
        for number, game in games.items():
            self._rows[number % TABLES] = game.observations[0]
        outputs = self._policy.advice(self._rows)
        return {number: outputs[number % TABLES][None] for number in games}


@dataclass(frozen=True)
class GameResult:
    number: int
    seed: int
    score: float  # unclipped
    steps: int
    cut: bool  # at MAX_STEPS: the score so far


class Game:
    """One game under way: its environment, its dice, its score so far."""

    def __init__(self, games: Games, acting: Acting, options: PolicyOptions, number: int) -> None:
        self.number = number
        self.result: GameResult | None = None  # once it is over
        self._games = games
        self._acting = acting
        self._options = options
        self._random = np.random.default_rng([options.seed, number])
        self._score = 0.0
        self._steps = 0
        self.observations = games.reset(options.seed + number)

    def act(self, outputs: np.ndarray) -> None:
        """Play one step by the outputs (1, width)."""
        acting = self._acting
        actions = acting.best(outputs) if self._options.greedy else acting.act(outputs, self._random)[0]
        played = self._games.step(actions)
        self.observations = played.observations
        self._steps += 1
        self._score += float(played.rewards[0])
        over, cut = bool(played.finished), self._steps == self._options.max_steps
        if over or cut:
            score = played.finished[0].score if over else self._score
            self.result = GameResult(self.number, self._options.seed + self.number, score, self._steps, not over)

    def close(self) -> None:
        self._games.close()


def play_games(rows: Rows, config: Config, options: PolicyOptions, tables: int = TABLES) -> Iterator[list[GameResult]]:
    """Play all games, ``tables`` of them at a time; yields after each step of all tables the games that it ended.

    Table j plays the games j, j + tables, … one after another. All games are played to the end: taking the first that
    end, of tables that go on for ever, would count more short games than there are.
    """
    assert TABLES % tables == 0, "or two games that are played at a time could have the same row"
    waiting = {table: list(range(table, options.episodes, tables)) for table in range(tables)}
    playing: dict[int, Game] = {}
    try:
        while playing or any(waiting.values()):
            busy = {number % tables for number in playing}
            for table, numbers in waiting.items():
                if numbers and table not in busy:
                    number = numbers.pop(0)
                    playing[number] = Game(make_games(config, 1), rows.acting, options, number)
            for number, outputs in rows.predict(playing).items():
                playing[number].act(outputs)
            ended = [game.result for game in playing.values() if game.result]
            for result in ended:
                playing.pop(result.number).close()
            yield ended
    finally:
        for game in playing.values():
            game.close()


def evaluate(
    options: EvalOptions, watch: Callable[[list[GameResult]], None] = lambda ended: None, tables: int = TABLES
) -> dict[str, Any]:
    """Evaluate a checkpoint; ``watch`` gets, after each step of all tables, the games that it ended."""
    saved = Saved.load(options, options.device)
    rows = Rows(Policy(saved, probe(saved.config), options.epsilon))
    results: list[GameResult] = []
    for ended in play_games(rows, saved.config, options, tables):
        results += ended
        watch(ended)
    return summarize(saved, options, sorted(results, key=lambda result: result.number))


def summarize(saved: Saved, options: EvalOptions, results: list[GameResult]) -> dict[str, Any]:
    """What ``OUT`` gets; other programs read it, so its keys are an interface."""
    scores = [result.score for result in results]
    mean = float(np.mean(scores))
    return {
        "game": saved.config.game,
        "mean": mean,
        "std": float(np.std(scores)),  # of these games: the divisor is their number
        "human_normalized": human_normalized(saved.config.game, mean),  # 1 is the human; null where none is known
        "scores": scores,
        "lengths": [result.steps for result in results],
        "cut": sum(result.cut for result in results),  # games that were cut at MAX_STEPS
        "seed": options.seed,
        "weights": options.weights,
        "greedy": options.greedy,
        "checkpoint": str(saved.path),
        "updates": saved.state["updates"],  # that the checkpoint was trained for, its steps and seconds
        "steps": saved.state["steps"],
        "seconds": saved.state["stats"]["seconds"],
        "settings": {
            name: value for name, value in saved.state["config"].items() if name not in settings_that(Config, "local")
        },
    }


def describe(game: GameResult) -> str:
    cut = ", cut at MAX_STEPS" if game.cut else ""
    return f"game {game.number}   seed {game.seed}   score {game.score:g}   {game.steps} steps{cut}"


def main(words: list[str]) -> int:
    options = EvalOptions(**read_words(EvalOptions, words))
    torch.set_num_threads(1)  # the batches are small, and sums are then the same on any number of cores
    columns = [BarColumn(), MofNCompleteColumn(), TextColumn("games"), TimeElapsedColumn()]
    try:
        with Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as progress:
            task = progress.add_task("", total=options.episodes)

            def watch(ended: list[GameResult]) -> None:
                for game in ended:
                    print(describe(game), flush=True)
                    progress.advance(task)

            summary = evaluate(options, watch)
    except KeyboardInterrupt:
        print("stopped before all games were over: no result", file=sys.stderr)
        return 1
    human = summary["human_normalized"]
    print(f"{summary['game']}, {summary['checkpoint']}, {summary['steps']} steps trained")
    print(f"mean {summary['mean']:.2f}   std {summary['std']:.2f}   over {options.episodes} games")
    print(f"human-normalised {human:.1%}" if human is not None else "human-normalised: no human score of this game")
    if options.out:
        write_json(Path(options.out).expanduser(), summary)
        print(f"written to {options.out}")
    return 0
