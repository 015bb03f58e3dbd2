"""The docs say what is: links lead somewhere, commands and settings are those of the parser, examples run, tables are
the code's."""

import ast
import dataclasses
import importlib
import importlib.util
import json
import re
import shlex

import gymnasium
import numpy as np
import pytest

import ga3c
from experiments.papers.report import GRIDS
from ga3c.__main__ import COMMANDS, HELP
from ga3c.games.make import make_games
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.models.own import OwnBody
from ga3c.runs import export
from ga3c.runs.export import PACKAGES
from ga3c.runs.policy_env import PolicyEnv
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, read_words
from ga3c.settings.recipes import RECIPES
from tests import tables
from tests.helpers.markdown import PAGES, Page, page
from tests.helpers.sources import ROOT
from tests.runs.test_evaluate import make_run
from tests.test_house import ROOMS

DOCS = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
WRITTEN = [path for path in PAGES if path != "experiments/RESULTS.md"]  # by hand; that one is made from results
OPTIONS = {name: getattr(importlib.import_module(module), cls) for name, (_, module, cls) in COMMANDS.items()}
OTHER_WORDS = {"KEY", "CONFIG", "PYTHON", "QUICK", "LONG"}  # of all commands, and of the shell
KEYS = {field.name.upper() for options in (Config, *OPTIONS.values()) for field in dataclasses.fields(options)}
UNSAID = "…"  # stands for what a reader fills in
each_page = pytest.mark.parametrize("path", PAGES)
each_written = pytest.mark.parametrize("path", WRITTEN)


# Links


def broken_links(source: Page) -> list[str]:
    found = []
    for link in source.links:
        target, _, anchor = link.partition("#")
        if re.match(r"\w+:", target):
            continue
        path = (ROOT / source.path).parent / target if target else ROOT / source.path
        if not path.exists() or (anchor and anchor not in page(path.resolve().relative_to(ROOT).as_posix()).anchors):
            found.append(link)
    return found


@each_page
def test_links_lead_somewhere(path):
    assert broken_links(page(path)) == []


def test_a_link_that_leads_nowhere_is_found():
    text = "[a](none.md) [b](docs/log.md#limit) [c](docs/log.md#none) <img src='x'> <img src=\"none.gif\"> `[d](none)`"
    assert broken_links(Page("README.md", text)) == ["none.md", "docs/log.md#none", "none.gif"]


def test_anchors_are_githubs():
    headings = "# A `b` & C_d, e-f!\n## Same\n## Same\n# Über: [x](y)\n```\n# no heading\n```\n"
    assert Page("", headings).anchors == {"a-b--c_d-e-f", "same", "same-1", "über-x"}


def test_every_page_is_in_the_index():
    assert {*DOCS, "../CONTRIBUTING.md", "../experiments/RESULTS.md"} <= {"README.md", *page("docs/README.md").links}


# Commands and settings


def commands(source: Page) -> list[list[str]]:
    """The words behind each ``./run.sh``."""
    lines = [line for block in source.blocks("bash") for line in block.splitlines()] + source.spans
    found = [shlex.split(line, comments=True) for line in lines if "./run.sh" in line]
    return [words[words.index("./run.sh") + 1 :] for words in found if "./run.sh" in words]


def refusal(words: list[str]) -> str:
    """Why the command line would not take these words; empty: it would. A command alone is only mentioned."""
    words = [word.replace(UNSAID, "1") for word in words if word != UNSAID]
    command = words.pop(0) if words and "=" not in words[0] else "train"
    if command == "test":
        wrong = [word for word in words if word not in ("QUICK=1", "LONG=1") and not (ROOT / word).exists()]
        return f"{wrong} are no tests" if wrong else ""
    if command == "experiment" and words and "=" not in words[0]:
        name = words.pop(0)
        if not (name == "all" or (GRIDS / f"{name}.toml").exists()):
            return f"{name} is no experiment"
    options = {"train": Config, **OPTIONS, **dict.fromkeys(HELP)}.get(command, "")
    if not options:
        return f"{command} is no command" if options == "" else " ".join(words)
    try:
        given = read_words(options, [word for word in words if not word.startswith("CONFIG=")])
        if words:
            options(**given)
    except ConfigError as error:
        return str(error)
    return ""


@each_page
def test_commands_are_accepted(path):
    assert [(words, why) for words in commands(page(path)) if (why := refusal(list(words)))] == []


@pytest.mark.parametrize(
    "words",
    [
        "GAME=Pong NONE=1",
        "GAME=Pong ALGO=dqm",
        "AGENTS=few",
        "NONE=…",
        "evil RUN=a",
        "eval EPISODES=3",
        "eval RUN=a NETWORK=small",
        "play RUN=a VIDEO=a.avi",
        "bench FAST=1",
        "experiment figure1",
        "test tests/none.py",
        "LISTEN=tcp://0.0.0.0:5555",
    ],
)
def test_a_command_that_is_refused_is_found(words):
    (found,) = commands(Page("", f"```bash\n./run.sh {words}  # a remark\n```\n"))
    assert refusal(found) != ""


def unknown_settings(text: str) -> set[str]:
    """What looks like a setting and is none."""
    named = re.findall(r"\b([A-Z][A-Z_]+)=", text) + re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text)
    return set(named) - KEYS - OTHER_WORDS


@each_written
def test_settings_that_are_named_are_there(path):
    assert unknown_settings(page(path).text) == set()


def test_a_setting_that_is_not_there_is_found():
    assert unknown_settings("MIN_BATCH, MIN_BACTH, AGENTS=3 AGENT=3 NA/NP/NT") == {"MIN_BACTH", "AGENT"}


# Files


def missing_files(source: Page) -> list[str]:
    """Paths are said from the root, from ``ga3c`` or from ``tests``; modules by ``python -m``."""
    found, places = [], (ROOT, ROOT / "ga3c", ROOT / "tests")
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir())
    for span in source.spans:
        if re.fullmatch(r"[\w./-]+\.(py|toml|cfg)|[\w/]+/|\.?/?(" + folders + r")/[\w./-]+", span):
            if not span.startswith("runs/") and not any((place / span).exists() for place in places):
                found.append(span)
        elif (module := re.match(r"python -m ([\w.]+)", span)) and importlib.util.find_spec(module[1]) is None:
            found.append(span)
    return found


@each_written
def test_files_that_are_named_are_there(path):
    assert missing_files(page(path)) == []


def test_a_file_that_is_not_there_is_found():
    text = "`games/gym.py` `games/none.py` `none.toml` `experiments/results/none` `python -m tests.none` `runs/a.py`"
    assert missing_files(Page("", text)) == [
        "games/none.py",
        "none.toml",
        "experiments/results/none",
        "python -m tests.none",
    ]


# Python


@each_page
def test_python_examples_name_what_is_there(path):
    for code in page(path).blocks("python"):
        for node in ast.walk(ast.parse(code)):
            for name in [name.name for name in node.names] if isinstance(node, ast.Import) else []:
                pytest.importorskip(name)  # some examples are for other programs
            for name in [name.name for name in node.names] if isinstance(node, ast.ImportFrom) else []:
                assert hasattr(importlib.import_module(node.module), name), name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ga3c":
                assert hasattr(ga3c, node.attr), node.attr


def test_the_readmes_example_trains_and_goes_on(tmp_path, monkeypatch, capsys):
    trained = []

    def train(config):
        trained.append(config)
        (tmp_path / "config.json").write_text(json.dumps(config.to_dict()), encoding="utf-8")
        return dict.fromkeys((*ga3c.Summary.__annotations__,), 1) | {"run": str(tmp_path)}

    monkeypatch.setattr(ga3c, "train", train, raising=False)
    (code,) = page("README.md").blocks("python")
    exec(code, {})
    assert capsys.readouterr().out == "1 1 1\n"
    assert [(config.game, config.max_steps) for config in trained] == [("Pong", 1_000_000), ("Pong", 2_000_000)]
    assert trained[1].resume == str(tmp_path)


def test_the_environment_of_the_docs_plays(tmp_path, monkeypatch):
    for code in page("docs/your-environment.md").blocks("python"):
        (tmp_path / re.match(r"# (\w+\.py)", code)[1]).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    games = make_games(Config(game="my_games:Corridor-v0"), 2)
    assert games.reset(0).tolist() == [[[0.5]], [[0.5]]]
    for _ in range(10):
        played = games.step(np.array([1, 0]))
    games.close()
    assert played.rewards.tolist() == [1.0, 0.0]
    assert played.terminated.all()
    make_games(Config(game="my_pendulum:Pendulum-5-v0"), 1).close()
    pairs = gymnasium.Env()
    pairs.action_space = gymnasium.spaces.MultiDiscrete([2, 3])
    numbered = importlib.import_module("my_pairs").Numbered(pairs)
    assert numbered.action(4).tolist() == [1, 1]


@pytest.mark.parametrize(("name", "shape"), [("Conv", (4, 84, 84)), ("MLP", (1, 4))])
def test_the_networks_of_the_docs_fit(name, shape, tmp_path, monkeypatch):
    code, *_ = page("docs/your-network.md").blocks("python")
    (tmp_path / "docs_networks.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = EnvSpec(frame=shape[1:], stack=shape[0], dtype="float32", action=Discrete(2))
    assert OwnBody(f"docs_networks:{name}", spec).features in (512, 128)


@pytest.fixture(scope="module")
def pong(tmp_path_factory):
    """A place where there is the run of the examples."""
    place = tmp_path_factory.mktemp("examples")
    make_run(place / "runs/pong-20260101-120000", "Pong")
    return place


def run_example(number, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    code = page("docs/use-a-policy.md").blocks("python")[number]
    names = {}
    exec(code, names)
    return names, capsys.readouterr().out


def test_the_example_of_a_policy_plays(pong, monkeypatch, capsys):
    steps = []
    step = PolicyEnv.step

    def shortened(env, action):
        steps.append(action)
        *rest, _, info = step(env, action)
        return *rest, True, info | {"episode": {"r": -7.0}}

    monkeypatch.setattr(PolicyEnv, "step", shortened)
    assert run_example(0, pong, monkeypatch, capsys)[1] == "-7.0\n"
    assert len(steps) == 1


@pytest.mark.parametrize(("number", "kind", "needed"), [(1, "onnx", PACKAGES), (2, "pt2", ())])
def test_the_examples_of_exported_files_give_actions(number, kind, needed, pong, monkeypatch, capsys):
    for name in needed:
        pytest.importorskip(name)
    monkeypatch.chdir(pong)
    export.main(["RUN=runs/pong-20260101-120000", f"OUT=pong.{kind}"])
    capsys.readouterr()
    names, said = run_example(number, pong, monkeypatch, capsys)
    expected = ga3c.load("runs/pong-20260101-120000", device="cpu").outputs(np.zeros((2, 4, 84, 84), np.uint8))
    np.testing.assert_allclose(np.asarray(names["outputs"].tolist()), expected, atol=1e-5)
    assert '"game": "Pong"' in said


def test_the_example_of_a_callback_ends_when_it_is_good_enough(monkeypatch, capsys, tmp_path):
    answers, loaded = [], []

    def train(config, callback):
        answers.extend(callback({"steps": 5, "score": score}) for score in (None, 449.0, 450.0))
        return {"run": "there"}

    monkeypatch.setattr(ga3c, "train", train, raising=False)
    monkeypatch.setattr(ga3c, "load", loaded.append, raising=False)
    run_example(3, tmp_path, monkeypatch, capsys)
    assert answers == [True, True, False]
    assert loaded == ["there"]


# Tables


@each_page
def test_tables_are_current(path):
    text = page(path).text
    assert tables.with_current_tables(text) == text, "run: python -m tests.tables"


@pytest.mark.parametrize("name", tables.TABLES)
def test_each_table_stands_on_a_page(name):
    assert sum(len(tables.place(name).findall(page(path).text)) for path in PAGES) == 1


def test_the_readme_is_short():
    assert len(page("README.md").text.splitlines()) <= 150


def test_the_readme_has_all_algorithms():
    cells = [cell for cell in page("README.md").first_cells if cell.startswith("ALGO=")]
    assert cells == [f"ALGO={name}" for name in RECIPES]


def test_the_rooms_are_told_in_their_order():
    rooms = [room for room in ROOMS if not room.startswith("__")]
    assert [cell for cell in page("docs/how-it-works.md").first_cells if cell in rooms] == rooms


def test_the_changelog_has_the_version():
    assert f"\n## {ga3c.__version__}\n" in page("CHANGELOG.md").text
