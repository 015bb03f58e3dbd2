"""The source of our packages as data: which module imports which, and how; what is compared; how long things are."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("ga3c", "tuner", "experiments")


class Import(NamedTuple):
    """One thing that a module imports: a module, or what stands in it."""

    name: str  # as ga3c.games.spec.EnvSpec
    line: int
    when: str  # "top": as soon as the other is imported; "lazy": later, or by its name in a string; "typing": never


@dataclass(frozen=True)
class Source:
    """A Python file."""

    path: str  # from the root, with slashes
    text: str

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


Sources = dict[str, Source]  # by the name of the module


def sources_of(*packages: str) -> Sources:
    """What stands in the clone."""
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return made({path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths})


def sources_at(commit: str, *packages: str) -> Sources:
    """What stood there at a commit."""
    paths = git("ls-tree", "-r", "--name-only", commit, "--", *packages).split()
    return made({path: git("show", f"{commit}:{path}") for path in paths if path.endswith(".py")})


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def made(texts: dict[str, str]) -> Sources:
    """Sources from texts by path."""
    return {source.module: source for source in (Source(path, text) for path, text in texts.items())}


def imports(source: Source, known: Sources) -> list[Import]:
    """All that the file imports, and what a string names of ours: ``"ga3c.agents.process"`` is to be imported later."""
    found = []
    for node, when in _nodes(source.tree, "top"):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, when) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [Import(f"{_base(node, source)}.{alias.name}", node.lineno, when) for alias in node.names]
        elif isinstance(node, ast.Constant) and "." in str(node.value) and node.value in known:
            found.append(Import(str(node.value), node.lineno, "lazy"))
    return found


def module_of(name: str, known: Sources) -> str | None:
    """The module of ours that a name means, or that it stands in."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def _nodes(tree: ast.AST, when: str) -> Iterator[tuple[ast.AST, str]]:
    """All nodes under one, and when each is run."""
    for name, value in ast.iter_fields(tree):
        inner = when
        if isinstance(tree, ast.If) and name == "body" and ast.unparse(tree.test).endswith("TYPE_CHECKING"):
            inner = "typing"
        elif isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and name == "body":
            inner = "typing" if when == "typing" else "lazy"
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node, inner
                yield from _nodes(node, inner)


def _base(node: ast.ImportFrom, source: Source) -> str:
    """The package that a ``from`` names, also with dots in front."""
    if not node.level:
        return node.module or ""
    place = source.path.split("/")[: -node.level]
    return ".".join([*place, *([node.module] if node.module else [])])


def compared(source: Source) -> Iterator[tuple[str, int]]:
    """The strings that something is compared with, and the lines: ==, in, match.

    A name that the same file gives to a string, or to some, stands for them.
    """
    tree = source.tree
    given = {
        target.id: list(_strings(node.value, {}))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            operands = [node.value]
        for operand in operands:
            yield from ((text, operand.lineno) for text in _strings(operand, given))


def keys(source: Source) -> Iterator[tuple[str, int]]:
    """The strings that are keys of a dict, or looked up by themselves, and the lines."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Subscript):
            yield from ((text, node.lineno) for text in _strings(node.slice, {}))
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                yield from ((text, key.lineno) for text in _strings(key, {})) if key is not None else ()


def _strings(node: ast.expr, given: dict[str, list[str]]) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name):
        yield from given.get(node.id, [])
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from _strings(element, given)


def functions(source: Source) -> Iterator[tuple[str, int]]:
    """The functions of a file, and their lines without the docstring."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                first = node.body[0]
                lines -= (first.end_lineno or first.lineno) - first.lineno + 1
            yield node.name, lines
