"""The package as it is installed: what is in the wheel, and that it trains where there is no clone."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.helpers.command_line import QUICK, ROOT, summary_of
from tests.helpers.sources import PACKAGES

pytestmark = pytest.mark.processes
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
OFFLINE = ["--no-deps", "--no-index"]  # what it needs is there, in the interpreter that tests run in
DATA = ["ga3c/py.typed", "tuner/page.css", "tuner/page.js"]
DATA += [f"ga3c/games/emulator/{name}.h" for name in ("core", "environment")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, since setuptools leaves things where it builds."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("results", "__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "tests", source / "tests")  # a package as well, which is not to be found
    run([*PIP, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", place, source])
    (path,) = place.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """A virtual environment with the wheel: the directory of its programs. What the package needs is taken from where
    tests run, but for what ``.pth`` files say there: that the clone is installed."""
    place = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "venv", "--without-pip", place])
    run([*PIP, "--python", place / "bin" / "python", "install", *OFFLINE, wheel])
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))
    return place / "bin"


def run(words, **options):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_all_that_runs_and_no_tests(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    code = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    grids = {path.relative_to(ROOT).as_posix() for path in (ROOT / "experiments/papers/grids").glob("*.toml")}
    assert len(grids) > 5
    assert names == code | grids | set(DATA)


def test_the_installed_packages_are_those_that_run(programs, tmp_path):
    code = f"import json, {', '.join(PACKAGES)}; print(json.dumps([{'.__file__, '.join(PACKAGES)}.__file__]))"
    files = json.loads(run([programs / "python", "-c", code], cwd=tmp_path))
    assert all(Path(file).is_relative_to(programs.parent) for file in files)


@pytest.mark.parametrize(
    "words",
    [["ga3c", "SERIAL=0"], ["python", "-m", "ga3c", "SERIAL=1"]],  # once with agents, which are started by other means
    ids=["console script", "module"],
)
def test_the_installed_package_trains(words, programs, tmp_path):
    program, *words = words
    run([programs / program, *words, *QUICK, "MAX_STEPS=300", "MAX_SECONDS=60", "RUN=here"], cwd=tmp_path)
    summary = summary_of(tmp_path / "here")
    assert summary["exit_reason"] == "max_steps"
    assert summary["updates"] > 0
