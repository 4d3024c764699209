"""The reference values of the specification, sections 10.2 and 10.7, for single banks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaboost
from kaboost.models.types import SQUARE
from kaboost.models.verbs import combine
from tests.models.bank_twins import agree, made, teach
from tests.models.reference_streams import linear, stream_r

PREFIXES = [0, 1, 2, 4, 8, 16, 32]
WHOLE = {
    1.0: (2.53156, 1.03552, 0.369835, 0.0994962, 0.0951866, 0.406886, 8.88353),
    0.3: (2.53156, 1.76746, 1.39136, 0.862896, 0.47093, 0.210223, 0.135957),
    0.1: (2.53156, 2.24683, 2.01538, 1.67501, 1.21891, 0.743861, 0.386809),
}
SECOND_HALF = {
    1.0: (2.47942, 0.998047, 0.356625, 0.0520278, 0.0218815, 0.0255701, 0.0281622),
    0.3: (2.47942, 1.71628, 1.34432, 0.832477, 0.453685, 0.187132, 0.0613937),
}
EDGES = {1.0: (0.5975, 0.6427, 0.4359, 0.7414), 0.3: (0.5975, 0.4184, 0.4775, 0.3391)}


def boosted(bank, eta=1.0):
    """SGB from y0 = 0 over five features."""
    rule = {"kind": "sgb", "eta": eta, "y0": 0.0}
    return kaboost.build({"rule": rule, "bank": bank, "loss": "squared"}, d=5)


def halves(booster, X, z):
    """Every sum of the progress after the first half and after all."""
    seen = []
    for cut in (slice(0, 2000), slice(2000, None)):
        kaboost.learn_many(booster, X[cut], z[cut])
        p = booster.progress
        seen.append((p.prefix_loss_sum.copy(), p.edge_total.copy(), p.edge_missed.copy()))
    return seen


@pytest.mark.parametrize("eta", WHOLE)
def test_coordinate_ftl(eta):
    """10.2: mean loss of every prefix on stream R, whole and second half, and the edges."""
    booster = boosted({"kind": "coordinate_ftl", "n": 32}, eta)
    first, all_of_it = halves(booster, *stream_r(0.0))
    loss, total, missed = (b - a for a, b in zip(first, all_of_it, strict=True))

    np.testing.assert_allclose(all_of_it[0][PREFIXES] / 4000, WHOLE[eta], rtol=6e-6)
    if eta in SECOND_HALF:
        np.testing.assert_allclose(loss[PREFIXES] / 2000, SECOND_HALF[eta], rtol=6e-6)
        np.testing.assert_allclose((1.0 - missed / total)[:4], EDGES[eta], atol=6e-5)


@pytest.mark.parametrize("m", [1, 2])
def test_coordinate_ftl_is_its_twin(m):
    """Each learner answers with the ridge regression refitted from all it was taught."""
    agree(SQUARE, m, kind="coordinate_ftl", n=3)


def test_a_renewed_coordinate_is_a_fresh_one():
    """Learner 1 forgets everything; the others keep every byte."""
    bank, _ = made(m=2, kind="coordinate_ftl", n=3, ridge=0.5)
    teach(bank, [1.0, 2.0, 0.0, 0.5], 1.0)
    before = bank.S.copy(), bank.b.copy()
    kaboost.models.verbs.reset_learner(bank, 1, kaboost.models.kernels.random.generator(1))

    assert (bank.S[:, 1] == 0.5).all()
    assert not bank.b[..., 1].any()
    for array, old in zip((bank.S, bank.b), before, strict=True):
        np.testing.assert_array_equal(array[..., ::2], old[..., ::2])


@pytest.mark.parametrize(
    ("gamma", "expected", "bound"),
    [
        (0.25, 0.9904532803627037, 0.99554),
        (0.5, 0.9517802026812782, 0.97917),
        (1.0, 0.5625, 0.875),
    ],
)
def test_oracle_edge(gamma, expected, bound):
    """10.2 and 9.2: a learner with edge gamma lowers the loss by the same factor at each stage."""
    rule = {"kind": "sgb", "eta": "edge", "gamma": gamma, "y0": 0.0}
    booster = kaboost.build({"rule": rule, "bank": linear(8, "sgd", 0.1), "loss": "squared"}, d=1)
    z, h, F, yhat = 1.7, np.zeros((1, 8)), np.empty((1, 9)), np.empty(1)
    scratch = np.empty(kaboost.models.verbs.rule_scratch_size(booster.rule))
    for i in range(8):  # learner i answers once the prefix before it is known
        combine(booster.rule, h, F, yhat, scratch)
        h[0, i] = (1.0 - math.sqrt(1.0 - gamma)) * (F[0, i] - z)
    combine(booster.rule, h, F, yhat, scratch)
    losses = (F[0] - z) ** 2

    np.testing.assert_allclose(losses[1:] / losses[:-1], expected, rtol=1e-12)
    assert expected <= bound


@pytest.mark.parametrize(
    ("n", "eta", "expected"),
    [(1, 1.0, 1.1108843), (5, 1.0, 0.2408520), (10, 0.5, 0.3106335), (20, 0.3, 0.3532624)],
)
def test_stumps(n, eta, expected):
    """10.2: stumps on noisy stream R."""
    booster = boosted({"kind": "stumps", "n": n}, eta)
    kaboost.learn_many(booster, *stream_r(0.1))

    assert booster.progress.mean_loss == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("step", "lr", "expected"),
    [
        ("sgd", 0.1, 0.0157074176),
        ("adagrad", 0.5, 0.0136878299),
        ("adam", 0.05, 0.0273430592),
        ("nag", 0.5, 0.0196068154),
        ("ftrl", 0.1, 0.1205624497),
        ("ftrl", 0.5, 0.0161724263),
        ("ftrl", 1.0, 0.0110668434),
    ],
)
def test_linear_steps(step, lr, expected):
    """10.7: every step alone on noisy stream R."""
    booster = boosted(linear(1, step, lr))
    kaboost.learn_many(booster, *stream_r(0.1))

    assert booster.progress.mean_loss == pytest.approx(expected, rel=1e-8)


def test_importance_invariant_step():
    """10.7: the micro trace of one event of weight 2.5."""
    bank, _ = made(d=2, **linear(1, "invariant", 0.7))
    bank.w[0, :, 0] = (0.2, 0.1)
    teach(bank, [0.3, -0.5], 1.0, 2.5)

    np.testing.assert_allclose(bank.w[0, :, 0], (0.59172329, -0.55287215), atol=5e-9)
