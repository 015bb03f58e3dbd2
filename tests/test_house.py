"""The rules of the house: who may import whom, who goes without torch, and where an algorithm may be named."""

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

import ga3c
from ga3c.settings.recipes import RECIPES
from tests.helpers.sources import PACKAGES, Sources, compared, imports, keys, made, module_of, sources_of

# Each imports only itself and those before it.
ROOMS = [
    *("settings", "system", "games", "memory", "models", "algorithms", "messages", "agents", "engines", "runs"),
    "__main__",
]
WITHOUT_TORCH = ("settings", "system", "games", "memory", "messages", "agents")  # and algorithms/*/acting.py
# Of the memory, what is on the device; no agent imports it.
ON_THE_DEVICE = [
    f"ga3c.memory.{name}" for name in ("ring", "drawn", "turns", "replay_size", "replay_file", "sums", "priorities")
]
TUNING = ("ga3c.runs.tuning", "ga3c.runs.retrace", "ga3c.__main__")  # what knows the tuner
PUBLIC_ROOMS = ("settings", "system", "games", "memory")  # what experiments may use; experiments/bench looks deeper
PUBLIC_NAMES = ["Config", "ConfigError", "Policy", "RunFailed", "Summary", "__version__", "load", "train"]
TABLE = "ga3c.settings.recipes"  # where algorithms and their rules are named
ALGORITHMS = {*RECIPES, *(recipe.rule for recipe in RECIPES.values())}

Rule = Callable[[Sources], Iterator[str]]


def rooms_in_order(sources: Sources) -> Iterator[str]:
    """A room imports those before it. What ``ga3c`` itself gives is of later rooms, so none takes it from there."""
    for module, source in sources.items():
        own = _room(module)
        if own is None:
            continue
        for name, line, _ in imports(source, sources):
            other = _room(name)
            if other == "__version__" or other is None:
                continue
            if own not in ROOMS or other not in ROOMS or ROOMS.index(other) > ROOMS.index(own):
                yield f"{source.path}:{line} imports {name}"


def players_without_torch(sources: Sources) -> Iterator[str]:
    """What an agent imports brings torch neither by itself nor by what it imports: that costs seconds and 200 MB."""
    for module in sources:
        if (_room(module) in WITHOUT_TORCH and module not in ON_THE_DEVICE) or module.endswith(".acting"):
            way = _way_to_torch(module, sources)
            if way:
                yield f"{sources[module].path} imports torch at its top: {' → '.join(way)}"


def _way_to_torch(module: str, sources: Sources) -> list[str]:
    """The modules that one imports at its top, one by another, up to torch; empty if none does."""
    ways, seen = [[module]], {module}
    while ways:
        way = ways.pop(0)
        source = sources[way[-1]]
        above = [name for name in (way[-1].rpartition(".")[0],) if name]  # a module's package is imported before it
        for name in [*above, *(name for name, _, when in imports(source, sources) if when == "top")]:
            if name.split(".")[0] == "torch":
                return [*way, name]
            other = module_of(name, sources)
            if other is not None and other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return []


def tuner_apart(sources: Sources) -> Iterator[str]:
    """The tuner knows nothing of us, and few know the tuner."""
    for module, source in sources.items():
        for name, line, _ in imports(source, sources):
            package, other = module.split(".")[0], name.split(".")[0]
            if (package == "tuner" and other in ("ga3c", "experiments", "tests")) or (
                package == "ga3c" and other == "tuner" and module not in TUNING
            ):
                yield f"{source.path}:{line} imports {name}"


def experiments_from_outside(sources: Sources) -> Iterator[str]:
    """Experiments use public rooms, and the library its experiments only as commands."""
    for module, source in sources.items():
        for name, line, _ in imports(source, sources):
            package, other, room = module.split(".")[0], name.split(".")[0], _room(name)
            outside = package == "experiments" and not module.startswith("experiments.bench")
            if (outside and room not in (None, *PUBLIC_NAMES, *PUBLIC_ROOMS)) or (
                package == "ga3c" and module != "ga3c.__main__" and other == "experiments"
            ):
                yield f"{source.path}:{line} imports {name}"


def nothing_imports_tests(sources: Sources) -> Iterator[str]:
    for source in sources.values():
        for name, line, _ in imports(source, sources):
            if name.split(".")[0] == "tests":
                yield f"{source.path}:{line} imports {name}"


def no_cycles(sources: Sources) -> Iterator[str]:
    """No module imports itself by way of others, lazily and for types neither."""
    graph = {
        module: {module_of(name, sources) for name, _, _ in imports(source, sources)} - {None, module, "ga3c"}
        for module, source in sources.items()
        if module != "ga3c"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield " → ".join(reversed(error.args[1]))


def algorithms_in_their_table(sources: Sources) -> Iterator[str]:
    """What an algorithm is, its recipe says; nobody asks for its name, nor is there a second table in ``ga3c``."""
    for module, source in sources.items():
        if module != TABLE:
            for text, line in [*compared(source), *(keys(source) if module.startswith("ga3c.") else ())]:
                if text in ALGORITHMS:
                    yield f"{source.path}:{line} asks for '{text}'"


def _room(name: str) -> str | None:
    """The room that a module of ours is in; None for all else, and for ``ga3c`` itself."""
    package, *rest = name.split(".")
    return rest[0] if package == "ga3c" and rest else None


SOUND = made(
    {
        "ga3c/__init__.py": "if TYPE_CHECKING:\n    from ga3c.runs.training import train",
        "ga3c/__main__.py": "COMMANDS = {'soak': 'experiments.soak', 'replay': 'ga3c.runs.retrace'}",
        "ga3c/settings/config.py": "import json\nfrom ga3c import __version__",
        "ga3c/settings/recipes.py": "RECIPES = {'a3c': 'lone'}\nlone = 'a3c' == 'ga3c'",
        "ga3c/games/spec.py": "from ga3c.settings.config import Config",
        "ga3c/models/__init__.py": "",
        "ga3c/models/model.py": "import torch\nfrom ga3c.games import spec",
        "ga3c/agents/player.py": "from ga3c.games.spec import EnvSpec\ndef late():\n    import torch",
        "ga3c/runs/training.py": "from ga3c.models.model import Model\nname = 'a3c'",
        "ga3c/runs/retrace.py": "from tuner.page import make_page",
        "tuner/page.py": "import matplotlib",
        "experiments/soak.py": "import ga3c\nfrom ga3c.settings.config import Config\nfrom tuner import page",
        "experiments/bench/stages.py": "from ga3c.models.model import Model",
    }
)
OFFENCES: list[tuple[Rule, str, str, str]] = [
    # the rule, a file, what is written in it, and what is told of that
    (rooms_in_order, "ga3c/games/spec.py", "from ga3c.memory.queue import Queue", ":1 imports ga3c.memory.queue.Queue"),
    (rooms_in_order, "ga3c/games/spec.py", "def f():\n    from ga3c.runs import training", ":2 imports"),
    (rooms_in_order, "ga3c/games/spec.py", "if TYPE_CHECKING:\n    import ga3c.agents.player", ":2 imports"),
    (rooms_in_order, "ga3c/games/spec.py", "from ..agents import player", ":1 imports ga3c.agents.player"),
    (rooms_in_order, "ga3c/games/spec.py", "find('ga3c.agents.player')", ":1 imports ga3c.agents.player"),
    (rooms_in_order, "ga3c/games/spec.py", "from ga3c import train", ":1 imports ga3c.train"),
    (rooms_in_order, "ga3c/games/spec.py", "import ga3c.utils", ":1 imports ga3c.utils"),
    (rooms_in_order, "ga3c/utils.py", "from ga3c.settings import config", "ga3c/utils.py:1"),
    (players_without_torch, "ga3c/agents/player.py", "import torch", "ga3c.agents.player → torch"),
    (players_without_torch, "ga3c/agents/player.py", "class P:\n    from torch import nn", "→ torch.nn"),
    (
        players_without_torch,
        "ga3c/agents/player.py",
        "from ga3c.models.model import Model",
        "ga3c.models.model → torch",
    ),
    (players_without_torch, "ga3c/agents/__init__.py", "import torch", "ga3c.agents.player → ga3c.agents → torch"),
    (players_without_torch, "ga3c/algorithms/dqn/acting.py", "import torch", "ga3c/algorithms/dqn/acting.py"),
    (tuner_apart, "tuner/page.py", "import ga3c", ":1 imports ga3c"),
    (tuner_apart, "tuner/page.py", "def f():\n    from experiments import soak", ":2 imports experiments.soak"),
    (tuner_apart, "ga3c/engines/server.py", "from tuner.page import make_page", "ga3c/engines/server.py:1"),
    (experiments_from_outside, "experiments/soak.py", "from ga3c.models.model import Model", "experiments/soak.py:1"),
    (experiments_from_outside, "experiments/soak.py", "from ga3c import HOMES", ":1 imports ga3c.HOMES"),
    (experiments_from_outside, "ga3c/runs/training.py", "x = 'experiments.soak'", ":1 imports experiments.soak"),
    (nothing_imports_tests, "experiments/soak.py", "from tests.helpers import waiting", "experiments/soak.py:1"),
    (no_cycles, "ga3c/games/spec.py", "def f():\n    import ga3c.models.model", "ga3c.games.spec → ga3c.models.model"),
    (algorithms_in_their_table, "ga3c/runs/training.py", "lone = config.algo == 'a3c'", ":1 asks for 'a3c'"),
    (algorithms_in_their_table, "ga3c/runs/training.py", "if algo not in ('a3c', 'x'):\n    pass", ":1 asks for 'a3c'"),
    (algorithms_in_their_table, "tuner/page.py", "LONE = 'a3c'\nlone = LONE != algo", ":2 asks for 'a3c'"),
    (algorithms_in_their_table, "experiments/soak.py", "match a:\n    case 'x' | 'ga3c':\n        pass", ":2 asks for"),
    (algorithms_in_their_table, "ga3c/runs/training.py", "engine = {'a3c': lone}[algo]", ":1 asks for 'a3c'"),
    (algorithms_in_their_table, "ga3c/runs/training.py", "usual = RECIPES['a3c'].usual", ":1 asks for 'a3c'"),
]
RULES = list(dict.fromkeys(rule for rule, *_ in OFFENCES))


@pytest.fixture(scope="module")
def house():
    return sources_of(*PACKAGES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rules(rule, house):
    assert "\n".join(rule(house)) == ""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_house_is_left_in_peace(rule):
    assert list(rule(SOUND)) == []


@pytest.mark.parametrize(("rule", "path", "text", "told"), OFFENCES)
def test_an_offence_is_told(rule, path, text, told):
    offences = list(rule(SOUND | made({path: text})))
    assert len(offences) >= 1
    assert told in " ".join(offences)


def test_all_rooms_are_there(house):
    assert {_room(module) for module in house} == {None, *ROOMS}


def test_public_names():
    assert sorted(ga3c.__all__) == PUBLIC_NAMES
    assert {getattr(ga3c, name).__module__ for name in ga3c.HOMES} == set(ga3c.HOMES.values())
    assert {*ga3c.HOMES, "__version__"} == set(PUBLIC_NAMES)
