"""The results page: what each experiment gave, with its command and machine, from ``experiments/results``.

``python -m experiments.papers.report`` writes it anew. All numbers are those of a results.json; what somebody who
looked at them has to say is beside it in a remarks.md.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path

from experiments.papers.cell_records import Results, failures
from experiments.papers.tables import Table, tables
from ga3c.system.files import write_atomically

HERE = Path(__file__).parent.parent
PAGE, RESULTS, GRIDS = HERE / "RESULTS.md", HERE / "results", HERE / "papers" / "grids"
REMARKS = "remarks.md"
HEAD = """# Results

Made by `python -m experiments.papers.report` from `experiments/results/*/results.json`. Each section is one run of
`./run.sh experiment`, on the machine that it names; what was not run is listed as such. "Remarks" are written by hand,
in `remarks.md` beside the results.
"""


def page(results: Path = RESULTS, grids: Path = GRIDS) -> str:
    """The whole page, which depends on nothing but the files of these directories."""
    titles = {path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["title"] for path in grids.glob("*.toml")}
    found = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*/results.json"))}
    sections = [_section(path, one) for path, one in found.items()]
    missing = [f"- {name}: {titles[name]}" for name in sorted(titles.keys() - {one["name"] for one in found.values()})]
    if missing:
        sections.append("\n".join(["## Not run", "", *missing]) + "\n")
    elif not found:
        sections.append("None has been run.\n")
    return "\n".join([HEAD, *sections])


def _section(path: Path, results: Results) -> str:
    parts = [f"## {results['title']}", f"```bash\n{results['command']}\n```", _circumstances(results)]
    if results["budget"] == "toy":
        parts.append("**Toy budget**: this shows that the experiment runs; its numbers say nothing.")
    parts += [
        f"![{results['title']}]({path.parent.parent.name}/{path.parent.name}/{picture.name})"
        for picture in sorted(path.parent.glob("*.png"))
    ]
    parts += [markdown(table) for table in tables(results)]
    remarks = path.with_name(REMARKS)
    if remarks.exists():
        parts.append(f"**Remarks**\n\n{remarks.read_text(encoding='utf-8').strip()}")
    parts.append(f"**What it shows**: {results['shows']}")
    parts.append(f"**What it does not show**: {results['does_not_show']}")
    if says := results["paper"].get("says"):
        parts.append(f"**The paper**: {says}")
    if failed := failures(results):
        parts.append("**Failed** and left out:\n\n" + "\n".join(f"- `{one}`" for one in map(_in_line, failed)))
    return "\n\n".join(parts) + "\n"


def _circumstances(results: Results) -> str:
    """Machine, time and code of a run, in one sentence each."""
    hardware = results["hardware"]
    device = f", {hardware['device']}" if hardware.get("device") else ""
    count = len(results["cells"])
    cells = f"{count} run{'' if count == 1 else 's'}" + (
        f", {results['unfinished']} to go" if results.get("unfinished") else ""
    )
    seeds = f"seed{'s' if len(results['seeds']) > 1 else ''} {', '.join(map(str, results['seeds']))}"
    return (
        f"{hardware['cores']} cores of {hardware['cpu']}{device}, {hardware['memory_bytes'] / 2**30:.0f} GB, "
        f"{hardware['system']}, Python {hardware['python']}, torch {hardware['torch']}. "
        f"Budget {results['budget']}: {cells} ({seeds}), {_duration(results['seconds'])} in all. "
        f"{results['date'][:10]}, commit {_commits(results['commit'])}."
    )


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _commits(commit: str | None) -> str:
    """Ten digits of each are enough to find them; a mark of files that were changed is kept."""
    if not commit:
        return "unknown"
    short = (one[:10] + ("-dirty" if one.endswith("-dirty") else "") for one in commit.split(", "))
    return ", ".join(f"`{one}`" for one in short)


def markdown(table: Table) -> str:
    """Numbers to the right of their columns, names to the left."""
    lines = [f"**{table.title}**", "", _row(table.headers), _row([":--", *["--:"] * (len(table.headers) - 1)])]
    lines += [_row(row) for row in table.rows]
    if table.note:
        lines += ["", table.note]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_in_line(cell).replace("|", "\\|") for cell in cells) + " |"


def _in_line(text: str) -> str:
    """An error may be of several lines, and of letters that end a quotation."""
    return " ".join(text.split()).replace("`", "'")


if __name__ == "__main__":
    write_atomically(PAGE, page().encode())
