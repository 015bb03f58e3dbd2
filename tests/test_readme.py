"""The README's settings table is the dataclass's. ``python tests/test_readme.py`` writes it anew."""

import re
from pathlib import Path

from ga3c.config import Config
from ga3c.settings import settings_table

README = Path(__file__).parent.parent / "README.md"
SECTION = re.compile(r"(<!-- settings -->\n).*?(<!-- /settings -->)", re.DOTALL)


def with_current_table(text: str) -> str:
    rows = [f"| `{key}` | {default or '–'} | {meaning} |" for key, default, meaning in settings_table(Config)]
    table = "\n".join(["| key | default | meaning |", "|---|---|---|", *rows]) + "\n"
    return SECTION.sub(lambda match: match[1] + table + match[2], text)


def test_the_settings_table_is_current():
    text = README.read_text(encoding="utf-8")
    assert SECTION.search(text)
    assert with_current_table(text) == text, "run: python tests/test_readme.py"


def test_every_file_that_the_readme_names_exists():
    text = README.read_text(encoding="utf-8")
    for name in re.findall(r"`(\w+\.py)`", text):
        assert (README.parent / "ga3c" / name).exists(), name


if __name__ == "__main__":
    README.write_text(with_current_table(README.read_text(encoding="utf-8")), encoding="utf-8")
