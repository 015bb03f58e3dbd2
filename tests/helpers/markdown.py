"""Pages of Markdown as GitHub shows them: links, anchors, code and tables."""

import re
from dataclasses import dataclass
from functools import cached_property

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.helpers.sources import ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "experiments/*.md")
    for path in ROOT.glob(pattern)
)
PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Page:
    path: str  # from the root, with slashes
    text: str

    @cached_property
    def _blocks(self) -> list[Token]:
        return PARSER.parse(self.text)

    @property
    def _inline(self) -> list[Token]:
        return [child for block in self._blocks for child in block.children or ()]

    @property
    def links(self) -> list[str]:
        """Where links and pictures lead to."""
        targets = [str(token.attrs.get("href", token.attrs.get("src", ""))) for token in self._inline]
        html = "".join(token.content for token in [*self._blocks, *self._inline] if token.type.startswith("html"))
        return [target for target in [*targets, *re.findall(r'(?:src|href)="([^"]*)"', html)] if target]

    @property
    def anchors(self) -> set[str]:
        """Of the headings, by GitHub's rule: a second one of the same name has a number."""
        found: list[str] = []
        for opening, heading in zip(self._blocks, self._blocks[1:], strict=False):
            if opening.type == "heading_open":
                words = "".join(token.content for token in heading.children or ())
                name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
                again = sum(other == name for other in found)
                found.append(name)
                if again:
                    found.append(f"{name}-{again}")
        return set(found)

    @property
    def spans(self) -> list[str]:
        """Code within sentences."""
        return [token.content for token in self._inline if token.type == "code_inline"]

    def blocks(self, language: str) -> list[str]:
        """Code that stands apart."""
        return [token.content for token in self._blocks if token.type == "fence" and token.info == language]

    @property
    def first_cells(self) -> list[str]:
        """Of each row of each table, what its first cell says, without marks."""
        rows = zip(self._blocks, self._blocks[1:], self._blocks[2:], strict=False)
        return [
            "".join(token.content for token in cell.children or ())
            for row, _, cell in rows
            if row.type == "tr_open" and cell.type == "inline"
        ]


def page(path: str) -> Page:
    return Page(path, (ROOT / path).read_text(encoding="utf-8"))
