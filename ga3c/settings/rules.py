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

    def check_rule(self) -> None:
        if self.c_bar > self.rho_bar:
            raise ConfigError(f"C_BAR={self.c_bar:g} is larger than RHO_BAR={self.rho_bar:g}: it is at most that")
