"""Convolution nets: gradients, their own small contract, and pictures that they learn."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

import kaboost
from kaboost.models.types import LINEAR
from tests.contracts import checks, subjects
from tests.models.bank_twins import made, say, teach
from tests.naive.conv import ConvBank

PIXELS = 784


def conv(**options):
    return {"kind": "conv", "n": 2, "channels": 1, "lr": 0.01, **options}


def pictures(count, seed=6):
    """Pictures in [0, 1] of a bar somewhere in the upper (0) or lower (1) half, mostly dark."""
    r = np.random.default_rng(seed)
    X, y = np.zeros((count, 28, 28)), r.integers(2, size=count)
    for picture, low in zip(X, y, strict=True):
        row, column = r.integers(0, 12) + 14 * low, r.integers(0, 14)
        picture[row : row + 2, column : column + 14] = r.uniform(0.5, 1.0)
    return X.reshape(count, PIXELS), y.astype(float)


def subject():
    given = {"bank": conv(), "loss": {"kind": "squared"}, "seed": 7}
    X, y = pictures(subjects.EVENTS)
    weights = np.where(np.arange(len(y)) % 9 == 4, 0.0, 1.5)
    return subjects.Subject(kaboost.normalise_spec(given), 1, X, y, weights)


def test_conv_keeps_the_contract(monkeypatch):
    """What every bank promises holds for pictures, too."""
    monkeypatch.setattr(subjects, "FEATURES", PIXELS)
    checks.keeps(subject())


def test_jit_off_equals_jit_on(monkeypatch):
    """Plain Python leaves the bytes that compiled kernels leave, whichever this process runs."""
    monkeypatch.setattr(subjects, "FEATURES", PIXELS)
    program = (
        "from tests.contracts import checks, subjects; from tests.models import test_conv;"
        "subjects.FEATURES = 784; print(checks.digest_after(test_conv.subject()))"
    )
    off = "0" if numba.config.DISABLE_JIT else "1"
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": off, "PYTHONPATH": "."},
        capture_output=True, check=True, text=True,
    )  # fmt: skip

    assert checks.digest_after(subject()) == other.stdout.strip()


def test_size():
    """Five kernels and ten outputs are 7,340 parameters a learner (7.4)."""
    bank, _ = made(m=10, d=PIXELS, kind="conv", n=3)

    assert (bank.K.size + bank.V.size) / 3 == 7340


def test_gradients_are_difference_quotients():
    """The first moments after one slope are .1 times the gradient of slope . h in every weight."""
    bank, _ = made(m=2, d=PIXELS, **conv(n=2, channels=2))
    picture, _ = pictures(1)
    x, g = np.clip(picture[0] + 0.1, 0.0, 1.0), np.array([[0.7, -0.3], [0.2, 1.1]])
    first = bank._replace(**{f: np.copy(a) for f, a in bank._asdict().items() if f != "lr"})
    teach(first, x, g, mode=LINEAR)

    r = np.random.default_rng(8)
    for weights, moments in ((bank.K, first.MK), (bank.V, first.MV)):
        places = r.integers((0, 0, 0), weights.shape, (25, 3)).tolist()
        for place in (*places, [0, weights.shape[1] - 1, 1]):
            center, predicted = weights[tuple(place)], []
            for shift in (1e-5, -1e-5):
                weights[tuple(place)] = center + shift
                predicted.append((g * say(bank, x)[0]).sum())
            weights[tuple(place)] = center
            quotient = (predicted[0] - predicted[1]) / 2e-5
            assert moments[tuple(place)] == pytest.approx(0.1 * quotient, rel=1e-6, abs=1e-9)


def test_outputs_are_the_twin_s():
    """Several outputs, kernels and learners say what the twin says, before and after learning."""
    bank, full = made(m=3, d=PIXELS, **conv(n=2, channels=3))
    twin = ConvBank(full, PIXELS, 3, 7)
    for x in pictures(4)[0]:
        predicted = teach(bank, x, np.array([[1.0], [0.0], [-1.0]]), np.array([1.0, 0.0]))
        expected = np.transpose([one.predict(x) for one in twin.learners])
        np.testing.assert_allclose(predicted, expected, rtol=1e-9)
        twin.learners[0].learn(x, [1.0, 0.0, -1.0], 1.0, 0)


def test_pictures_are_learned():
    """After 200 pictures fewer than one in ten of the next 100 is called wrong."""
    X, y = pictures(300)
    booster = kaboost.build({"bank": conv(n=2, channels=3), "loss": "logistic"}, d=PIXELS)
    scores = kaboost.learn_many(booster, X, y)[:, 0]

    assert ((scores > 0.0) != (y > 0.5))[200:].sum() < 10


def test_a_renewed_learner_is_drawn_as_at_the_start():
    """Learner 1 gets the weights that a bank of one draws from the same seed; learner 0 stays."""
    bank, _ = made(m=2, d=PIXELS, **conv())
    x = pictures(1)[0][0]
    teach(bank, x, 1.0)
    before = [np.copy(array[..., 0]) for array in (bank.K, bank.V, bank.MV)]
    kaboost.models.verbs.reset_learner(bank, 1, kaboost.models.kernels.random.generator(7))
    alone, _ = made(m=2, d=PIXELS, **conv(n=1))

    np.testing.assert_array_equal(bank.K[..., 1], alone.K[..., 0])
    np.testing.assert_array_equal(bank.V[..., 1], alone.V[..., 0])
    assert not bank.MV[..., 1].any()
    assert bank.decayed[:, 1].tolist() == [1.0, 1.0]
    for old, array in zip(before, (bank.K, bank.V, bank.MV), strict=True):
        np.testing.assert_array_equal(array[..., 0], old)


def test_other_shapes_are_refused():
    """Anything but 28 x 28 pixels is refused with what to take instead."""
    with pytest.raises(kaboost.ModelError, match="784 pixels, not 4 features; take bank nets"):
        kaboost.build({"bank": conv(), "loss": "squared"}, d=4)
