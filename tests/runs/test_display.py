"""The live log: every figure is there, columns stay in place, panels fit, and a lost terminal does no harm."""

from __future__ import annotations

import io
import logging
import re
import sys
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from ga3c.algorithms.actor_critic import acting
from ga3c.memory.figures import FIGURES, window_row
from ga3c.memory.stats import Stats
from ga3c.runs.display import FOOTER, PanelDisplay, PlainDisplay, format_line, make_display, make_panel
from ga3c.settings.config import Config

WHERE = "runs/Pong-20250101-120000"
BAR = "━"
ALL = (*FIGURES, *acting.FIGURES)


def make_row(**changes: Any) -> dict[str, Any]:
    counts = {"seconds": 85.4, "window": 5.0, "steps": 123_456, "episodes": 12, "updates": 3_456}
    scores = {"score_last": -21.0, "score": -20.13}
    rates = {"pps": 1_234.4, "tps": 31.2, "trained_per_second": 1_229.7, "bootstrap_per_second": 20.0}
    setting = {"agents": 3, "predictors": 2, "trainers": 1, "remote_agents": 0}
    queues = {"prediction_queue": 2.1, "training_queue": 5.0, "prediction_batch": 14.2, "training_batch": 40.3}
    lags = {"lag_mean": 5.1, "lag_max": 17}
    losses = {"policy_loss": -0.3, "value_loss": 0.0123, "entropy": 1.38, "gradient_norm": 4.567}
    busy = {"predictor_busy": 0.45, "trainer_busy": 0.97, "held": 0.3, "limit": "trainers"}
    dropped = {"stale_steps": 0, "lost_steps": 0, "unaccounted_steps": 0, "bad_updates": 0, "bad_messages": 0}
    network = {"network_in": 0.0, "network_unpacked": 0.0, "network_out": 0.0, "network_wait": 0.0}
    row: dict[str, Any] = {**counts, **scores, **rates, **setting, **queues, **lags, **losses, **busy, **dropped}
    row |= network
    assert changes.keys() <= row.keys()
    return row | changes


def squeezed(text: str) -> str:
    return re.sub(" +", " ", text)


def panel_lines(row: dict[str, Any], config: Config, width: int, height: int, where: str = WHERE) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    with console.capture() as capture:
        console.print(make_panel(row, config, where, width, height, ALL))
    return capture.get().splitlines()


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class BrokenPipe(Terminal):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.fixture(autouse=True)
def _a_person_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_line_has_every_figure() -> None:
    assert squeezed(format_line(make_row())) == (
        "00:01:25 steps 123,456 games 12 score -20.1 (last -21) PPS 1,234 TPS 31.2 trained 1,230/s "
        "NA/NP/NT 3/2/1 queues 2.1/5.0 batches 14.2/40.3 lag 5.1/17 limit trainers"
    )


def test_agents_of_other_machines_stand_behind_the_local_ones() -> None:
    row = make_row(remote_agents=8)
    assert "NA/NP/NT 3+8/2/1 " in format_line(row)
    assert any("NA 3+8" in squeezed(line) for line in panel_lines(row, Config(), 80, 30))


def test_the_network_is_told_of_where_something_comes_over_it() -> None:
    row = make_row(remote_agents=8, network_in=12_345_678.0, network_out=4321.0, network_wait=0.6, limit="network")
    assert "lag 5.1/17 network 12.35 MB/s limit network" in squeezed(format_line(row))
    panel = squeezed("\n".join(panel_lines(row, Config(), 100, 40)))
    assert "Network in B/s 12,345,678 out B/s 4,321 wait 60%" in panel
    assert "network: the others wait for it" in panel
    assert "Network" not in "\n".join(panel_lines(make_row(), Config(), 100, 40))


def test_line_from_a_real_row() -> None:
    stats = Stats()
    before = stats.snapshot()
    stats.add(steps=5, predictions=6, prediction_batches=1)
    setting = {"agents": 1, "predictors": 1, "trainers": 1, "remote_agents": 0}
    row = window_row(before, stats.snapshot(), setting, None, None, ALL)
    assert row.keys() == make_row().keys()
    assert "steps 5 games 0 score – (last –)" in squeezed(format_line(row))
    assert "rolling – last –" in squeezed("\n".join(panel_lines(row, Config(), 80, 24)))


def test_scores_keep_the_digits_that_say_something() -> None:
    def shown(score: float) -> str:
        return squeezed(format_line(make_row(score=score))).split("score ")[1].split(" (last")[0]

    scores = (0.854, -9.87, -20.13, 487.25, 500.0, 123_456.7, float("nan"), float("inf"))
    assert [shown(score) for score in scores] == ["0.85", "-9.87", "-20.1", "487.2", "500", "123,457", "nan", "inf"]


@pytest.mark.parametrize(
    "changes",
    [
        {"score": None, "score_last": None, "episodes": 0},
        {"seconds": 86_399.0, "steps": 999_999_999, "episodes": 99_999, "score": 123_456.7, "score_last": -99_999.0},
        {"pps": 0.0, "tps": 0.0, "trained_per_second": 0.0, "prediction_queue": 0.0, "training_queue": 0.0},
        {"pps": 12_345.6, "tps": 987.6, "trained_per_second": 12_345.6, "agents": 128, "lag_mean": 12.3, "lag_max": 99},
        {"prediction_queue": 256.0, "training_queue": 1024.0, "prediction_batch": 256.0, "training_batch": 1024.0},
    ],
)
def test_columns_stay_in_place(changes: dict[str, Any]) -> None:
    usual, other = format_line(make_row()), format_line(make_row(**changes))
    labels = (
        "steps",
        "games",
        "score",
        "(last",
        "PPS",
        "TPS",
        "trained",
        "NA/NP/NT",
        "queues",
        "batches",
        "lag",
        "limit",
    )
    assert [usual.index(label) for label in labels] == [other.index(label) for label in labels]


def test_line_of_a_long_run_is_not_too_wide() -> None:
    row = make_row(seconds=1e6, steps=10**9, episodes=10**6, score=123_456.7, score_last=123_456.0, limit="predictors")
    line = format_line(row)
    assert "277:46:40  steps 1,000,000,000  games 1,000,000" in line
    assert len(line) <= 205


def test_plain_prints_a_line_for_each_update() -> None:
    stream = io.StringIO()
    display = make_display(Config(), WHERE, stream)
    assert isinstance(display, PlainDisplay)
    display.update(make_row())
    display.update(make_row(steps=200_000))
    display.close()
    display.close()
    assert stream.getvalue() == format_line(make_row()) + "\n" + format_line(make_row(steps=200_000)) + "\n"


def test_plain_with_a_narrow_encoding_still_prints() -> None:
    raw = io.BytesIO()
    display = PlainDisplay(io.TextIOWrapper(raw, encoding="ascii"))
    display.update(make_row(score=None))
    assert b"score       ? (last" in raw.getvalue()


def test_panel_only_on_a_terminal_that_a_person_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_display(Config(), WHERE, Terminal()), PanelDisplay)
    closed = Terminal()
    closed.close()
    assert isinstance(make_display(Config(), WHERE, closed), PlainDisplay)
    for name, value in (("CI", "true"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert isinstance(make_display(Config(), WHERE, Terminal()), PlainDisplay)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(make_display(Config(), WHERE, io.StringIO()), PlainDisplay)


@pytest.mark.parametrize("stream_type", [Terminal, BrokenPipe, io.StringIO])
def test_lost_terminal_does_not_raise(stream_type: type[io.StringIO], capsys: pytest.CaptureFixture[str]) -> None:
    stream = stream_type()
    display = make_display(Config(max_steps=10**6), WHERE, stream)
    handler = logging.StreamHandler(display.stream)
    display.update(make_row())
    stream.close()
    display.update(make_row())
    handler.emit(logging.makeLogRecord({"msg": "a line"}))
    display.close()
    display.close()
    assert capsys.readouterr().err == ""  # where logging would report a handler that failed


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_panel_fits_and_has_every_figure(width: int) -> None:
    config = Config(max_steps=10**6)
    lines = panel_lines(make_row(), config, width, 20)
    assert max(map(cell_len, lines)) == min(width, 80)
    assert len(lines) < 20
    text = squeezed("\n".join(lines))
    for figure in (
        *("Pong", WHERE, FOOTER, "elapsed 00:01:25", "left 00:10:06", "12% of steps"),
        *("steps 123,456", "games 12", "updates 3,456", "rolling -20.1", "last -21"),
        *("PPS 1,234", "TPS 31.2", "trained/s 1,230", "NA 3", "NP 2 2.1 14.2 45%", "NT 1 5.0 40.3 97%"),
        *("mean 5.1", "max 17", "entropy 1.38", "value loss 0.0123", "gradient 4.57", "Limit trainers"),
    ):
        assert figure in text
    assert "Dropped" not in text


def test_panel_holds_large_figures() -> None:
    row = make_row(steps=10**9, updates=10**8, episodes=10**6, score=123_456.7, score_last=-123_456.0, bad_updates=7)
    for width in (60, 80):
        text = squeezed("\n".join(panel_lines(row, Config(), width, 24)))
        for figure in ("1,000,000,000", "100,000,000", "1,000,000", "123,457", "-123,456", "Dropped bad updates 7"):
            assert figure in text


@pytest.mark.parametrize(("width", "height"), [(60, 12), (50, 20), (40, 15), (30, 9), (10, 5), (60, 3)])
def test_small_terminal_does_without_the_rest(width: int, height: int) -> None:
    lines = panel_lines(make_row(bad_updates=1), Config(max_steps=10**6), width, height, where="/a/long/way/" * 9)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < max(height, 6)  # the score alone needs up to four lines
    assert any("Score" in line or width < 12 for line in lines)


def test_bar_only_with_a_maximum_and_of_the_nearest_one() -> None:
    def bar(**maxima: float) -> str:
        lines = panel_lines(make_row(), Config.from_mapping(maxima), 80, 24)
        return next((line for line in lines if BAR in line), "")

    assert bar() == ""
    assert "12% of steps" in bar(max_steps=10**6)
    assert "85% of time" in bar(max_steps=10**6, max_seconds=100.0)
    assert "100% of games" in bar(max_steps=10**6, max_seconds=100.0, max_episodes=12)
    assert "left –" in squeezed("\n".join(panel_lines(make_row(steps=0), Config(max_steps=10), 80, 24)))


def test_panel_on_a_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=60, height=20)
    display = PanelDisplay(Config(max_steps=10**6), WHERE, console)
    out, err = sys.stdout, sys.stderr
    handler = logging.StreamHandler(display.stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    display.update(make_row())
    handler.emit(logging.makeLogRecord({"msg": "agent 3 [bold]left[/bold]", "levelname": "WARNING"}))
    display.update(make_row(steps=654_321))
    display.close()
    display.close()
    shown = stream.getvalue()
    display.update(make_row())  # too late
    assert stream.getvalue() == shown
    assert (sys.stdout, sys.stderr) == (out, err)
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor is hidden once and comes back
    logged, last = shown.index("WARNING agent 3 [bold]left[/bold]\n"), shown.rindex("654,321")
    assert shown.index("123,456") < logged < last
    plain_lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).splitlines()
    assert max(map(cell_len, plain_lines)) == 60
    assert FOOTER in shown
    assert FOOTER not in shown[last:]  # nothing is left to stop
