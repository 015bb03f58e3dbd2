"""Equation 5 against numbers derived by hand.

The sample of most tests: π = (½, ¼, ¼), action 1, R = 2, V = ½, so R − V = 3/2; β = 0.1; and ε = ¼, large enough to
see where it stands. Then π + ε = (¾, ½, ½) and

    −log(π(a)+ε)·(R−V) = −log ½ · 3/2                          =  1.0397208
    H = −(½·log ¾ + ¼·log ½ + ¼·log ½) = 0.1438410 + 0.3465736  =  0.4904146
    (R−V)²                                                       =  2.25
    total, with ½(R−V)²: 1.0397208 − 0.0490415 + 1.125           =  2.1156793
"""

import math

import pytest
import torch

from ga3c.algorithms.actor_critic.loss import actor_critic_loss

SETTINGS = {"beta": 0.1, "log_epsilon": 0.25, "value_cost": 0.5}


def sample(count=1):
    """``count`` times the sample above, as leaves of which gradients can be taken."""
    policies = torch.tensor([[0.5, 0.25, 0.25]] * count, requires_grad=True)
    values = torch.tensor([0.5] * count, requires_grad=True)
    return policies, values, torch.tensor([1] * count), torch.tensor([2.0] * count)


def gradients(batch, **settings):
    return torch.autograd.grad(actor_critic_loss(*batch, **{**SETTINGS, **settings}).total, batch[:2])


def test_value():
    loss = actor_critic_loss(*sample(), **SETTINGS)
    assert loss.total.item() == pytest.approx(2.1156793, abs=1e-6)
    assert loss.figures["policy_loss"].item() == pytest.approx(1.0397208, abs=1e-6)
    assert loss.figures["entropy"].item() == pytest.approx(0.4904146, abs=1e-6)
    assert loss.figures["value_loss"].item() == pytest.approx(2.25, abs=1e-6)


def test_value_cost_is_the_whole_factor_of_the_square():
    # 1·2.25 instead of ½·2.25 adds 1.125.
    loss = actor_critic_loss(*sample(), **{**SETTINGS, "value_cost": 1.0})
    assert loss.total.item() == pytest.approx(3.2406793, abs=1e-6)


def test_small_epsilon_gives_the_plain_formula():
    # ε → 0: −log ¼ · 3/2 = 2.0794415; H = ½·log 2 + ½·log 4 = 1.0397208; total = 2.0794415 − 0.1039721 + 1.125.
    loss = actor_critic_loss(*sample(), **{**SETTINGS, "log_epsilon": 1e-6})
    assert loss.total.item() == pytest.approx(3.1004695, abs=2e-5)


def test_gradient_of_the_policy():
    # ∂/∂π_i = β·[log(π_i+ε) + π_i/(π_i+ε)], and −(R−V)/(π_a+ε) at the action taken:
    #   i = 0: 0.1·(−0.2876821 + 2/3)     =  0.0378985
    #   i = 1: 0.1·(−0.6931472 + ½) − 3   = −3.0193147
    #   i = 2: 0.1·(−0.6931472 + ½)       = −0.0193147
    policy_gradient, _ = gradients(sample())
    torch.testing.assert_close(policy_gradient, torch.tensor([[0.0378985, -3.0193147, -0.0193147]]))


def test_value_learns_from_the_square_alone():
    # ∂ c(R−V)²/∂V = −2c(R−V): −1.5 with c = ½ and −3 with c = 1. If V were not a constant in the policy term, that
    # term would add ∂/∂V −log(½)·(R−V) = log ½.
    _, half = gradients(sample())
    _, whole = gradients(sample(), value_cost=1.0)
    assert half.item() == pytest.approx(-1.5)
    assert whole.item() == pytest.approx(-3.0)
    assert half.item() != pytest.approx(-1.5 + math.log(0.5))
    _, none = gradients(sample(), value_cost=0.0)
    assert none.item() == 0.0


def test_gradient_through_the_softmax():
    # With ε → 0 the gradient by the logits is (R−V)·(π − 1_a) + β·π·(log π + H); here π = (½, ¼, ¼), H = 1.0397208:
    #   0: 1.5·½        + 0.1·½·(−0.6931472 + 1.0397208) =  0.75 + 0.0173287
    #   1: 1.5·(¼ − 1)  + 0.1·¼·(−1.3862944 + 1.0397208) = −1.125 − 0.0086643
    #   2: 1.5·¼        + the same                        =  0.375 − 0.0086643
    logits = torch.tensor([[math.log(2.0), 0.0, 0.0]], requires_grad=True)
    _, values, actions, returns = sample()
    settings = {**SETTINGS, "log_epsilon": 1e-7}
    loss = actor_critic_loss(torch.softmax(logits, dim=1), values, actions, returns, **settings)
    (gradient,) = torch.autograd.grad(loss.total, logits)
    expected = torch.tensor([[0.7673287, -1.1336643, 0.3663357]])
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=0)


def test_a_batch_is_summed_and_what_is_shown_is_a_mean():
    one, three = actor_critic_loss(*sample(1), **SETTINGS), actor_critic_loss(*sample(3), **SETTINGS)
    assert three.total.item() == pytest.approx(3 * 2.1156793, abs=1e-5)
    assert three.total.item() != pytest.approx(one.total.item())  # a mean would be this
    for shown_of_three, shown_of_one in zip(three.figures.values(), one.figures.values(), strict=True):
        assert shown_of_three.item() == pytest.approx(shown_of_one.item())
    for of_three, of_one in zip(gradients(sample(3)), gradients(sample(1)), strict=True):
        torch.testing.assert_close(of_three, of_one.repeat(3, *[1] * (of_one.ndim - 1)))


def test_samples_do_not_mix():
    # Second sample: π = (¾, ¼, 0), action 0, R = −1, V = ½, so R − V = −3/2 and π + ε = (1, ½, ¼):
    #   −log 1·(−3/2) = 0;  H = −(¾·log 1 + ¼·log ½ + 0) = 0.1732868;  total 0 − 0.0173287 + 1.125 = 1.1076713
    policies, values, actions, returns = sample()
    both = (
        torch.cat([policies, torch.tensor([[0.75, 0.25, 0.0]])]),
        torch.cat([values, torch.tensor([0.5])]),
        torch.cat([actions, torch.tensor([0])]),
        torch.cat([returns, torch.tensor([-1.0])]),
    )
    assert actor_critic_loss(*both, **SETTINGS).total.item() == pytest.approx(2.1156793 + 1.1076713, abs=1e-6)


def test_an_impossible_action_stays_finite():
    # π(a) = 0: log(0 + 1e-6) = −13.815511, so the policy term is 13.815511·1 and its gradient −1/1e-6 = −1e6;
    # H = −(0·log 1e-6 + 1·log(1 + 1e-6)) ≈ 0. Without ε both are infinite or not a number.
    policies = torch.tensor([[0.0, 1.0]], requires_grad=True)
    values = torch.tensor([0.0], requires_grad=True)
    batch = (policies, values, torch.tensor([0]), torch.tensor([1.0]))
    settings = {"beta": 0.01, "log_epsilon": 1e-6, "value_cost": 0.0}
    assert actor_critic_loss(*batch, **settings).total.item() == pytest.approx(13.815511, abs=1e-4)
    policy_gradient, _ = gradients(batch, **settings)
    assert policy_gradient[0, 0].item() == pytest.approx(-1e6, rel=1e-3)
    assert torch.isfinite(policy_gradient).all()
    assert not torch.isfinite(actor_critic_loss(*batch, **{**settings, "log_epsilon": 0.0}).total)


def test_what_is_shown_holds_no_graph():
    loss = actor_critic_loss(*sample(), **SETTINGS)
    assert loss.total.requires_grad
    assert [part.requires_grad for part in loss.figures.values()] == [False, False, False]
