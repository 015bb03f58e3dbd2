"""Presets: named settings that the others start from."""

from __future__ import annotations

from typing import Any

FAST_DQN: dict[str, Any] = {
    "algo": "dqn",
    "samplers": 8,
    "concurrent": True,
    "synchronized": True,
    "network": "nature",
    "hidden": 512,
    "init": "paper",
    "normalize": False,
    "mean_updates": 1,
    "optimizer": "centered",
    "learning_rate": 2.5e-4,
    "learning_rate_end": None,
    "rmsprop_decay": 0.95,
    "rmsprop_epsilon": 0.01,
    "rmsprop_initial": 0.0,
    "grad_clip": 0.0,
    "batch": 32,
    "train_period": 4,
    "target_period": 10_000,
    "replay_steps": 1_000_000,
    "replay_start": 50_000,
    "n_step": 1,
    "double": False,
    "dueling": False,
    "huber": True,
    "discount": 0.99,
    "epsilon": 1.0,
    "epsilon_end": 0.1,
    "epsilon_steps": 1_000_000,
    "reward_clip": 1.0,
    "sticky": 0.0,
    "noop_max": 30,
    "stagger": 0,
    "episodic_life": True,
}

PRESETS: dict[str, dict[str, Any]] = {
    # The settings of the GA3C paper, as far as its text and its published code tell them.
    "paper": {
        "envs_per_agent": 1,
        "predictors": 2,
        "trainers": 2,
        "t_max": 5,
        "min_batch": 1,
        "learning_rate": 3e-4,
        "learning_rate_end": None,
        "beta": 0.01,
        "beta_end": None,
        "discount": 0.99,
        "log_epsilon": 1e-6,
        "reward_clip": 1.0,
        "value_cost": 1.0,
        "grad_clip": 0.0,
        "rmsprop_decay": 0.99,
        "rmsprop_epsilon": 0.1,
        "rmsprop_initial": 1.0,
        "mean_updates": 1,
        "max_lag": 0,
        "correction": "none",
        "normalize": False,
        "init": "paper",
        "network": "small",
        "sticky": 0.0,
        "noop_max": 30,
        "stagger": 0,
        "episodic_life": False,
    },
    # Nature DQN with the two ideas of the fast DQN paper: the settings of its text and code.
    "fast-dqn": FAST_DQN,
    # The same without its two ideas: updates between steps, and samplers that do not wait for each other.
    "nature": {**FAST_DQN, "concurrent": False, "synchronized": False},
    # Machado et al. 2018: sticky actions, whole games, no help from no-op starts.
    "machado": {"sticky": 0.25, "noop_max": 0, "episodic_life": False},
}
