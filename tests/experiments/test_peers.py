"""The peers' registry, their installation and their measurement, with scripts of our own instead of real peers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.bench import peers
from experiments.bench.peers import PEERS, UNAVAILABLE, Peer, PeerError, Report, install, measure, parse
from tests.helpers.command_line import all_gone
from tests.helpers.waiting import wait_until


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The script of the peer ``fake``, to be written by the test. It reports far more than real seconds."""
    script = tmp_path / "fake.py"
    monkeypatch.setitem(
        PEERS, "fake", Peer("a script of the test", ("no-such-distribution-anywhere==1.0",), str(script))
    )
    return script


def row(steps: int, seconds: float) -> str:
    return json.dumps({"steps": steps, "seconds": seconds, "parameters": 1})


def run(**options: float) -> float:
    return measure("fake", Path(sys.executable), game="Pong", cores=2, seconds=options.get("seconds", 10.0))


@pytest.mark.parametrize("name", PEERS)
def test_registry(name: str) -> None:
    peer = PEERS[name]
    assert peer.title
    assert peer.requirements
    for requirement in peer.requirements:
        assert re.fullmatch(r"[\w.\-]+(\[\w+\])?==[\w.]+", requirement), f"{requirement} is not pinned"
    source = peer.path.read_text()
    compile(source, str(peer.path), "exec")
    assert "report(" in source


@pytest.mark.processes
def test_a_failed_installation_is_told_in_one_line(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(PeerError, match=r"cannot be installed: .*no-such-distribution-anywhere") as caught:
        install("fake", tmp_path / "bench", lambda _: None)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "bench" / "fake" / "installed").exists()


def test_an_environment_is_made_once(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    called: list[str] = []

    def call(command: list[str], requirements: tuple[str, ...] = ()) -> None:
        called.append(command[2])
        (tmp_path / "fake").mkdir(exist_ok=True)

    monkeypatch.setattr(peers, "_call", call)
    python = install("fake", tmp_path, said.append)
    assert install("fake", tmp_path, said.append) == python == tmp_path / "fake" / "bin" / "python"
    assert called == ["venv", "pip"]
    monkeypatch.setitem(PEERS, "fake", Peer("changed", ("other==2.0",), str(fake)))
    install("fake", tmp_path, said.append)
    assert called == ["venv", "pip"] * 2
    assert len(said) == 2


def test_unknown_peers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="there is no peer nobody"):
        install("nobody", tmp_path, lambda _: None)


@pytest.mark.parametrize("name", UNAVAILABLE)
def test_peers_that_are_on_no_index_are_told(name: str, tmp_path: Path) -> None:
    assert name not in PEERS
    with pytest.raises(PeerError, match="cannot be installed: it"):
        install(name, tmp_path, lambda _: None)


def test_parse() -> None:
    assert parse('{"steps": 10, "seconds": 1.5, "parameters": 677943}\n') == Report(10, 1.5, 677943)
    for line in ("", "[info] started", "3", "null", "[1]", '{"steps": 10}', '{"steps": "many", "seconds": 1}'):
        assert parse(line) is None


@pytest.mark.processes
def test_the_rate_leaves_out_the_start(fake: Path) -> None:
    rows = [row(0, 100.0), row(1, 101.0), row(2, 106.5), row(502, 111.5), row(1002, 116.5)]
    fake.write_text(f"import signal\nprint('hello')\nprint({chr(10).join(rows)!r}, flush=True)\nsignal.pause()\n")
    assert run() == pytest.approx(100.0)


@pytest.mark.processes
def test_a_peer_that_fails_says_why_in_one_line(fake: Path) -> None:
    fake.write_text("raise SystemExit('no such game\\n')")
    with pytest.raises(PeerError, match=r"fake ended early: no such game$"):
        run()


@pytest.mark.processes
def test_a_peer_that_hangs_is_ended_with_its_children(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    fake.write_text(
        "import os, signal\n"
        "if child := os.fork():\n"
        f"    open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child}}')\n"
        "signal.pause()\n"
    )
    monkeypatch.setattr(peers, "START_SECONDS", 3.0)
    started = time.monotonic()
    with pytest.raises(PeerError, match="fake was ended: no steps reported for 3 s"):
        run()
    assert time.monotonic() - started < 20
    wait_until(all_gone(pids.read_text().split()))


@pytest.mark.processes
def test_an_interrupt_ends_the_peer(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.write_text("import signal\nsignal.pause()\n")
    started: list[subprocess.Popen[str]] = []

    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])
    monkeypatch.setattr(peers, "_steady_rate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert started[0].returncode == -9
    assert not os.path.exists(f"/proc/{started[0].pid}")
