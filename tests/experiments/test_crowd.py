"""The crowd: simulated agents at the real gate, and what it says where there may not be so many."""

import resource

import pytest

from experiments.bench import crowd, crowd_agents
from ga3c.settings.declare import ConfigError


def figures(output):
    return {name: float(value.replace(",", "")) for name, value in map(str.split, output.splitlines())}


@pytest.mark.processes
@pytest.mark.parametrize("load", ["messages", "blocks"])
def test_a_small_crowd_joins_waits_and_works(capsys, monkeypatch, load):
    monkeypatch.setattr(crowd, "SPEED_SECONDS", 0.05)
    monkeypatch.setattr(crowd, "REFERENCE_GAMES", 1)
    words = ["CONNECTIONS=40", "IDLE=0.1", "SECONDS=0.5", f"LOAD={load}", "RATE=40"]
    assert crowd.main([*words, "COMPRESS=1", "GAME=Pong"]) == 0
    told = figures(capsys.readouterr().out)
    assert (told["connections"], told["members"], told["joined_again"], told["bad_messages"]) == (40, 40, 0, 0)
    assert told["messages_per_second"] > 10
    assert told["megabytes_unpacked"] > 10 * told["megabytes_per_second"] > 0
    assert (told["experiences"] > 10) == (load == "blocks")


def test_too_few_open_files_are_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(crowd_agents.resource, "getrlimit", lambda _: (100, 500))
    with pytest.raises(ConfigError, match="need 501 open files in a process: 'ulimit -n 501'"):
        crowd_agents.raise_files(501)
    raised = []
    monkeypatch.setattr(crowd_agents.resource, "setrlimit", lambda *given: raised.append(given))
    crowd_agents.raise_files(400)
    assert raised == [(resource.RLIMIT_NOFILE, (400, 500))]
