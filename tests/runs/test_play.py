"""Play: what is shown is the game that evaluation scores, in colour, and files are whole or not there."""

import sys
from types import SimpleNamespace

import imageio.v2 as imageio
import numpy as np
import pytest
from PIL import Image

from ga3c.games import ale
from ga3c.games.images import area_weights
from ga3c.runs import play as play_module
from ga3c.runs.evaluate import evaluate
from ga3c.runs.play import Enough, open_window, play, record_mp4
from ga3c.settings.commands import EvalOptions, PlayOptions
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from tests.runs.test_evaluate import make_run


def gif_colours(path):
    """The colour in the corner of each picture, and how long it is shown."""
    with Image.open(path) as gif:
        for number in range(gif.n_frames):
            gif.seek(number)
            yield gif.convert("RGB").getpixel((0, 0)), gif.info["duration"]


def test_a_gif_has_every_picture_at_the_speed_of_the_game(tmp_path):
    video = tmp_path / "out.gif"
    options = PlayOptions(run=make_run(tmp_path, "Lasting-v0"), seed=1, video=str(video), device="cpu")
    (result,) = play(options)
    assert result.score == 8
    assert list(gif_colours(video)) == [((step, 100, 200), 50) for step in range(9)]
    with Image.open(video) as gif:
        assert gif.size == (260, 402)  # 20 × 31, each pixel 13 × 13, the height even


def test_a_gif_drops_pictures_rather_than_to_run_slower(tmp_path):
    video = tmp_path / "out.gif"
    play(PlayOptions(run=make_run(tmp_path, "Lasting-v0"), seed=1, video=str(video), fps=40.0, device="cpu"))
    assert list(gif_colours(video)) == [((step, 100, 200), 50) for step in range(0, 9, 2)]


def test_a_gif_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(play_module, "GIF_SECONDS", 0.2)
    video = tmp_path / "out.gif"
    assert not play(PlayOptions(run=make_run(tmp_path, "Lasting-v0"), seed=1, video=str(video), device="cpu"))
    assert len(list(gif_colours(video))) == 4


def test_a_part_of_the_game_is_recorded(tmp_path):
    video = tmp_path / "out.gif"
    run = make_run(tmp_path, "Lasting-v0")
    assert not play(PlayOptions(run=run, seed=1, video=str(video), start=0.1, seconds=0.2, device="cpu"))
    assert [colour[0] for colour, _ in gif_colours(video)] == [2, 3, 4, 5]  # of 20 pictures a second


@pytest.mark.parametrize("name", ["out.gif", "out.mp4"])
def test_a_part_after_the_end_is_refused(tmp_path, name):
    options = PlayOptions(run=make_run(tmp_path, "Lasting-v0"), video=str(tmp_path / name), start=60.0, device="cpu")
    with pytest.raises(ConfigError, match="START=60 is after the end"):
        play(options)
    assert not (tmp_path / name).exists()


def test_an_mp4_shows_the_games_that_evaluation_scores(tmp_path, capsys):
    run, video = make_run(tmp_path, "SpaceInvaders", sticky=0.25), tmp_path / "out.mp4"
    scored = evaluate(EvalOptions(run=run, episodes=2, seed=3, max_steps=50, device="cpu"))
    words = [f"RUN={run}", "SEED=3", "FIRST=1", "MAX_STEPS=50", "DEVICE=cpu", f"VIDEO={video}"]
    assert play_module.main(words) == 0
    printed = capsys.readouterr().out
    assert f"game 1   seed 4   score {scored['scores'][1]:g}   50 steps" in printed
    assert f"written to {video}\n" in printed
    with imageio.get_reader(video) as reader:
        assert reader.get_meta_data()["fps"] == 30
        assert reader.get_meta_data()["size"] == (320, 420)
        assert reader.count_frames() == 1 + 2 * 50


@pytest.fixture(scope="module")
def breakout():
    stage = ale.stage(Config(game="Breakout", sticky=0.25))
    yield stage
    stage.close()


def test_the_colours_are_of_the_game_that_the_policy_sees(breakout):
    random = np.random.default_rng(0)
    breakout.reset(11)
    rows, columns = area_weights(210, 84), area_weights(160, 84).T
    for _ in range(100):
        played = breakout.step(random.integers(0, breakout.spec.action.n, 1))
        gray = breakout.pictures()[-1] @ np.array([0.299, 0.587, 0.114], np.float32)
        assert np.abs(rows @ gray @ columns - played.observations[0, -1]).max() < 2


def test_it_is_noticed_when_the_colours_are_of_another_game(breakout, monkeypatch):
    breakout.reset(11)
    screens = np.zeros((1, 1, 210, 160, 3), np.uint8)
    other = SimpleNamespace(step=lambda actions: (screens, np.ones(1), np.zeros(1, bool), None, None))
    monkeypatch.setattr(breakout, "_view", other)
    with pytest.raises(RuntimeError, match="emulators differ"):
        breakout.step(np.zeros(1, np.int64))


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, failure):
    video = tmp_path / "out.mp4"
    video.write_text("old")

    def fail():
        with record_mp4(video, 30) as show:
            show(np.zeros((210, 160, 3), np.uint8))
            raise failure("in between")

    with pytest.raises(failure, match="in between"):
        fail()
    assert video.read_text() == "old"
    assert list(tmp_path.iterdir()) == [video]


@pytest.mark.parametrize("video", ["out.avi", "out", "nowhere/out.mp4"])
def test_a_video_that_cannot_be_written_is_refused(video):
    with pytest.raises(ConfigError, match=f"VIDEO={video}"):
        PlayOptions(run="somewhere", video=video)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_without_a_display_the_way_to_record_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ConfigError, match=r"VIDEO=out\.mp4"):
        play(PlayOptions(run=make_run(tmp_path, "Lasting-v0"), device="cpu"))


def test_a_window_shows_pictures_until_it_is_closed(monkeypatch):
    class TclError(Exception):
        pass

    shown = []

    def configure(format, data):
        if len(shown) == 2:
            raise TclError  # as tkinter does when its window is gone
        shown.append(data)

    widget = SimpleNamespace(configure=configure, pack=lambda: None)
    root = SimpleNamespace(title=lambda text: None, update=lambda: None, destroy=lambda: None)
    fake = SimpleNamespace(
        Tk=lambda: root, PhotoImage=lambda master: widget, Label=lambda root, image: widget, TclError=TclError
    )
    monkeypatch.setitem(sys.modules, "tkinter", fake)
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    with open_window("a game", fps=1000) as show:
        show(picture)
        show(picture)
        with pytest.raises(Enough):
            show(picture)
    header, pixels = shown[0].split(b"\n", 1)
    assert header == b"P6 630 420 255"
    assert len(pixels) == 630 * 420 * 3
