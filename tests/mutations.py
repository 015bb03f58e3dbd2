"""Mutations: small faults put into the code on purpose, each of which a test has to catch. By hand.

python -m tests.mutations [NAME …]: makes each of ``mutations.toml``, or only those named, in a copy of the working
tree, runs the tests that should catch it, and says whether they did. The exit code is 1 if one of them was not caught.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LISTED = Path(__file__).with_suffix(".toml")
SECONDS = 120  # for the tests of one mutation
CAUGHT = "caught"
PYTEST = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider"]
FAILED_TESTS = 1  # pytest's exit code: any other one but 0 says that they did not run


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    text: str  # occurs once in the file
    instead: str
    tests: list[str]  # that should catch it, as pytest names them


def listed() -> list[Mutation]:
    return [Mutation(**given) for given in tomllib.loads(LISTED.read_text())["mutation"]]


def copy_tree(to: Path, root: Path = ROOT) -> None:
    """All files of the working tree but those that git ignores."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():  # one that was deleted is listed until that is committed
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, to / name)


def run_tests(tree: Path, tests: list[str], seconds: float) -> int | None:
    """Pytest's exit code; None if the tests have not ended by then."""
    # No bytecode: a mutation of the same length within the same second would not be seen beside that of the original.
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*PYTEST, *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def outcome(tree: Path, mutation: Mutation, seconds: float = SECONDS) -> str:
    """What the tests say to this mutation of a copied tree, which is left as it was."""
    path = tree / mutation.file
    original = path.read_text()
    if original.count(mutation.text) != 1:
        return "text not found" if mutation.text not in original else "text found more than once"
    path.write_text(original.replace(mutation.text, mutation.instead))
    try:
        code = run_tests(tree, mutation.tests, seconds)
    finally:
        path.write_text(original)
    if code is None:
        return f"its tests had not ended after {seconds:g} s"
    return {0: "SURVIVED", FAILED_TESTS: CAUGHT}.get(code, f"its tests did not run: pytest ended with code {code}")


def main(names: list[str]) -> int:
    known = {mutation.name: mutation for mutation in listed()}
    if unknown := set(names) - known.keys():
        print("no such mutation:", *sorted(unknown))
        return 2
    chosen = [known[name] for name in names or known]
    with tempfile.TemporaryDirectory(prefix="ga3c-mutations-") as directory:
        tree = Path(directory)
        copy_tree(tree)
        if (
            run_tests(tree, sorted({test for mutation in chosen for test in mutation.tests}), len(chosen) * SECONDS)
            != 0
        ):
            print("the tests fail without any mutation")
            return 1
        missed = 0
        for mutation in chosen:
            said = outcome(tree, mutation)
            missed += said != CAUGHT
            print(f"{mutation.name:45} {said}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
