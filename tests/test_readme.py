"""The README's settings table is the dataclass's. ``python tests/test_readme.py`` writes it anew."""

import re
from pathlib import Path

import numpy as np

from ga3c.games.make import make_games
from ga3c.settings.config import Config
from ga3c.settings.declare import settings_table

README = Path(__file__).parent.parent / "README.md"
SECTION = re.compile(r"(<!-- settings -->\n).*?(<!-- /settings -->)", re.DOTALL)


def with_current_table(text: str) -> str:
    rows = [f"| `{key}` | {default or '–'} | {_cell(meaning)} |" for key, default, meaning in settings_table(Config)]
    table = "\n".join(["| key | default | meaning |", "|---|---|---|", *rows]) + "\n"
    return SECTION.sub(lambda match: match[1] + table + match[2], text)


def _cell(text: str) -> str:
    """Neither the end of a cell nor HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def test_the_settings_table_is_current():
    text = README.read_text(encoding="utf-8")
    assert SECTION.search(text)
    assert with_current_table(text) == text, "run: python tests/test_readme.py"


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
    README.write_text(with_current_table(README.read_text(encoding="utf-8")), encoding="utf-8")
