"""Presets: named settings that the others start from."""

from __future__ import annotations

from typing import Any

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
    # Machado et al. 2018: sticky actions, whole games, no help from no-op starts.
    "machado": {"sticky": 0.25, "noop_max": 0, "episodic_life": False},
}
