"""``play``: shows or records games of a checkpoint, the very games that ``eval`` scores with the same seeds.

The policy has to see exactly what it saw in training, so a game is played in the environment of training.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import torch
from PIL import Image

from ga3c.games.make import backend_of
from ga3c.games.spec import Stage
from ga3c.runs.evaluate import Game, GameResult, Rows, describe
from ga3c.runs.policy import Policy, Saved
from ga3c.settings.commands import PlayOptions
from ga3c.settings.declare import ConfigError, read_words
from ga3c.system.files import replacing

PICTURE_HEIGHT = 420  # pixels that small pictures are enlarged to, about
GIF_FPS = 20  # at most
GIF_SECONDS = 60  # at most: a GIF is large, and is in memory until it is written

Show = Callable[[np.ndarray], None]


class Enough(Exception):
    """The viewer wants no more pictures."""


def enlarge(picture: np.ndarray) -> np.ndarray:
    """Each pixel as a square, and the sides even, as H.264 wants them."""
    scale = max(1, PICTURE_HEIGHT // picture.shape[0])
    large = picture.repeat(scale, axis=0).repeat(scale, axis=1)
    return large[: large.shape[0] // 2 * 2, : large.shape[1] // 2 * 2]


@contextmanager
def record_mp4(path: Path, fps: float) -> Iterator[Show]:
    with replacing(path) as temporary:
        writer: Any = imageio.get_writer(temporary, format="FFMPEG", fps=fps, quality=8, macro_block_size=2)
        with closing(writer):  # its own ``with`` does not close it after a failure
            yield lambda picture: writer.append_data(enlarge(picture))


@contextmanager
def record_gif(path: Path, fps: float) -> Iterator[Show]:
    every = math.ceil(fps / GIF_FPS)
    images: list[Image.Image] = []
    numbers = itertools.count()

    def show(picture: np.ndarray) -> None:
        number = next(numbers)
        if number >= GIF_SECONDS * fps:
            raise Enough
        if number % every == 0:
            images.append(Image.fromarray(enlarge(picture)).quantize())

    yield show
    with replacing(path) as temporary:
        duration = 10 * round(100 * every / fps)  # milliseconds, but a GIF counts in hundredths of a second
        images[0].save(temporary, save_all=True, append_images=images[1:], duration=duration, loop=0)


@contextmanager
def open_window(title: str, fps: float) -> Iterator[Show]:
    """A window of tkinter, which comes with Python and shows any picture."""
    try:
        import tkinter

        root = tkinter.Tk()
    except Exception as error:  # no tkinter, or its TclError: no display
        raise ConfigError(f"there is no window to show the game in ({error}): record it with VIDEO=out.mp4") from None
    root.title(title)
    image = tkinter.PhotoImage(master=root)
    tkinter.Label(root, image=image).pack()
    due = time.monotonic()

    def show(picture: np.ndarray) -> None:
        nonlocal due
        large = enlarge(picture)
        try:
            image.configure(format="PPM", data=b"P6 %d %d 255\n" % large.shape[1::-1] + large.tobytes())
            root.update()
        except tkinter.TclError:  # the window was closed
            raise Enough from None
        due = max(due + 1 / fps, time.monotonic())  # time that was lost is not made up for by haste
        time.sleep(max(0.0, due - time.monotonic()))

    yield show
    with suppress(tkinter.TclError):  # closed already
        root.destroy()


def play_game(game: Game, stage: Stage, rows: Rows) -> Iterator[np.ndarray]:
    """Play to the end, giving the pictures on the way."""
    yield from stage.pictures()
    while not game.result:
        game.act(rows.predict({game.number: game})[game.number])
        yield from stage.pictures()


def play(options: PlayOptions, watch: Callable[[GameResult], None] = lambda result: None) -> list[GameResult]:
    """Show or record games; ``watch`` gets each that is over. A game that is left early is not in the result."""
    saved = Saved.load(options, options.device)
    example = backend_of(saved.config.game).stage(saved.config)
    rows = Rows(Policy(saved, example.spec, options.epsilon))
    example.close()
    fps, path = options.fps or example.fps, Path(options.video).expanduser()
    if not options.video:
        viewer = open_window(saved.config.game, fps)
    else:
        viewer = record_gif(path, fps) if path.suffix.lower() == ".gif" else record_mp4(path, fps)
    results: list[GameResult] = []
    first = round(options.start * example.fps)
    last = first + options.seconds * example.fps if options.seconds else math.inf
    seen = 0
    with viewer as show, suppress(Enough):
        for number in range(options.first, options.first + options.episodes):
            with closing(backend_of(saved.config.game).stage(saved.config)) as stage:
                game = Game(stage, rows.acting, options, number)
                for picture in play_game(game, stage, rows):
                    if seen >= last:
                        raise Enough
                    if seen >= first:
                        show(picture)
                    seen += 1
            assert game.result
            results.append(game.result)
            watch(game.result)
        if seen <= first:
            raise ConfigError(f"START={options.start:g} is after the end of what is played: there is nothing to show")
    return results


def main(words: list[str]) -> int:
    options = PlayOptions(**read_words(PlayOptions, words))
    torch.set_num_threads(1)  # as in ``eval``, whose games these are
    results = play(options, lambda result: print(describe(result), flush=True))
    if options.video:
        cut = len(results) < options.episodes and not options.seconds
        print(f"written to {options.video}" + (f", cut at {GIF_SECONDS} seconds: use .mp4 for more" if cut else ""))
    return 0
