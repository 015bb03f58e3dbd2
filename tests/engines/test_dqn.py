"""DQN as a whole: runs that repeat although they are parallel, faults, resumed runs, and what is refused."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
import torch
from PIL import Image

import ga3c
from ga3c.models.model import Model, TrainableModel
from ga3c.runs.checkpoint import load_newest
from ga3c.runs.evaluate import evaluate
from ga3c.runs.play import play
from ga3c.settings.commands import EvalOptions, PlayOptions
from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError
from tests.helpers.command_line import finish, rows_of, summary_of
from tests.helpers.command_line import start as start_process
from tests.helpers.serial_run import SerialRun
from tests.helpers.waiting import wait_until

BASE = {"game": "CartPole-v1", "algo": "dqn", "hidden": 16, "device": "cpu"}
SMALL = {**BASE, "samplers": 4, "agents": 2, "replay_start": 60, "target_period": 80, "train_period": 4, "batch": 16}
QUICKLY = {"learning_rate": 0.01, "epsilon_steps": 500, "log_seconds": 0.2, "tensorboard": False, "torch_threads": 1}
both = pytest.mark.parametrize("concurrent", [False, True], ids=["CONCURRENT=0", "CONCURRENT=1"])


def train(path, **settings):
    return ga3c.train(Config(**{**SMALL, **QUICKLY, "run": str(path), **settings}))


def words_of(**settings):
    return [f"{name.upper()}={int(value) if isinstance(value, bool) else value}" for name, value in settings.items()]


def check_ended_well(summary):
    assert summary["unaccounted_steps"] == summary["bad_messages"] == summary["bad_updates"] == 0
    assert summary["updates"] > 0


# Runs that repeat


@pytest.fixture
def targets(monkeypatch):
    """The weights of each target, in the order in which they were renewed."""
    renewed = []
    renew = TrainableModel.renew_target

    def noting(self):
        renew(self)
        renewed.append((self.target.number, self.target.weights.clone()))

    monkeypatch.setattr(TrainableModel, "renew_target", noting)
    return renewed


@contextlib.contextmanager
def busy_loops(count):
    """Processes that want all of a core, for two minutes at most."""
    body = "import time\nuntil = time.monotonic() + 120\nwhile time.monotonic() < until: pass"
    loops = [subprocess.Popen([sys.executable, "-c", body]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def same(one, other):
    return one[0] == other[0] and torch.equal(one[1], other[1])


@pytest.mark.processes
@both
def test_a_parallel_run_repeats_to_the_bit_whatever_else_the_machine_does(tmp_path, targets, concurrent):
    settings = {"concurrent": concurrent, "seed": 3, "max_steps": 1400, "learning_rate_end": 0.001}
    check_ended_well(train(tmp_path / "alone", **settings))
    alone = targets.copy()
    targets.clear()
    with busy_loops(2):
        check_ended_well(train(tmp_path / "beside", **settings))
    assert len(alone) > 12
    assert len({target.sum().item() for _, target in alone}) > 12
    compared = list(zip(alone, targets, strict=False))  # one may have come a little further
    assert len(compared) > 12
    assert [place for place, pair in enumerate(compared) if not same(*pair)] == []


SERIAL = {**SMALL, **QUICKLY, "envs_per_agent": 2}


def test_the_learning_rate_follows_what_is_stored(monkeypatch):
    """Not what is played meanwhile, of which nobody knows how far it is."""
    rates = []
    apply = Model.apply

    def noting(self, gradient, learning_rate, frames=None):
        rates.append((run.stats.totals.stored_steps, run.stats.totals.steps, learning_rate))
        return apply(self, gradient, learning_rate, frames)

    monkeypatch.setattr(Model, "apply", noting)
    run = serial_run(concurrent=True, learning_rate_end=0.002, max_steps=1000)
    run.play(updates=50).server.stop()
    assert len(rates) >= 50
    assert any(played > stored for stored, played, _ in rates)
    for stored, _, rate in rates:
        assert rate == pytest.approx(0.01 - 0.008 * stored / 1000)


def serial_run(resume=None, **settings):
    return SerialRun(resume, **{**SERIAL, **settings})


@both
def test_a_serial_run_repeats_too(concurrent, targets):
    def weights(seed):
        run = serial_run(seed=seed, concurrent=concurrent).play(updates=100)
        run.server.stop()
        return run.weights

    first = weights(3)
    renewed = targets.copy()
    targets.clear()
    assert torch.equal(first, weights(3))
    assert len(renewed) > 4
    assert all(map(same, renewed, targets))
    assert not torch.equal(first, weights(4))


@both
def test_a_serial_run_that_is_resumed_forgets_no_step(concurrent, tmp_path):
    run = serial_run(concurrent=concurrent, replay_start=200).play(rounds=95)
    run.save(tmp_path)
    before = run.stats.totals
    under_way = before.under_way
    assert under_way == run.kept_steps
    assert before.stored_steps + under_way == before.steps
    resumed = serial_run(resume=tmp_path, concurrent=concurrent, replay_start=200)
    assert resumed.kept_steps == under_way
    updates = resumed.stats.totals.updates
    resumed.play(rounds=(200 - under_way) // 4)
    assert resumed.stats.totals.updates == updates  # until the memory is filled again
    resumed.play(rounds=150)
    totals = resumed.stats.totals
    assert 0 < totals.updates - updates <= (totals.steps - before.steps) / 4
    assert totals.under_way == resumed.kept_steps
    resumed.server.stop()
    assert (totals.lost_steps, totals.unaccounted_steps, resumed.stats.ledger.overlapping) == (0, 0, 0)


# Runs that do not


@pytest.mark.processes
def test_environments_that_do_not_wait_for_each_other(tmp_path):
    summary = train(tmp_path / "run", synchronized=False, max_steps=800)
    assert summary["exit_reason"] == "max_steps"
    check_ended_well(summary)
    row = rows_of(tmp_path / "run")[-1]
    assert row["replay_ratio_asked"] == 16 / 4
    assert 0 < row["memory_full"] < 0.02
    assert 0 < row["epsilon"] < 1


@pytest.mark.processes
@both
def test_a_killed_agent_is_replaced_and_the_others_wait_for_the_new_one(start, concurrent):
    serving = start(**{**SMALL, "envs_per_agent": None, "min_batch": None}, concurrent=concurrent)
    totals = serving.stats.totals
    serving.wait_until(lambda: totals.updates > 40)
    first = serving.processes()
    victim = next(iter(first))
    os.kill(first[victim].pid, signal.SIGKILL)
    serving.wait_until(lambda: set(serving.processes()) - set(first))
    (newest,) = set(serving.processes()) - set(first)
    serving.wait_until(lambda: serving.server._exchange.member(newest).played > 0)
    updates = totals.updates
    serving.wait_until(lambda: totals.updates > updates + 60)
    assert victim not in {lane[0] for lane in serving.server.memory._ring.lanes._lanes}
    serving.server.stop()
    assert totals.steps == totals.stored_steps + totals.lost_steps
    assert totals.unaccounted_steps == 0


@pytest.mark.processes
def test_a_run_that_is_interrupted_and_resumed_fills_its_memory_and_catches_up_with_nothing(tmp_path):
    settings = {**SMALL, **QUICKLY, "concurrent": True, "replay_start": 400}
    process = start_process(tmp_path, *words_of(**settings), "RUN=here")
    here = tmp_path / "here"
    wait_until(lambda: any(row["updates"] > 50 for row in rows_of(here)))
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 30)
    assert code == 0, output
    assert "Traceback" not in output
    before = summary_of(here)
    assert before["exit_reason"] == "interrupted"
    check_ended_well(before)
    logged = len(rows_of(here))

    config = Config.from_mapping({"resume": str(here), "max_steps": before["steps"] + 1200})
    after = ga3c.train(config)
    check_ended_well(after)
    rows = [(row["steps"] - before["steps"], row["updates"] - before["updates"]) for row in rows_of(here)[logged:]]
    # What was lost between is no step of the memory, and a round of 4 is the least that can be between two looks.
    assert 0 < rows[-1][1] <= (rows[-1][0] - 400 + 8) / 4 + 1
    for (steps, updates), (later_steps, later_updates) in zip([(0, 0), *rows], rows, strict=False):
        assert later_updates <= max((later_steps - 400 + 8) / 4 + 1, 0)
        # In a window of the log there may be the updates of a whole target period.
        assert later_updates - updates <= (later_steps - steps + 80 + 8) / 4 + 1


# Checkpoints


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has learnt a little."""
    path = tmp_path_factory.mktemp("dqn") / "run"
    train(path, serial=True, max_steps=600)
    return path


def test_a_checkpoint_is_evaluated_with_a_small_chance_of_any_action(finished):
    def scores(**options):
        options = {"epsilon": 0.05, "episodes": 8, "seed": 1, "device": "cpu", **options}
        return evaluate(EvalOptions(run=str(finished), **options))["scores"]

    usual = scores()
    assert usual == scores()
    assert len(set(usual)) > 1
    assert scores(epsilon=1.0) != usual
    assert scores(greedy=True) == scores(epsilon=0.0)
    # By its file alone.
    path, arrays, _ = load_newest(finished)
    assert "target" in arrays
    options = EvalOptions(checkpoint=str(path), episodes=8, seed=1, device="cpu")
    assert evaluate(options)["scores"] == usual


def test_a_greedy_policy_cannot_play_for_ever(finished):
    result = evaluate(EvalOptions(run=str(finished), episodes=2, greedy=True, max_steps=5, device="cpu"))
    assert (result["lengths"], result["cut"]) == ([5, 5], 2)


def test_a_checkpoint_is_played(finished, tmp_path):
    video = tmp_path / "out.gif"
    played = play(PlayOptions(run=str(finished), seed=1, video=str(video), device="cpu"))
    wanted = evaluate(EvalOptions(run=str(finished), episodes=1, seed=1, device="cpu"))
    assert [game.score for game in played] == wanted["scores"]
    with Image.open(video) as gif:
        assert gif.n_frames > 1


# What is refused


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("TRAINERS=2", "ALGO=dqn has one predictor and one trainer: leave out PREDICTORS and TRAINERS"),
        ("PREDICTORS=2", "ALGO=dqn has one predictor and one trainer: leave out PREDICTORS and TRAINERS"),
        ("LISTEN=tcp://127.0.0.1:*", "with LISTEN, say SYNCHRONIZED=0"),
        ("SAMPLERS=8 AGENTS=3", "SAMPLERS=8 cannot be shared equally by AGENTS=3: let it be a multiple"),
        ("SAMPLERS=8 ENVS_PER_AGENT=2", "leave out ENVS_PER_AGENT"),
        ("SAMPLERS=8 AGENTS=2 ENVS_PER_AGENT=3", "leave out ENVS_PER_AGENT"),
        ("SAMPLERS=0", "SAMPLERS"),
        ("N_STEP=0", "N_STEP"),
        ("EPSILON=1.5", "at most 1"),
        ("REPLAY_STEPS=10", "REPLAY_STEPS"),
        ("OPTIMIZER=adm", "Did you mean adam?"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_words(words, sentence):
    with pytest.raises(ConfigError) as refused:
        Config.from_words(["GAME=CartPole-v1", "ALGO=dqn", *words.split()])
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("words", ["LISTEN=tcp://127.0.0.1:* SYNCHRONIZED=0", "SAMPLERS=8 AGENTS=2 ENVS_PER_AGENT=4"])
def test_what_fits_is_not(words):
    Config.from_words(["GAME=CartPole-v1", "ALGO=dqn", *words.split()])


def test_actions_that_are_no_choice_are_refused():
    """Q-learning needs a list of actions to take the best of."""
    with pytest.raises(ConfigError, match="Discrete"):
        ga3c.train(Config(**{**BASE, "game": "Pendulum-v1", "serial": True}))
