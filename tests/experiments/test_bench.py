"""The bench: its figures from measurements that are known, its processes, the command itself, and the guard."""

import json
import os
import signal
import statistics
import time
from pathlib import Path

import pytest

from experiments.bench import bench, peers
from experiments.bench.bench_report import answer, draw, show
from experiments.bench.bench_result import Measured, summarise
from experiments.bench.ceiling import Ceiling, Rates
from experiments.bench.served import Figures, GridPoint, Overhead, Overheads, Probe, Served, balanced
from experiments.options import BenchOptions
from experiments.processes import Processes, ProcessFailed, family, memory
from experiments.progress import Part
from experiments.statistics import spread
from ga3c.__main__ import main as command
from ga3c.runs.resolve import probe, resolve
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from ga3c.system.limits import available_cores
from tests.helpers.command_line import finish, start
from tests.helpers.prepared import Forked
from tests.helpers.waiting import wait_until

CARTPOLE = ("GAME=CartPole-v1", "QUICK=1", "SECONDS=0.3", "REPEATS=1", "MIN_BATCH=20")
PEER = peers.Peer("made up", ("made-up==1",), "made_up.py")
ANSWERS = ("efficiency", "ceiling_pps", "best", "peers", "efficiency_k1", "prediction_overhead", "update_ratio")


def figures(pps, trained=None, **changes):
    row = {
        "pps": pps,
        "tps": 9.0,
        "trained_per_second": pps if trained is None else trained,
        "lag_mean": 3.0,
        "lag_max": 5,
        "prediction_batch": 8.0,
        "limit": "agents",
        "predictor_busy": 0.5,
        "trainer_busy": 0.6,
        "held": 0.1,
        "rss": 3e8,
        "pss": 2e8,
        "round_trips": [0.004, 0.005, 0.006],
        "forwards": [0.001, 0.002, 0.003],
    }
    return Figures(**{**row, **changes})


def made_up(**changes):
    small = {"forward small 16": [0.002], "gradient small 20": [0.010, 0.012], "update small 20": [0.012, 0.014]}
    parts = {
        "stages": {"step 1": [0.0004], "step 16": [0.005], "code experience 20": [1e-5], **small},
        "ceilings": {8: [Rates(1000, 1000), Rates(900, 900)], 16: [Rates(2000, 2000), Rates(2400, 2400)]},
        "settings": {
            GridPoint(2, 64): [figures(2000), figures(2200)],
            GridPoint(2, 32, 1, 2): [figures(3000, trained=2000), figures(3000, trained=2000)],
            GridPoint(16, 1): [figures(1000), figures(1200)],
        },
        "overheads": {16: [Overheads(0.004, 0.003)], 8: [Overheads(0.003, 0.002)]},
    }
    return Measured(**{**parts, **changes})


def with_hardware(result):
    machine = {"cpu": "a CPU", "cores": 2, "memory_bytes": 2**34, "torch": "2", "date": "2026-01-01T00:00:00"}
    return {**result, "hardware": machine}


def test_the_best_is_the_fastest_that_is_balanced_by_medians():
    result = summarise(made_up(), "small")
    assert result["ceiling_pps"] == 2200  # of the better count of environments, not of the better repeat
    assert (result["best"]["setting"], result["best"]["pps"]) == ("2x64", 2100)
    assert result["efficiency"] == pytest.approx(2100 / 2200)
    assert (result["best_k1"]["setting"], result["efficiency_k1"]) == ("16x1", pytest.approx(0.5))
    assert [row["balanced"] for row in result["settings"]] == [True, False, True]
    assert result["prediction_overhead"] == pytest.approx(0.25)
    assert result["update_ratio"] == pytest.approx(13 / 11)
    assert result["peers"] == {}
    assert result["growth"] is None


def test_latency_is_over_all_probes_and_compute_its_share():
    row = summarise(made_up(), "small")["settings"][0]
    assert row["latency_p50"] == pytest.approx(0.005)
    assert row["latency_p99"] == pytest.approx(0.006)
    assert row["latency_compute"] == pytest.approx(0.4)
    assert row["probes"] == 6


def test_spread_has_the_median_between_least_and_most():
    assert spread([3, 1, 2]) == {"median": 2, "low": 1, "high": 3, "repeats": [3, 1, 2]}


def test_balance_is_judged_over_all_repeats():
    assert balanced([figures(100, trained=90), figures(100, trained=108)])
    assert not balanced([figures(100, trained=94), figures(100, trained=94)])
    assert not balanced([figures(0)])


def test_peers_have_a_ratio_or_a_reason():
    measured = made_up(peers={"fast": [700.0, 1400.0], "gone": []}, errors={"gone": "no such package"})
    result = summarise(measured, "small")
    assert (result["peers"]["fast"]["pps"], result["peers"]["fast"]["ratio"]) == (1050, 2)
    assert result["peers"]["gone"] == {"pps": None, "ratio": None, "error": "no such package"}


def test_growth_tells_what_the_most_agents_keep_of_the_peak():
    grown = {1: [figures(500)], 64: [figures(1000), figures(1000)], 128: [figures(900), figures(940)]}
    growth = summarise(made_up(grown_agents=grown, grown_networks={"small": [figures(9)]}), "small")["growth"]
    assert growth["kept"] == pytest.approx(0.92)
    assert list(growth["agents"]) == ["1", "64", "128"]


def test_without_a_balanced_setting_there_is_no_best():
    measured = made_up(settings={GridPoint(2, 64): [figures(1000, trained=10)]}, errors={"9x1": "it failed"})
    result = with_hardware(summarise(measured, "small"))
    assert (result["best"], result["efficiency"], result["efficiency_k1"]) == (None, 0.0, None)
    assert "no setting of the grid was balanced" in " ".join(answer(result))


@pytest.mark.parametrize("columns", ["60", "200"])
def test_everything_is_shown_and_drawn(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    grown = {count: [figures(100 * count)] for count in (1, 2, 4)}
    measured = made_up(peers={"fast": [700.0]}, grown_agents=grown, grown_networks={"small": [figures(9)]})
    result = with_hardware(summarise(measured, "small"))
    show(result)
    shown = capsys.readouterr().out
    for words in ("environment step", "2x64", "not balanced", "fast", "efficiency", "4 agents, K = 1"):
        assert words in " ".join(shown.split())
    assert draw(result).startswith(b"\x89PNG")


def test_settings_have_a_short_form():
    words = "2x64,16x1/2/1,2x64"
    assert bench.read_grid(BenchOptions(grid=words)) == [GridPoint(2, 64), GridPoint(16, 1, 2, 1)]
    assert [str(setting) for setting in bench.read_grid(BenchOptions(grid=words))] == ["2x64", "16x1/2/1"]
    assert all(setting.agents >= 3 for setting in bench.default_grid(3, quick=False))


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("GRID=2by64", "is not a list like 2x64,16x1"),
        ("GRID=2x64/2", "is not a list like"),
        ("GRID=0x4", "AGENTS=0 plays nothing"),
        ("PEERS=sb4", "PEERS=sb4 is unknown. Did you mean sb3?"),
        ("QUIK=1", "Did you mean QUICK?"),
        ("SECONDS=0", "out of range"),
        ("GAME=Pongg", "Did you mean Pong"),
        ("OUT=/nowhere/x.json", "cannot be written"),
        ("OUT=x.png", "name the JSON file"),
        ("OUT=.", "is a directory"),
    ],
)
def test_wrong_words_are_refused(monkeypatch, capsys, word, reason):
    monkeypatch.setattr(peers, "PEERS", {"sb3": PEER})
    assert command(["bench", word]) == 2
    assert reason in capsys.readouterr().err


def test_all_peers_are_those_that_there_are(monkeypatch):
    monkeypatch.setattr(peers, "PEERS", {"one": PEER, "two": PEER})
    assert bench.read_peers(BenchOptions(peers="all")) == ["one", "two"]
    assert bench.read_peers(BenchOptions(peers="two,")) == ["two"]
    with pytest.raises(ConfigError, match="all, one, two"):
        bench.read_peers(BenchOptions(peers="three"))


def schedule(monkeypatch, tmp_path, part, **options):
    """A bench that does nothing but this part in each repeat."""
    monkeypatch.setattr(bench.Bench, "_starts", lambda self: [])
    monkeypatch.setattr(bench.Bench, "_round", lambda self: [part])
    with Processes(tmp_path) as processes:
        return bench.Bench(BenchOptions(game="CartPole-v1", **options), processes).run()


def test_a_slow_machine_has_fewer_repeats_unless_they_are_asked_for(monkeypatch, tmp_path, capfd):
    done = []
    part = Part("slow", 1.0, lambda: done.append(1) or "done")
    schedule(monkeypatch, tmp_path, part)
    assert len(done) == 3
    monkeypatch.setattr(bench, "BUDGET", 0.0)
    schedule(monkeypatch, tmp_path, part)
    assert len(done) == 3 + 1
    assert "1 instead of 3 repeats" in capfd.readouterr().err
    schedule(monkeypatch, tmp_path, part, repeats=4)
    assert len(done) == 3 + 1 + 4


def test_what_fails_is_noted_and_left_out_from_then_on(monkeypatch, tmp_path, capfd):
    tried = []

    def fail():
        tried.append(1)
        raise ProcessFailed("the server fell over")

    measured = schedule(monkeypatch, tmp_path, Part("server, 2x4", 1.0, fail, ("2x4",)))
    assert (len(tried), measured.errors) == (1, {"2x4": "the server fell over"})
    assert "server, 2x4: failed: the server fell over" in capfd.readouterr().err
    with pytest.raises(ProcessFailed):  # nothing makes sense without a ceiling
        schedule(monkeypatch, tmp_path, Part("ceiling", 1.0, fail))


@pytest.mark.processes
def test_the_command_measures_and_writes(tmp_path, monkeypatch, capfd):
    def install(name, root, say):
        if name == "gone":
            raise peers.PeerError("no such package")
        say("downloading")
        return root / name

    monkeypatch.setattr(peers, "PEERS", {"fast": PEER, "gone": PEER})
    monkeypatch.setattr(peers, "install", install)
    monkeypatch.setattr(peers, "measure", lambda name, python, **how: 10.0 * how["cores"])
    out = tmp_path / "bench.json"
    code = bench.main([*CARTPOLE, "GRID=1x2,1x2/1/2", "PEERS=all", f"OUT={out}"])
    shown, progress = capfd.readouterr()
    result = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert code == (0 if result["best"] else 1)  # so short a time may happen to be out of balance
    assert set(ANSWERS) <= set(result)
    assert result["ceiling_pps"] > 0
    assert set(result["ceilings"]) == {"8", "16", "32"}
    assert [row["setting"] for row in result["settings"]] == ["1x2", "1x2/1/2"]
    for row in result["settings"]:
        assert row["pps"]["median"] > 0
        assert 0 < row["latency_p50"] <= row["latency_p99"]
        assert 0 < row["latency_compute"] <= 1
        assert row["pss"]["median"] <= row["rss"]["median"]
    assert 0 < result["prediction_overhead"] < 1
    assert result["update_ratio"] > 0.5
    assert {"cpu", "cores", "memory_bytes", "torch", "date", "commit"} <= set(result["hardware"])
    assert result["peers"]["fast"]["pps"] == 10.0 * available_cores()
    assert result["peers"]["gone"]["error"] == "no such package"
    assert {"step 1", "code request 16", "wire 16", "forward mlp 16", "update mlp 20"} <= set(result["stages"])
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "efficiency" in shown
    assert "no such package" in shown
    lines = progress.splitlines()  # no terminal: a line per part, without control characters
    assert any("ceiling, 16 environments each:" in line and " left " in line for line in lines)
    assert "\x1b" not in progress
    assert family(os.getpid()).keys() <= {os.getpid(), *_staying()}


def _staying():
    """Processes that outlive what was started: multiprocessing keeps one, and other tests may have left theirs."""
    from multiprocessing import resource_tracker

    return {resource_tracker._resource_tracker._pid, *([Forked.ready.pid] if Forked.ready else [])}


@pytest.mark.processes
@pytest.mark.alone
def test_ctrl_c_ends_everything(tmp_path, temporary):
    process = start(tmp_path, "bench", *CARTPOLE[:2], "GRID=3x1", "SECONDS=600")
    for line in process.stdout:
        if "starting 3 agents of 1: ready" in line:
            break
    mine = wait_until(lambda: _group(process.pid), what="processes")
    assert len(mine) > 8
    os.killpg(process.pid, signal.SIGINT)
    asked = time.monotonic()
    code, output = finish(process)
    assert time.monotonic() - asked < 30  # a second on a quiet machine, and minutes if it went on measuring
    assert code == 0, output
    assert "Traceback" not in output
    wait_until(lambda: not _group(process.pid), 2, "the end of all processes")
    assert not list(temporary.iterdir())


def _group(pgid):
    """Processes of this group that live."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == pgid and state != "Z":
            members.append(stat)
    return members


def echo(orders):
    while (order := orders.next())[0] != "end":
        if order[0] == "fail":
            raise ValueError("told to")
        orders.answer(order)


@pytest.fixture
def processes(tmp_path):
    with Processes(tmp_path) as processes:
        yield processes


@pytest.mark.processes
def test_a_process_answers_and_tells_why_it_failed(processes):
    process = processes.start("echo", echo)
    assert process.ask("hello", 1) == ("hello", 1)
    with pytest.raises(ProcessFailed, match="echo failed: ValueError: told to"):
        process.ask("fail")
    with pytest.raises(ProcessFailed, match="echo"):
        process.ask("hello")


@pytest.mark.processes
def test_a_paused_process_does_nothing_and_ends_all_the_same(processes):
    process = processes.start("echo", echo)
    process.ask("hello")
    assert memory(process.pid)["rss"] > 1e6
    process.pause()
    with pytest.raises(ProcessFailed, match="did not answer"):
        process.ask("hello", seconds=0.1)
    process.resume()
    assert process.answer() == ("hello",)
    process.pause()
    processes.end()
    assert process.pid not in family(os.getpid())


@pytest.mark.processes
def test_processes_leave_the_environment_as_it_was(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    with Processes(tmp_path) as processes:
        assert processes.start("echo", echo).ask("hello") == ("hello",)
        assert "resource_tracker" in os.environ["PYTHONWARNINGS"]
    assert "PYTHONWARNINGS" not in os.environ
    assert family(os.getpid()).keys() <= {os.getpid(), *_staying()}


def serve_cartpole(processes, **sizes):
    config = Config(game="CartPole-v1", hidden=16, min_batch=20, tuner="off", **sizes)
    spec = probe(config)
    config = resolve(config, spec)
    return Served(config, spec, processes), Probe(config, spec, processes)


@pytest.mark.processes
def test_a_server_that_dies_is_reported(processes):
    served, guest = serve_cartpole(processes, agents=1, envs_per_agent=2)
    served.wait_until_ready()
    assert served.measure(guest, settle_seconds=0.1, seconds=0.5).pps > 0
    os.kill(served.process.pid, signal.SIGKILL)
    with pytest.raises(ProcessFailed, match="AGENTS=1 ENVS_PER_AGENT=2 ended with code -9"):
        wait_until(lambda: served.measure(guest, settle_seconds=0.1, seconds=0.5) and False)


@pytest.mark.processes
def test_a_server_is_measured_with_other_sizes(processes):
    served, guest = serve_cartpole(processes, agents=1, envs_per_agent=1)
    served.wait_until_ready()
    served.resize(agents=3, trainers=2)
    measured = served.measure(guest, settle_seconds=0.1, seconds=0.5)
    agents = [pid for pid in family(served.process.pid) if pid != served.process.pid]
    assert len(agents) >= 3
    assert measured.pps > 0
    assert measured.round_trips


@pytest.mark.processes
def test_overhead_is_measured_without_training(processes):
    config = Config(game="CartPole-v1", hidden=16, min_batch=20, tuner="off")
    spec = probe(config)
    config = resolve(config, spec)
    overhead = Overhead(config, spec, processes)
    guest = Probe(config, spec, processes)
    overhead.wait_until_ready()
    measured = overhead.measure_overhead(guest, 16, 0.5)
    assert 0 < measured.forward < measured.round_trip
    assert 0 < measured.share < 1


@pytest.mark.processes
@pytest.mark.alone
def test_the_server_gives_most_of_what_the_cores_can_give(processes):
    """The guard: a ratio of what is measured in turn in one run, so that a slow machine changes nothing."""
    config = Config(game="Pong", tuner="off", agents=available_cores() + 1, envs_per_agent=16)
    spec = probe(config)
    config = resolve(config, spec)
    ceiling, guest = Ceiling(config, processes, counts=(16,)), Probe(config, spec, processes)
    ceiling.wait_until_ready()
    served = Served(config, spec, processes)
    served.wait_until_ready()

    def efficiency():
        alone, together = [], []
        for _ in range(2):
            alone.append(ceiling.measure(16, settle_seconds=0.3, seconds=1.0).pps)
            together.append(served.measure(guest, settle_seconds=0.3, seconds=1.0).pps)
        return statistics.median(together) / statistics.median(alone)

    assert efficiency() >= 0.6 or efficiency() >= 0.6  # once more, should something else have run meanwhile
