"""The bench of DQN beside others with a replay memory: its figures by hand, what is refused, and a short one whole."""

import json

import pytest

from experiments.bench import bench, peers, replaying
from experiments.bench.replaying import WORK, Measured, Rate, summarise
from experiments.options import BenchOptions
from ga3c.settings.declare import ConfigError

REPLAYING = peers.Peer("made up", ("made-up==1",), "made_up.py", replays=True)
OTHER = peers.Peer("made up", ("made-up==1",), "made_up.py")
HARDWARE = {"cpu": "a CPU", "cores": 2, "memory_bytes": 2**34, "torch": "2", "date": "2026-01-01T00:00:00"}


def measured(**changes):
    ours = [Rate(380.0, 95.0), Rate(400.0, 101.0), Rate(360.0, 90.0)]
    return Measured(**{"ours": ours, "peers": {"slow": [95.0, 95.0, 90.0], "fast": [190.0, 150.0, 210.0]}, **changes})


def test_the_ratio_is_that_to_the_fastest_peer_by_medians():
    result = summarise(measured(), "nature")
    assert result["dqn_pps"] == 380.0
    assert {name: row["ratio"] for name, row in result["peers"].items()} == {"slow": 4.0, "fast": 2.0}
    assert result["ratio"] == 2.0
    assert result["balanced"]


def test_updates_have_to_follow_from_the_steps():
    assert not summarise(measured(ours=[Rate(380.0, 60.0)]), "nature")["balanced"]
    assert not summarise(measured(ours=[Rate(0.0, 0.0)]), "nature")["balanced"]


def test_a_peer_that_could_not_be_measured_has_a_reason(capsys):
    result = summarise(measured(peers={"gone": []}, errors={"gone": "no such package"}), "nature")
    assert result["peers"] == {"gone": {"pps": None, "ratio": None, "error": "no such package"}}
    assert result["ratio"] is None
    replaying.show(result)
    assert "no such package" in capsys.readouterr().out
    assert replaying.draw({**result, "hardware": HARDWARE}).startswith(b"\x89PNG")


def test_kinds_of_peers_are_not_mixed(monkeypatch):
    monkeypatch.setattr(peers, "PEERS", {"a": REPLAYING, "b": OTHER, "c": REPLAYING})
    assert bench.read_peers(BenchOptions(peers="all")) == ["b"]
    assert bench.read_peers(BenchOptions(peers="a,c")) == ["a", "c"]
    with pytest.raises(ConfigError, match="PEERS=a,b: those with a replay memory are measured beside DQN"):
        bench.read_peers(BenchOptions(peers="a,b"))


def test_another_network_than_the_peers_have_is_refused():
    with pytest.raises(ConfigError, match="NETWORK=small: peers with a replay memory have the nature network"):
        replaying.work(BenchOptions(network="small"))
    config = replaying.work(BenchOptions(game="Pong"))
    assert (config.network, config.hidden, config.batch, config.train_period) == ("nature", 512, 32, 4)


@pytest.mark.processes
def test_the_command_measures_and_writes(tmp_path, monkeypatch, capfd):
    def install(name, root, say):
        if name == "gone":
            raise peers.PeerError("no such package")
        return root / name

    monkeypatch.setattr(peers, "PEERS", {"fast": REPLAYING, "gone": REPLAYING})
    monkeypatch.setattr(peers, "install", install)
    monkeypatch.setattr(peers, "measure", lambda name, python, **how: 10.0 * how["cores"])
    for name, value in {"hidden": 16, "replay_start": 100, "replay_steps": 1000, "target_period": 50}.items():
        monkeypatch.setitem(WORK, name, value)
    out = tmp_path / "bench.json"
    words = ["GAME=CartPole-v1", "PEERS=fast,gone", "SECONDS=1", "REPEATS=2", f"OUT={out}"]
    code = bench.main(words)
    result = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert code == (0 if result["balanced"] else 1)  # in so short a time it may happen not to be
    assert len(result["dqn"]["pps"]["repeats"]) == 2
    assert result["dqn"]["tps"]["median"] > 0
    assert result["ratio"] == pytest.approx(result["dqn_pps"] / result["peers"]["fast"]["pps"])
    assert result["peers"]["gone"]["error"] == "no such package"
    assert {"cpu", "cores", "date", "commit"} <= set(result["hardware"])
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    shown = capfd.readouterr().out
    assert "ours over the fastest peer" in shown
    assert "no such package" in shown
