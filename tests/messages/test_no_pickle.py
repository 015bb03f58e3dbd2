"""No pickle on the wire and in files: nothing in the sources can read one, and one that is put there does nothing."""

import ast
import csv
import inspect
import json
import json.decoder
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from ga3c.messages.links import identity
from ga3c.runs.checkpoint import CheckpointError, load_checkpoint, load_newest, save_checkpoint
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from tests.helpers.command_line import ROOT
from tests.helpers.exchange_at_work import ENVS, RUN, Office, bad_messages, request
from tests.helpers.intruder import Sender
from tests.helpers.waiting import wait_until
from tuner.trace import FILE, TraceError, read_trace

PICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "pandas", "yaml"}
READERS = {"torch": {"load", "save"}, "np": {"load", "save", "savez"}, "numpy": {"load", "save", "savez"}}
METHODS = {"recv_pyobj", "send_pyobj", "recv_serialized", "send_serialized"}
SOURCES = [
    path
    for package in ("ga3c", "tuner", "experiments")
    for path in sorted((ROOT / package).rglob("*.py"))
    if not path.match("experiments/peers/*")  # programs of others, which run in environments of their own
]


def ways_to_a_pickle(tree):
    """What in a source could write or read one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in PICKLERS)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in PICKLERS:
                yield node.module
            yield from (alias.name for alias in node.names if alias.name in READERS.get(node.module or "", ()))
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in METHODS or node.attr in READERS.get(owner, ()):
                yield node.attr
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield node.arg


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load(path)",
        "from torch import load",
        "np.load(path)",
        "read(path, allow_pickle=True)",
        "socket.recv_pyobj()",
    ],
)
def test_the_search_finds_what_it_looks_for(source):
    assert list(ways_to_a_pickle(ast.parse(source)))


def test_no_source_of_ours_has_a_way_to_a_pickle():
    found = {str(path): list(ways_to_a_pickle(ast.parse(path.read_text(encoding="utf-8")))) for path in SOURCES}
    assert len(found) > 40
    assert {path: ways for path, ways in found.items() if ways} == {}


@pytest.mark.parametrize("module", [json, json.decoder, tomllib, csv, safetensors, safetensors.numpy])
def test_nor_has_what_they_read_files_with(module):
    assert not list(ways_to_a_pickle(ast.parse(inspect.getsource(module))))


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, mark):
        self._mark = mark

    def __reduce__(self):
        return Path.touch, (self._mark,)


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "exploded"


@pytest.fixture(params=[0, pickle.HIGHEST_PROTOCOL])
def bomb(mark, request):
    """The bomb, in text and in binary; whoever reads it as a pickle is found out at the end."""
    content = pickle.dumps(Bomb(mark), protocol=request.param)
    pickle.loads(content)
    assert mark.exists()
    mark.unlink()
    yield content
    assert not mark.exists()


def test_a_pickle_on_the_wire_is_a_bad_message(bomb):
    office = Office()
    office.exchange.admit(0, ENVS)
    head, body = (bytes(part) for part in request())
    messages = [[bomb], [bomb, bomb], [bomb, body], [head, bomb], [head + bomb, body], [head, bomb, body]]
    with Sender(office.exchange.endpoint, identity(RUN, 0)) as sender:
        for message in messages:
            sender.send(message)
        wait_until(lambda: bad_messages(office) == len(messages))
    office.close()


def test_a_pickle_as_a_checkpoint_is_refused_and_the_one_before_is_taken(bomb, tmp_path):
    directory = tmp_path / "checkpoints"
    good = save_checkpoint(directory, {"weights": np.ones(3, np.float32)}, {"updates": 1}, keep=3)
    later = good.with_name("999999999999.safetensors")
    later.write_bytes(bomb)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(later)
    assert load_newest(tmp_path)[0] == good


def test_a_pickle_as_a_trace_is_refused(bomb, tmp_path):
    (tmp_path / FILE).write_bytes(bomb)
    with pytest.raises(TraceError):
        read_trace(tmp_path)


def test_a_pickle_as_a_config_is_refused(bomb, tmp_path):
    (tmp_path / "config.json").write_bytes(bomb)
    with pytest.raises(ConfigError, match="cannot be read"):
        Config.from_words([f"RESUME={tmp_path}"])
    (tmp_path / "mine.toml").write_bytes(bomb)
    with pytest.raises(ConfigError, match="not a TOML file"):
        Config.from_words([f"CONFIG={tmp_path / 'mine.toml'}"])
