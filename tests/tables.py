"""By hand: ``python -m tests.tables`` writes the tables anew that the docs take from the code: settings, figures,
algorithms. Each stands on its page between two comments with its name."""

import re
from dataclasses import fields, is_dataclass
from importlib import import_module

from ga3c.__main__ import COMMANDS
from ga3c.algorithms.actor_critic import acting as actor_critic
from ga3c.algorithms.q_learning import acting as q_learning
from ga3c.memory.figures import FIGURES
from ga3c.settings.config import TRAVELLING, Config
from ga3c.settings.declare import settings_table
from ga3c.settings.presets import PRESETS
from ga3c.settings.recipes import RECIPES
from tests.helpers.markdown import PAGES
from tests.helpers.sources import ROOT


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Neither the end of a cell nor HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def options(cls: type) -> str:
    rows = [[f"`{key}`", default or "–", meaning] for key, default, meaning in settings_table(cls)]
    return table(["key", "default", "meaning"], rows)


def settings() -> str:
    """A table for each group."""
    groups = [group for group in reversed(Config.__mro__) if is_dataclass(group) and group is not Config]
    return "\n\n".join(f"### {str(group.__doc__).strip().rstrip('.')}\n\n{options(group)}" for group in groups)


def commands() -> str:
    return "\n\n".join(
        f"## {name}\n\n{options(getattr(import_module(module), cls))}" for name, (_, module, cls) in COMMANDS.items()
    )


def presets() -> str:
    names = [field.name for field in fields(Config) if any(field.name in preset for preset in PRESETS.values())]
    defaults = {key: default for key, default, _ in settings_table(Config)}
    rows = [
        [f"`{name.upper()}`", defaults[name.upper()], *(_value(preset, name) for preset in PRESETS.values())]
        for name in names
    ]
    return table(["key", "default", *(f"`PRESET={preset}`" for preset in PRESETS)], rows)


def _value(preset: dict[str, object], name: str) -> str:
    value = preset.get(name, "")
    if isinstance(value, bool):
        return str(int(value))
    return "auto" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def algorithms() -> str:
    rows = [
        [
            f"`{name}`",
            recipe.meaning,
            recipe.rule,
            recipe.predicts,
            recipe.memory,
            recipe.learns,
            recipe.engine,
            ", ".join(f"`{key.upper()}={value}`" for key, value in recipe.usual.items()),
        ]
        for name, recipe in RECIPES.items()
    ]
    return table(
        ["ALGO", "what", "rule", "who predicts", "memory", "who learns", "engine", "settings, if not given"], rows
    )


def figures() -> str:
    """Those of all runs, then those of each rule."""
    rules = {"all": FIGURES, "actor-critic": actor_critic.FIGURES, "Q-learning": q_learning.FIGURES}
    rows = [[f"`{figure.name}`", figure.meaning, rule] for rule, own in rules.items() for figure in own]
    return table(["figure", "meaning", "rule"], rows)


def travelling() -> str:
    return ", ".join(f"`{name.upper()}`" for name in TRAVELLING)


TABLES = {made.__name__: made for made in (settings, commands, presets, algorithms, figures, travelling)}


def place(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)


def with_current_tables(text: str) -> str:
    """A page whose tables are those of the code."""
    for name, made in TABLES.items():
        current = made() + "\n"
        if made in (settings, commands):
            current = f"\n{current}\n"  # headings stand apart
        text = place(name).sub(lambda match, current=current: match[1] + current + match[2], text)
    return text


if __name__ == "__main__":
    for path in PAGES:
        before = (ROOT / path).read_text(encoding="utf-8")
        (ROOT / path).write_text(with_current_tables(before), encoding="utf-8")
