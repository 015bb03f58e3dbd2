"""The README's tables of settings and figures are the code's; ``python -m tests.test_readme`` writes them anew."""

import re
from pathlib import Path

import numpy as np

from ga3c.algorithms.actor_critic import acting as actor_critic
from ga3c.games.make import make_games
from ga3c.memory.figures import FIGURES
from ga3c.settings.config import Config
from ga3c.settings.declare import settings_table

README = Path(__file__).parent.parent / "README.md"


def settings_rows() -> list[str]:
    rows = [f"| `{key}` | {default or '–'} | {_cell(meaning)} |" for key, default, meaning in settings_table(Config)]
    return ["| key | default | meaning |", "|---|---|---|", *rows]


def figures_rows() -> list[str]:
    rows = [f"| `{figure.name}` | {_cell(figure.meaning)} |" for figure in (*FIGURES, *actor_critic.FIGURES)]
    return ["| figure | meaning |", "|---|---|", *rows]


TABLES = {"settings": settings_rows, "figures": figures_rows}


def section(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)


def with_current_tables(text: str) -> str:
    for name, rows in TABLES.items():
        table = "\n".join(rows()) + "\n"
        text = section(name).sub(lambda match, table=table: match[1] + table + match[2], text)
    return text


def _cell(text: str) -> str:
    """Neither the end of a cell nor HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def test_the_tables_are_current():
    text = README.read_text(encoding="utf-8")
    assert all(section(name).search(text) for name in TABLES)
    assert with_current_tables(text) == text, "run: python -m tests.test_readme"


def test_every_file_that_the_readme_names_exists():
    text = README.read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/]+\.py)`", text):
        assert (README.parent / name).exists() or (README.parent / "ga3c" / name).exists(), name


def test_the_readmes_own_environment_plays(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n# my_games.py\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_games.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    games = make_games(Config(game="my_games:Corridor-v0"), 2)
    assert games.reset(0).tolist() == [[[0.5]], [[0.5]]]
    for _ in range(10):
        played = games.step(np.array([1, 0]))
    games.close()
    assert played.rewards.tolist() == [1.0, 0.0]
    assert played.terminated.all()


if __name__ == "__main__":
    README.write_text(with_current_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
