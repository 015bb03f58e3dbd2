"""By hand: ``python -m tests.rooms [COMMIT [ROOMS_OF=COMMIT]]``, a table of the rooms with their sizes.

Without a commit it is that of the files as they stand. Before there were rooms all files lay beside each other; those
of such a commit are shown in the rooms that they were moved to by the commit ROOMS_OF.
"""

import sys
from statistics import median

from tests.helpers.sources import PACKAGES, Source, Sources, functions, git, made, sources_at, sources_of


def moved(sources: Sources, before: str, after: str) -> Sources:
    """The sources under the paths that git says they have later."""
    lines = git(
        "diff", "-M25%", "--name-status", "--diff-filter=R", before, after, "--", *PACKAGES, "tests"
    ).splitlines()
    paths = dict(line.split("\t")[1:] for line in lines)
    return made({paths.get(source.path, source.path): source.text for source in sources.values()})


def room(source: Source) -> str:
    """The package and the folder in it; what lies in no folder is of the package itself."""
    package, *folders, _ = source.path.split("/")
    return "/".join([package, *folders[:1]])


def row(name: str, sources: list[Source]) -> str:
    longest = max(sources, key=lambda source: source.lines)
    lines, function, where = max(
        ((lines, function, source.path) for source in sources for function, lines in functions(source)),
        default=(0, "–", ""),
    )
    cells = [
        name,
        len(sources),
        sum(source.lines for source in sources),
        median(source.lines for source in sources),
        f"{longest.lines} `{longest.path.split('/')[-1]}`",
        f"{lines} `{function}`" + (f" in `{where.split('/')[-1]}`" if where else ""),
    ]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(sources: Sources) -> str:
    """Markdown; files that hold nothing are not counted."""
    packages: dict[str, list[Source]] = {}
    rooms: dict[str, list[Source]] = {}
    for source in sources.values():
        if source.lines:
            packages.setdefault(source.path.split("/")[0], []).append(source)
            rooms.setdefault(room(source), []).append(source)
    lines = ["| room | files | lines | median file | longest file | longest function |", "|---|---|---|---|---|---|"]
    for package, inside in sorted(packages.items()):
        lines += [row(name, rooms[name]) for name in sorted(rooms) if name.split("/")[0] == package]
        lines.append(row(f"**{package}**", inside))
    return "\n".join(lines)


def main(words: list[str]) -> int:
    commit = next((word for word in words if "=" not in word), "")
    rooms_of = next((word.removeprefix("ROOMS_OF=") for word in words if word.startswith("ROOMS_OF=")), "")
    packages = (*PACKAGES, "tests")
    sources = sources_at(commit, *packages) if commit else sources_of(*packages)
    print(table(moved(sources, commit, rooms_of) if rooms_of else sources))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
