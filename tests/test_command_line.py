"""The table of commands: each is there, has a line of help, refuses wrong words, and can be stopped while it starts."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from ga3c.__main__ import COMMANDS, HELP, USAGE, main
from tests.helpers.command_line import ROOT

INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["ga3c", "eval", "RUN=nowhere"]
from ga3c.__main__ import run  # as the console script does it
sys.exit(run())
"""
LOADED = """
import sys
from ga3c.__main__ import main
main(["help"])
print(*sorted({"torch", "ale_py", "gymnasium", "zmq", "matplotlib"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_there_and_explained(command):
    assert f"./run.sh {command}" in USAGE
    assert find_spec(COMMANDS[command][0]) is not None


@pytest.mark.parametrize("word", HELP)
def test_help_has_the_settings_of_every_command(word, capsys):
    assert main([word]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(USAGE)
    for title in ("training", *COMMANDS):
        assert f"Settings of {title}:\n" in shown
    assert "\n  PEERS           " in shown


@pytest.mark.processes
def test_help_loads_nothing_that_takes_long():
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "\n")


@pytest.mark.processes
def test_a_reader_that_has_enough_of_the_help_gets_no_traceback():
    done = subprocess.run(
        f"{sys.executable} -m ga3c help | head -1", shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (USAGE.partition("\n")[0] + "\n", "")


@pytest.mark.parametrize("command", ["train", *COMMANDS])
def test_every_command_refuses_wrong_words(command, capsys):
    name = ["figure3"] if command == "experiment" else []
    assert main([command, *name, "XYZZY=1"]) == 2
    assert capsys.readouterr().err == "ga3c: XYZZY is not a setting. './run.sh help' lists the settings.\n"


def test_what_is_no_command_gets_the_nearest_one(capsys):
    assert main(["experimnt"]) == 2
    said = capsys.readouterr().err
    assert said == "ga3c: 'experimnt' is not a command. Did you mean experiment? './run.sh help' lists them\n"


@pytest.mark.processes
@pytest.mark.parametrize("module", ["ga3c.settings.declare", "ga3c.runs.evaluate", "torch"])
def test_ctrl_c_while_it_imports_is_a_good_end(module):
    program = INTERRUPTED.format(module=module)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
