"""The pictures of the experiments: what is on them, also where cells are missing, and that it can be read."""

import copy
import itertools

import pytest
from matplotlib.text import Text
from PIL import Image

from experiments.papers.figures import draw, picture
from experiments.style import SHADES, style_of
from tests.helpers.made_results import (
    every_experiment,
    figure5,
    lag,
    learning_curves,
    made_cell,
    made_results,
    speed_grid,
)
from tests.helpers.made_results import table2 as made_table2

EXPERIMENTS = every_experiment()
FAILED = {"figures": {}, "curve": None, "trials": None, "evaluation": None, "error": "it cost $5 and $6"}


def with_failures(results, every):
    failed = copy.deepcopy(results)
    for cell in failed["cells"][::every]:
        cell.update(FAILED)
    return failed


def before_the_first_game(results):
    new = copy.deepcopy(results)
    for cell in new["cells"]:
        cell.update(curve=[[1.0, 10, None]], trials=[], evaluation=None)
        cell["figures"]["score"] = None
    return new


def texts(figure):
    """Everything that can be read in a picture, with where it is."""
    root = figure.get_figure(root=True)
    root.canvas.draw()
    found = {}
    for text in root.findobj(Text):
        box = text.get_window_extent()
        if text.get_visible() and text.get_text().strip() and box.width:
            found[text] = box
    return found


def shown_texts(figure):
    """Without the labels of ticks that lie outside of their axes or that a shared axis hides."""
    root = figure.get_figure(root=True)
    ticks = {
        label
        for axes in root.findobj(lambda artist: hasattr(artist, "get_xticklabels"))
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.majorTicks, *axis.minorTicks)
        for label in (tick.label1, tick.label2)
    }
    drawn = {
        label
        for axes in root.findobj(lambda artist: hasattr(artist, "get_xticklabels"))
        if axes.axison
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis._update_ticks()
        for label in (tick.label1, tick.label2)
        if label.get_visible()
    }
    return {text: box for text, box in texts(figure).items() if text not in ticks or text in drawn}


def words(figure):
    return "\n".join(text.get_text() for text in texts(figure))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_covers_anything_else(name):
    assert_readable(picture(with_failures(EXPERIMENTS[name], 7)))


def test_curves_of_a_known_game_have_a_random_player_to_compare_with():
    for game, known in (("Pong", True), ("CartPole-v1", False)):
        words = {text.get_text() for text in texts(picture(figure5(seeds=(0,), games=(game,))))}
        assert ("random player" in words) == known


def test_chance_does_not_look_like_learning():
    results = figure5(seeds=(0,), games=("Pong",))
    for cell in results["cells"]:
        cell["curve"] = [[seconds, steps, -20.5] for seconds, steps, _ in cell["curve"]]
    low, high = picture(results).axes[0].get_ylim()
    assert low < -20.7
    assert high >= -17.7  # a tenth of the way from a random player's -20.7 to a human's 9.3


def test_curves_that_end_at_the_same_score_have_labels_apart():
    results = figure5(seeds=(0,), games=("Pong",))
    for cell in results["cells"]:
        cell["curve"] = results["cells"][0]["curve"]
    assert_readable(picture(results))


def assert_readable(figure):
    """No text leaves the picture or covers another."""
    root, boxes = figure.get_figure(root=True), shown_texts(figure)
    assert len(boxes) > 20
    for text, box in boxes.items():
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= root.bbox.x1 + 1, text
        assert box.y1 <= root.bbox.y1 + 1, text
    for (one, first), (other, second) in itertools.combinations(boxes.items(), 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across <= 1 or down <= 3, f"'{one.get_text()}' and '{other.get_text()}'"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_one_cell_makes_a_picture_before_its_first_game_has_ended(name, tmp_path):
    results = EXPERIMENTS[name]
    draw(before_the_first_game({**results, "cells": results["cells"][:1]}), tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as image:
        assert image.format == "PNG"
        assert image.width == 1200


def test_no_cell_makes_one_that_says_so():
    results = lag(seeds=(0,))
    for nothing in (with_failures(results, 1), {**results, "cells": []}):
        assert "no cell has finished" in words(picture(nothing))


def test_what_failed_is_named_and_what_is_to_come_is_counted():
    results = with_failures(lag(seeds=(0,)), 4)
    results["unfinished"] = 3
    said = words(picture(results))
    assert "Left out, since they failed (4 of 16 cells):" in said
    assert f"{results['cells'][0]['id']}: it cost \\$5 and \\$6" in said
    assert "3 cells have not been run yet" in said


def test_a_toy_budget_is_named():
    results = {**lag(seeds=(0,)), "cells": []}
    assert "TOY BUDGET" not in words(picture(results))
    assert "TOY BUDGET" in words(picture({**results, "budget": "toy"}))


def test_figure3_marks_the_best_of_each_na_and_what_the_tuner_chose():
    results = speed_grid("figure3")
    figure = picture(results)
    left, right = figure.axes
    star = next(line for line in left.lines if line.get_marker() == "*")
    assert star.get_xydata().tolist() == [[28, 24.4]] * 3
    bars = [bar for bar in right.patches if bar.get_height()]
    assert len(bars) == 4 * 3
    best = max(bar.get_height() for bar in bars)
    assert best == pytest.approx(1.0)
    first, second, third = bars[:3]
    assert first.get_height() >= second.get_height() >= third.get_height()
    assert "tuner's choice: 28/1/2" in words(figure)


def test_the_tuners_choice_has_the_tps_of_its_own_windows():
    results = speed_grid("figure3", seeds=(0,))
    tried = {"seconds": 10, "agents": 4, "predictors": 1, "trainers": 1, "tps": 1.0, "pps": 40.0, "decision": "start"}
    chosen = {**tried, "seconds": 20, "agents": 28, "trainers": 2, "tps": 30.0, "decision": "accepted"}
    results["cells"][-1]["trials"] = [tried, chosen, {**chosen, "tps": 32.0}, {**chosen, "decision": "failed"}]
    star = next(line for line in picture(results).axes[0].lines if line.get_marker() == "*")
    assert star.get_xydata().tolist() == [[28, 31.0]]


def test_figure4_shows_the_settings_that_figure3_ranks():
    results = speed_grid("figure4", seeds=(0,))
    queue, _ = picture(results).axes
    by_setting = {
        (cell["settings"]["agents"], cell["settings"]["predictors"], cell["settings"]["trainers"]): cell["figures"]
        for cell in results["cells"]
        if cell["settings"]["tuner"] == "off"
    }
    best = max((key for key in by_setting if key[0] == 32), key=lambda key: by_setting[key]["tps"])
    tallest_rank = [bar for bar in queue.patches if bar.get_facecolor() == _rgba(SHADES[0])]
    assert tallest_rank[-1].get_height() == by_setting[best]["training_queue"]


def test_figure4_marks_the_queue_and_the_batch_of_the_tuners_choice():
    results = speed_grid("figure4", seeds=(0,))
    tried = {"seconds": 10, "agents": 28, "predictors": 1, "trainers": 2, "tps": 30.0, "pps": 40.0, "decision": "start"}
    measured = {**tried, "training_queue": 2.5, "prediction_batch": 7.0}
    results["cells"][-1]["trials"] = [measured, {**measured, "training_queue": 3.5, "prediction_batch": None}]
    figure = picture(results)
    queue, batch = (
        [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] for axes in figure.axes
    )
    assert (queue, batch) == ([3.0], [7.0])
    assert "tuner's choice: 28/1/2" in words(figure)


def _rgba(colour):
    from matplotlib.colors import to_rgba

    return to_rgba(colour)


def test_table2_has_ratios_of_the_same_seed_and_the_papers():
    cells = [
        made_cell({"network": "small", "algo": algo, "agents": agents}, seed, pps=pps)
        for algo, agents, speeds in (("ga3c", 16, (1000, 2000, 3000)), ("a3c", 2, (500, 500, 500)))
        for seed, pps in enumerate(speeds)
    ]
    figure = picture(made_results("table2", cells, paper=made_table2()["paper"]))
    assert "4.00×" in words(figure)
    assert "the paper, System I" in words(figure)
    _, ratio, _, _ = figure.axes
    published = next(line for line in ratio.lines if line.get_label() == "the paper, System I")
    assert published.get_ydata().tolist() == pytest.approx([1361 / 352])


def test_curves_end_with_the_run_that_ends_first_and_keep_their_colours():
    results = learning_curves("figure6", "learning_rate", (3e-4, 1e-4), games=("Pong",))
    results["cells"][2]["curve"] = results["cells"][2]["curve"][:30]  # half of the second run at 3e-4
    results["cells"][0].update(FAILED)
    ends = curve_ends(results)
    first, second = (style_of(place)["color"] for place in (0, 1))
    assert ends[first] == pytest.approx(30, rel=0.02)
    assert ends[second] == pytest.approx(60, rel=0.02)
    for cell in results["cells"][::2]:
        cell.update(FAILED)
    assert list(curve_ends(results)) == [second]  # also when nothing of the first setting is left


def curve_ends(results):
    """Where the thick lines end, by their colours."""
    (axes,) = picture(results).axes
    return {line.get_color(): line.get_xdata()[-1] for line in axes.lines if line.get_linewidth() > 1}


def test_figure5_has_the_steps_at_the_right():
    said = words(picture(figure5(seeds=(0,), games=("Pong",))))
    assert "steps" in said.split("\n")
    assert sum(word.endswith((" M", " k")) for word in said.split("\n")) == 4


def test_lag_shows_what_the_correction_costs():
    _, speed = picture(lag(seeds=(0,))).axes
    assert {bar.get_width() for bar in speed.patches} == {1000.0, 900.0}
