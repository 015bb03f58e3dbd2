"""Settings: words, files, presets, and errors that say what would be right."""

import dataclasses
import json

import pytest

from ga3c.settings.config import Config
from ga3c.settings.declare import ConfigError, settings_table
from ga3c.settings.presets import PRESETS


def refused(*words):
    """The sentence with which these words are refused."""
    with pytest.raises(ConfigError) as caught:
        Config.from_words(words)
    return str(caught.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_settings_only(preset):
    assert PRESETS[preset].keys() <= {field.name for field in dataclasses.fields(Config)}


def test_the_paper_preset_is_the_papers_algorithm():
    config = Config.from_words(["PRESET=paper"])
    assert (config.t_max, config.discount, config.beta, config.log_epsilon) == (5, 0.99, 0.01, 1e-6)
    assert (config.learning_rate, config.rmsprop_decay, config.rmsprop_epsilon) == (3e-4, 0.99, 0.1)
    assert (config.reward_clip, config.grad_clip, config.min_batch) == (1.0, 0.0, 1)
    assert (config.value_cost, config.rmsprop_initial, config.normalize) == (1.0, 1.0, False)


def test_every_setting_has_help_and_a_row_in_the_table():
    rows = settings_table(Config)
    assert [key for key, _, _ in rows] == [field.name.upper() for field in dataclasses.fields(Config)]
    for key, default, meaning in rows:
        assert len(meaning) > 10, f"{key} has no help"
        # What the table shows as the default is a word that means the default.
        assert Config.from_words([f"{key}={default}"]) == Config(), key


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("LEARNIN_RATE=1", "Did you mean LEARNING_RATE?"),
        ("game=Pong", "Did you mean GAME?"),
        ("TMAX=5", "Did you mean T_MAX?"),
        ("PREDICTOR=2", "Did you mean PREDICTORS?"),
        ("CONFG=x.toml", "Did you mean CONFIG?"),
        ("XYZZY=1", "help"),
        ("=1", "help"),
    ],
)
def test_an_unknown_key_gets_the_nearest_name(word, hint):
    message = refused(word)
    assert word.partition("=")[0] in message
    assert hint in message


@pytest.mark.parametrize("word", ["Pong", "", "--game", "GAME"])
def test_a_word_without_a_value_is_refused(word):
    assert "KEY=VALUE" in refused(word)


@pytest.mark.parametrize(
    ("word", "fragment"),
    [
        ("T_MAX=five", "T_MAX=five is not a whole number"),
        ("T_MAX=2.5", "is not a whole number"),
        ("T_MAX=inf", "is not a whole number"),
        ("T_MAX=nan", "is not a whole number"),
        ("T_MAX=", "is not a whole number"),
        ("T_MAX=0", "at least 1"),
        ("SEED=-1", "at least 0"),
        ("SEED=4294967296", "at most"),
        ("DISCOUNT=1.01", "at most 1"),
        ("DISCOUNT=half", "is not a number"),
        ("DISCOUNT=nan", "not a finite number"),
        ("BETA=inf", "not a finite number"),
        ("LEARNING_RATE=0", "above 0"),
        ("VALUE_COST=auto", "is not a number"),
        ("STICKY=1.5", "at most 1"),
        ("SERIAL=maybe", "0 or 1"),
        ("NETWORK=smal", "Did you mean small?"),
        ("PRESET=papr", "Did you mean paper?"),
        ("TUNER=aneal", "Did you mean anneal?"),
        ("TUNER_WINDOW=0", "above 0"),
        ("TUNER_LAG=-1", "at least 0"),
        ("GAME=", "GAME is empty"),
        ("LEARNING_RATE_END=0", "needs MAX_STEPS"),
        ("BETA_END=0", "needs MAX_STEPS"),
    ],
)
def test_a_bad_value_is_refused_with_its_reason(word, fragment):
    assert fragment in refused(word)


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("MAX_STEPS=1e6", "max_steps", 1_000_000),
        ("MAX_STEPS=2_000", "max_steps", 2000),
        ("DISCOUNT=1", "discount", 1.0),
        ("LEARNING_RATE=7e-4", "learning_rate", 7e-4),
        ("EPISODIC_LIFE=1", "episodic_life", True),
        ("EPISODIC_LIFE=no", "episodic_life", False),
        ("TENSORBOARD=FALSE", "tensorboard", False),
        ("RUN=a=b", "run", "a=b"),
        ("GAME=my.module:My-v0", "game", "my.module:My-v0"),
    ],
)
def test_values_are_read_by_type(word, name, value):
    got = getattr(Config.from_words([word]), name)
    assert got == value
    assert type(got) is type(value)


def test_auto_is_none_where_it_is_chosen_at_the_start():
    config = Config.from_words(["AGENTS=auto", "STICKY=auto", "NETWORK=auto", "BETA_END=auto"])
    assert config.agents is None
    assert config.sticky is None
    assert config.beta_end is None
    assert config.network == "auto"
    assert Config.from_words(["STICKY=0"]).sticky == 0.0  # 0 is not auto


def test_the_last_of_two_words_counts():
    assert Config.from_words(["T_MAX=3", "T_MAX=7"]).t_max == 7


def test_words_override_the_file_in_any_order(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('game = "Breakout"\nt_max = 8\nBETA = 0.5\nagents = "auto"\nmax_steps = "1e6"\nserial = true\n')
    for words in ([f"CONFIG={file}", "T_MAX=9"], ["T_MAX=9", f"CONFIG={file}"]):
        config = Config.from_words(words)
        assert (config.game, config.t_max, config.beta) == ("Breakout", 9, 0.5)
        assert (config.agents, config.max_steps, config.serial) == (None, 1_000_000, True)


def test_a_file_may_begin_with_the_mark_that_some_editors_write(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text("t_max = 8\n", encoding="utf-8-sig")
    assert Config.from_words([f"CONFIG={file}"]).t_max == 8


def test_a_bad_file_is_refused_with_its_reason(tmp_path):
    file = tmp_path / "my.toml"
    assert "cannot be read" in refused(f"CONFIG={file}")
    file.write_text("t_max = = 3")
    assert "not a TOML file" in refused(f"CONFIG={file}")
    file.write_bytes(b"\xff\xfe")
    assert "not a TOML file" in refused(f"CONFIG={file}")
    file.write_text("t_maxx = 3")
    assert "Did you mean T_MAX?" in refused(f"CONFIG={file}")
    file.write_text("t_max = 0")
    assert "at least 1" in refused(f"CONFIG={file}")
    file.write_text("max_seconds = 5\nMAX_SECONDS = 50")
    assert "has MAX_SECONDS twice, in two spellings" in refused(f"CONFIG={file}")
    for wrong in ('t_max = "many"', "t_max = true", "t_max = 2.0", "t_max = [1]", "game = 3", "serial = 1"):
        file.write_text(wrong)
        assert wrong.partition(" ")[0].upper() in refused(f"CONFIG={file}"), wrong


def test_preset_paper():
    # The paper's text (t_max 5, γ 0.99, β 0.01, η 3e-4, RMSProp α 0.99 ε 0.1, ±1 rewards, its small network) and its
    # published code (g starts at 1 as in TensorFlow, weights within ±1/√inputs); the value loss as equation 2 has it.
    config = Config.from_words(["PRESET=paper"])
    expected = {
        "t_max": 5,
        "discount": 0.99,
        "beta": 0.01,
        "learning_rate": 3e-4,
        "log_epsilon": 1e-6,
        "value_cost": 1.0,
        "reward_clip": 1.0,
        "grad_clip": 0.0,
        "rmsprop_decay": 0.99,
        "rmsprop_epsilon": 0.1,
        "rmsprop_initial": 1.0,
        "init": "paper",
        "network": "small",
        "sticky": 0.0,
        "noop_max": 30,
        "episodic_life": False,
        "envs_per_agent": 1,
        "min_batch": 1,
    }
    assert {name: getattr(config, name) for name in expected} == expected


def test_preset_machado():
    config = Config.from_words(["PRESET=machado"])
    assert (config.sticky, config.noop_max, config.episodic_life) == (0.25, 0, False)


def test_presets_name_real_settings_with_valid_values():
    for name, preset in PRESETS.items():
        config = Config.from_mapping({"preset": name})
        assert {key: getattr(config, key) for key in preset} == preset


def test_words_override_the_preset_in_any_order():
    for words in (["PRESET=paper", "VALUE_COST=0.25"], ["VALUE_COST=0.25", "PRESET=paper"]):
        config = Config.from_words(words)
        assert (config.value_cost, config.rmsprop_initial) == (0.25, 1.0)


def test_word_over_file_over_preset(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('preset = "paper"\nvalue_cost = 0.75\nmin_batch = 20\n')
    config = Config.from_words([f"CONFIG={file}", "MIN_BATCH=30"])
    assert config.rmsprop_initial == 1.0  # the preset's
    assert config.value_cost == 0.75  # the file's, not the preset's 1
    assert config.min_batch == 30  # the word's, not the file's 20


def test_a_config_is_frozen_and_replace_checks_again():
    config = Config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.t_max = 3
    assert config.replace(t_max=3).t_max == 3
    with pytest.raises(ConfigError):
        config.replace(t_max=0)


def test_config_json_gives_the_same_settings_again():
    config = Config.from_words(["PRESET=paper", "VALUE_COST=0.25", "GAME=Breakout", "AGENTS=3", "MAX_STEPS=1e4"])
    assert Config.from_mapping(json.loads(json.dumps(config.to_dict()))) == config


def test_a_resumed_run_brings_its_settings_and_words_override_them(tmp_path):
    before = Config.from_words(["GAME=Breakout", "T_MAX=7", "BETA=0.5", "RUN=somewhere"])
    (tmp_path / "config.json").write_text(json.dumps({**before.to_dict(), "a_setting_of_another_version": 1}))
    config = Config.from_words([f"RESUME={tmp_path}", "BETA=0.25"])
    assert (config.game, config.t_max, config.beta) == ("Breakout", 7, 0.25)
    assert config.run == str(tmp_path)  # it goes on writing there


def test_resuming_what_is_no_run_is_refused(tmp_path):
    assert "RESUME" in refused(f"RESUME={tmp_path}")
    (tmp_path / "config.json").write_text("{")
    assert "RESUME" in refused(f"RESUME={tmp_path}")


@pytest.mark.parametrize(
    "given", [{"gamee": "Pong"}, {"preset": 3}, {"resume": 3}, {"max_steps": 10**400, "beta": "x"}]
)
def test_what_cannot_be_used_is_always_a_config_error(given):
    with pytest.raises(ConfigError):
        Config.from_mapping(given)


def test_a_run_whose_settings_are_none_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(ConfigError, match="holds no settings"):
        Config.from_words([f"RESUME={tmp_path}"])


def test_the_home_directory_is_meant_wherever_the_name_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Config(run="~/here").run == str(tmp_path / "here")
    (tmp_path / "config.json").write_text('{"seed": 7}')
    resumed = Config.from_mapping({"resume": "~"})
    assert (resumed.seed, resumed.run, resumed.resume) == (7, str(tmp_path), str(tmp_path))
