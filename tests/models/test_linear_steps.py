"""Linear weak learners: what each step promises, what it can be told, and its naive twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaboost
from kaboost.models.types import LINEAR, LOGISTIC, SQUARE
from tests.models.bank_twins import agree, arrays_of, made, say, tasks, teach

STEPS = (
    {"step": "ogd", "radius": 2.0, "norm": 3.0},
    {"step": "ogd", "radius": 2.0, "norm": 3.0, "t_max": 4},
    {"step": "adagrad"},
    {"step": "adam", "lr": 0.05},
    {"step": "ftrl", "l1": 0.2, "l2": 0.1},
    {"step": "invariant", "lr": 0.3},
    {"step": "sgd", "p": 0.5, "t0": 3.0},
)


def linear(**options):
    return {"kind": "linear", "n": 3, **options}


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("features", ["all", "cyclic"])
@pytest.mark.parametrize("mode", [SQUARE, LINEAR, LOGISTIC])
@pytest.mark.parametrize("step", STEPS, ids=lambda options: options["step"])
def test_every_step_is_its_twin(step, mode, features, m):
    """Targets, slopes and classes move every learner as the specification says; weight 0 does
    not.
    """
    agree(mode, m, **linear(features=features, n=6, **step))


@pytest.mark.parametrize("step", STEPS, ids=lambda options: options["step"])
def test_without_a_bias_nothing_is_said_of_nothing(step):
    """Without a bias a row of zeros is answered with 0, before and after learning it."""
    bank, _ = made(**linear(bias=False, **step))
    teach(bank, np.ones(4), 1.0)
    teach(bank, np.zeros(4), 1.0)

    np.testing.assert_array_equal(say(bank, np.zeros(4))[0], 0.0)


@pytest.mark.parametrize("step", STEPS, ids=lambda options: options["step"])
def test_a_cyclic_learner_moves_what_it_sees(step):
    """Learner i moves the weights of feature i mod d and of the bias, and no other."""
    bank, _ = made(**linear(features="cyclic", n=6, **step))
    teach(bank, [1.0, 2.0, -1.0, 0.5], 1.0, mode=LINEAR)
    seen = [[j in (i % 4, 4) for i in range(6)] for j in range(5)]

    np.testing.assert_array_equal(bank.w[0] != 0.0, seen)


@pytest.mark.parametrize(
    ("step", "known"),
    [
        ("nag", {"lr": 0.5}),
        ("ng", {"lr": 0.5}),
        ("sgd", {"lr": 0.05, "p": 0.0, "t0": 1.0}),
        ("ogd", {"radius": 1.0, "norm": 1.0}),
        ("adagrad", {"lr": 0.5}),
        ("adam", {"lr": 0.001}),
        ("ftrl", {"lr": 0.5, "b": 1.0, "l1": 0.0, "l2": 0.0}),
        ("invariant", {"lr": 0.05}),
    ],
)
def test_a_step_has_its_own_options(step, known):
    """Defaults are those of 7.1, and what a step cannot be told is not in the specification."""
    full = kaboost.normalise_spec({"bank": {"kind": "linear", "step": step}, "loss": "squared"})

    common = {"kind": "linear", "n": 20, "step": step, "bias": True, "features": "all"}
    assert full["bank"] == {**common, **known}
    assert kaboost.normalise_spec(full) == full


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"step": "ogd", "lr": 0.1}, "lr is no option of the step ogd; .* step nag or ng or sgd"),
        ({"step": "nag", "p": 0.5}, "p is no option of the step nag; .* step sgd"),
        ({"step": "adam", "l1": 0.0}, "l1 is no option of the step adam; .* step ftrl"),
        ({"step": "sgd", "radius": 1.0}, "radius is no option of the step sgd; .* step ogd"),
    ],
)
def test_an_option_of_another_step_is_refused(options, says):
    """Nothing that is given is silently ignored."""
    with pytest.raises(kaboost.ModelError, match=says):
        kaboost.build({"bank": {"kind": "linear", **options}, "loss": "squared"}, d=2)


def test_ogd_keeps_its_regret():
    """Inside the ball, at most 1.5 W X sqrt(T) behind its best w, for any slopes up to 1."""
    W, X, T = 2.0, math.sqrt(5.0), 400
    bank, _ = made(**linear(n=1, step="ogd", radius=W, norm=X))
    suffered, total = 0.0, np.zeros(5)
    r = np.random.default_rng(1)
    for t in range(T):
        x = r.uniform(-1.0, 1.0, 4)
        h, _ = say(bank, x)
        g = 1.0 if h[0, 0] + 0.3 * math.sin(t / 20) >= 0.0 else -1.0  # against what was said
        teach(bank, x, g, mode=LINEAR)
        suffered += g * h[0, 0]
        total += g * np.append(x, 1.0)
        assert np.linalg.norm(bank.w) <= W * (1.0 + 1e-12)
    best = -W * np.linalg.norm(total)

    assert suffered - best <= 1.5 * W * X * math.sqrt(T)
    assert np.linalg.norm(bank.w) > 0.1


def test_a_rate_falls_with_the_events_a_learner_took():
    """Learner 1 rests every other event: its rate after 4 events is that of learner 0 after 2."""
    bank, _ = made(**linear(n=2, step="sgd", p=1.0, t0=2.0, lr=1.0, bias=False))
    steps = []
    for k in range(4):
        before = bank.w.copy()
        teach(bank, [1.0, 0, 0, 0], 1.0, np.array([1.0, k % 2]), LINEAR)
        steps.append((before - bank.w)[0, 0])

    lr = [1.0 / (1.0 + t / 2.0) for t in (1, 2, 3, 4)]
    np.testing.assert_allclose(np.transpose(steps), [lr, [0.0, lr[0], 0.0, lr[1]]], rtol=1e-15)


def test_adam_goes_on_without_a_gradient():
    """Moments fade for a feature of 0 too, so its weight still moves."""
    bank, _ = made(**linear(n=1, step="adam"))
    teach(bank, [1.0, 0, 0, 0], 1.0)
    before = bank.w.copy()
    teach(bank, [0, 1.0, 0, 0], 1.0)

    assert bank.w[0, 0, 0] > before[0, 0, 0] > 0.0


def test_an_invariant_weight_is_so_many_events():
    """Weight 3 is three events of weight 1, and no weight overshoots."""
    x = np.array([0.3, -2.0, 0.0, 1.0])
    heavy, _ = made(**linear(step="invariant", lr=0.1))
    thrice, _ = made(**linear(step="invariant", lr=0.1))
    teach(heavy, x, 5.0, 3.0)
    for _ in range(3):
        teach(thrice, x, 5.0)
    np.testing.assert_allclose(heavy.w, thrice.w, rtol=1e-13)
    teach(heavy, x, 5.0, 1e12)

    np.testing.assert_allclose(say(heavy, x)[0], 5.0, rtol=1e-13)


def test_ftrl_keeps_useless_weights_at_zero():
    """Features that say nothing have a weight of exactly 0; the bias is not held back."""
    r = np.random.default_rng(4)
    bank, _ = made(**linear(n=1, step="ftrl", l1=60.0))
    for _ in range(500):
        x = r.normal(size=4)
        teach(bank, x, 3.0 * x[0] + 0.5)

    assert (bank.w[0, 1:4, 0] == 0.0).all()
    assert bank.w[0, 0, 0] > 1.0
    assert bank.w[0, 4, 0] > 0.1


@pytest.mark.parametrize("step", STEPS, ids=lambda options: options["step"])
def test_a_renewed_learner_is_a_fresh_one(step):
    """Learner 1 forgets everything; the others keep every byte."""
    bank, _ = made(m=2, **linear(**step))
    fresh, _ = made(m=2, **linear(**step))
    for x, target, weight in tasks(20, 2, 3):
        teach(bank, x, target, weight + 1.0)
    before = {name: np.copy(array) for name, array in arrays_of(bank).items()}
    kaboost.models.verbs.reset_learner(bank, 1, kaboost.models.kernels.random.generator(1))

    initial = arrays_of(fresh)
    for name, array in arrays_of(bank).items():
        np.testing.assert_array_equal(array[..., 1], initial[name][..., 1], name)
        np.testing.assert_array_equal(array[..., ::2], before[name][..., ::2], name)
        assert (array[..., ::2] != initial[name][..., ::2]).any(), name
