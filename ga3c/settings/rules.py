"""The settings of each rule, a group for each."""

from __future__ import annotations

from dataclasses import dataclass

from ga3c.settings.declare import ConfigError, setting

CORRECTIONS = ("none", "vtrace")


@dataclass(frozen=True, kw_only=True)
class ActorCriticSettings:
    """What the actor-critic rule learns by, beside what all rules have in common."""

    beta: float = setting(0.003, "weight β of the entropy", low=0)
    beta_end: float | None = setting(None, "β at MAX_STEPS, reached linearly; auto: constant", low=0)
    log_epsilon: float = setting(1e-6, "ε inside the logarithms of policy and entropy", low=0)
    value_cost: float = setting(0.25, "factor of (R − V)² in the loss", low=0)
    correction: str | None = setting(
        None,
        "what is done about policy lag: nothing, as in the paper, or V-trace; auto: V-trace, with a3c nothing",
        choices=CORRECTIONS,
        travels=True,
        decides="players",
        by_algo=True,
    )
    rho_bar: float = setting(1.0, "V-trace: largest weight ρ̄ of a step, π(a|s) / μ(a|s) at most", above=0)
    c_bar: float = setting(0.95, "V-trace: largest factor c̄ by which later steps count, at most ρ̄", low=0)

    def check_actor_critic(self) -> None:
        if self.c_bar > self.rho_bar:
            raise ConfigError(f"C_BAR={self.c_bar:g} is larger than RHO_BAR={self.rho_bar:g}: it is at most that")


@dataclass(frozen=True, kw_only=True)
class QLearningSettings:
    """What Q-learning learns by, and from which memory."""

    batch: int = setting(32, "transitions of an update, drawn from the replay memory", low=1, high=65536)
    double: bool = setting(True, "the network that learns chooses the action whose value the target network tells")
    dueling: bool = setting(
        True, "a value and advantages, each by half of the hidden units, instead of Q-values at once", decides="model"
    )
    n_step: int = setting(3, "steps of an n-step return", low=1, high=64)
    huber: bool = setting(True, "errors beyond 1 count linearly, not by their squares")
    replay_steps: int = setting(100_000, "steps that the replay memory holds, the newest ones", low=100)
    replay_device: str = setting(
        "auto", "where the replay memory is, as DEVICE; auto: beside the model, or in the host's memory if too large"
    )
    replay_start: int | None = setting(
        None,
        "steps that are played by chance and stored before training begins; auto: 10,000, with vectors 1,000",
        low=1,
        by_algo=True,
    )
    train_period: int = setting(4, "steps for each update (F)", low=1)
    target_period: int | None = setting(
        None,
        "steps from one version of the target network to the next (C); auto: 4,000, with vectors 500",
        low=1,
        by_algo=True,
    )
    epsilon: float = setting(1.0, "chance of an action without regard to Q-values, at the start", low=0, high=1)
    epsilon_end: float = setting(0.02, "the same from EPSILON_STEPS on", low=0, high=1)
    epsilon_steps: int | None = setting(
        None, "steps over which ε falls linearly; auto: 100,000, with vectors 20,000", low=1, by_algo=True
    )
    concurrent: bool = setting(
        False, "updates are made while TARGET_PERIOD steps are played by the target network, not between steps"
    )
    synchronized: bool = setting(
        True, "all environments wait for each other, and have one prediction together", travels=True
    )
