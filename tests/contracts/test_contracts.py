"""Every valid bank x rule x loss keeps every promise of its parts: lists of checks run over the
whole product.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import models
from models import verbs
from tests.naive import NaiveBooster

BANKS = (
    {"kind": "linear", "n": 5, "step": "sgd"},
    {"kind": "linear", "n": 5, "step": "nag"},
    {"kind": "linear", "n": 5, "step": "nag", "features": "cyclic"},
    {"kind": "linear", "n": 5, "step": "sgd", "features": "cyclic", "bias": False},
    {"kind": "linear", "n": 1, "step": "nag", "bias": False},
    {"kind": "nets", "n": 5, "optimiser": "adam", "lr": 0.01},
    {"kind": "nets", "n": 3, "optimiser": "sgd", "hidden": 3, "activation": "tanh", "lr": 0.05},
    {"kind": "nets", "n": 2, "optimiser": "adam", "activation": "leaky_relu"},
)
RULES = (
    {"kind": "sgb"},
    {"kind": "sgb", "eta": 0.2, "y0": 0.0},
    {"kind": "sgb", "eta": "edge", "gamma": 0.5, "y0_freeze": 7},
)
LOSSES = (
    ({"kind": "squared"}, 1),
    ({"kind": "squared", "l2": 0.01}, 3),
    ({"kind": "logistic", "l2": 0.01}, 1),
    ({"kind": "softmax"}, 3),
)


class Subject(NamedTuple):
    """One combination with a stream it can learn."""

    spec: dict
    m: int
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray


def stream(loss, m, events=60, d=4, seed=5):
    r = np.random.default_rng(seed)
    X = r.normal(size=(events, d)) * (1.0, 3.0, 0.1, 1.0)
    X[r.random((events, d)) < 0.1] = 0.0
    z = X[:, 0] - 0.5 * X[:, 1] + 0.1 * r.normal(size=events)
    w = np.where(r.random(events) < 0.1, 0.0, r.choice([1.0, 1.0, 0.5, 2.0], events))
    if loss["kind"] == "logistic":
        return X, (z > 0).astype(float), w
    if loss["kind"] == "softmax":
        return X, np.digitize(z, (-1.0, 1.0)).astype(float), w
    return X, (z if m == 1 else np.stack([z, -z, X[:, 2]], axis=1)), w


def subjects():
    for bank, rule, (loss, m) in itertools.product(BANKS, RULES, LOSSES):
        spec = models.normalise_spec({"bank": bank, "rule": rule, "loss": loss, "seed": 7})
        name = "-".join(str(v) for part in (bank, rule, loss) for v in part.values()) + f"-{m}"
        yield pytest.param(Subject(spec, m, *stream(loss, m)), id=name)


def fresh(subject):
    return models.build(subject.spec, d=4, m=subject.m)


def learned(subject):
    booster = fresh(subject)
    models.learn_many(booster, subject.X, subject.y, subject.w)
    return booster


def same(a, b):
    left, right = models.to_arrays(a), models.to_arrays(b)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name


def check_twin(subject):
    """Scores, prefix losses and edges are those of the naive twin."""
    booster, twin = fresh(subject), NaiveBooster(subject.spec, 4, subject.m)
    scores = models.learn_many(booster, subject.X, subject.y, subject.w)
    logistic = subject.spec["loss"]["kind"] == "logistic"
    labels = 2 * subject.y - 1 if logistic else subject.y
    expected = [
        twin.learn(list(x), list(np.atleast_1d(label)), w)
        for x, label, w in zip(subject.X, labels, subject.w, strict=True)
    ]

    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-11)
    seen = booster.progress
    assert seen.events == twin.events == (subject.w > 0).sum()
    np.testing.assert_allclose(seen.loss_sum, twin.loss_sum, rtol=1e-9)
    np.testing.assert_allclose(seen.prefix_loss_sum, twin.prefix_loss_sum, rtol=1e-9)
    np.testing.assert_allclose(seen.edges, twin.edges, rtol=1e-7, atol=1e-9)


def check_batching(subject):
    """Any batching gives the same scores and the same bytes."""
    whole, single, parts = fresh(subject), fresh(subject), fresh(subject)
    scores = models.learn_many(whole, subject.X, subject.y, subject.w)
    one_by_one = [
        models.learn_many(single, subject.X[k : k + 1], subject.y[k : k + 1], subject.w[k : k + 1])
        for k in range(len(subject.X))
    ]
    for cut in (slice(0, 17), slice(17, 18), slice(18, 18), slice(18, 60)):
        models.learn_many(parts, subject.X[cut], subject.y[cut], subject.w[cut])

    assert scores.tobytes() == np.concatenate(one_by_one).tobytes()
    same(whole, single)
    same(whole, parts)


def check_predict_is_pure(subject):
    """Predicting changes nothing, answers before any event, and says what learning says."""
    booster = fresh(subject)
    assert np.isfinite(models.predict_many(booster, subject.X)).all()
    models.learn_many(booster, subject.X[:30], subject.y[:30])
    before = {name: a.tobytes() for name, a in models.to_arrays(booster).items()}
    said = models.predict_many(booster, subject.X[30:31])
    prefixes = models.prefixes_many(booster, subject.X[30:31])
    after = {name: a.tobytes() for name, a in models.to_arrays(booster).items()}

    assert before == after
    assert prefixes.shape == (1, subject.spec["bank"]["n"] + 1, subject.m)
    np.testing.assert_array_equal(prefixes[:, -1], said)
    np.testing.assert_array_equal(
        said, models.learn_many(booster, subject.X[30:31], subject.y[30:31])
    )


def check_save_load_continue(subject):
    """Arrays out, arrays in, go on: bit for bit as if never stopped."""
    straight, first = learned(subject), fresh(subject)
    models.learn_many(first, subject.X[:25], subject.y[:25], subject.w[:25])
    copies = {name: a.copy() for name, a in models.to_arrays(first).items()}
    second = models.from_arrays(subject.spec, copies)
    models.learn_many(second, subject.X[25:], subject.y[25:], subject.w[25:])

    same(straight, second)


def check_read_only_serving(subject):
    """The serving arrays alone, mapped read-only, predict the same; learning on them is refused."""
    booster = learned(subject)
    frozen = {name: a.copy() for name, a in models.serving_arrays(booster).items()}
    for array in frozen.values():
        array.flags.writeable = False
    reader = models.from_arrays(subject.spec, frozen)

    np.testing.assert_array_equal(
        models.predict_many(reader, subject.X), models.predict_many(booster, subject.X)
    )
    with pytest.raises(models.ModelError, match="read-only"):
        models.learn_many(reader, subject.X, subject.y)


def check_weight_zero(subject):
    """An event of weight 0 is predicted and moves nothing."""
    booster = learned(subject)
    before = {name: a.tobytes() for name, a in models.to_arrays(booster).items()}
    said = models.learn_many(booster, subject.X * 9, subject.y, np.zeros(len(subject.X)))

    np.testing.assert_array_equal(said, models.predict_many(booster, subject.X * 9))
    assert before == {name: a.tobytes() for name, a in models.to_arrays(booster).items()}


def check_inputs_untouched(subject):
    """Inputs are read, never written; float32 and lists are taken as well."""
    X, y, w = subject.X.copy(), subject.y.copy(), subject.w.copy()
    for array in (X, y, w):
        array.flags.writeable = False
    models.learn_many(fresh(subject), X, y, w)
    single = models.learn_many(fresh(subject), X.astype(np.float32), y, w)

    np.testing.assert_array_equal(X, subject.X)
    np.testing.assert_allclose(
        single, models.learn_many(fresh(subject), X.tolist(), y.tolist(), w.tolist()), atol=1e-2
    )


def check_size_is_constant(subject):
    """The state never grows."""
    assert {n: a.nbytes for n, a in models.to_arrays(learned(subject)).items()} == {
        n: a.nbytes for n, a in models.to_arrays(fresh(subject)).items()
    }


def check_survives_extremes(subject):
    """Enormous features, labels and weights leave every sum and every answer finite."""
    booster, X, y = fresh(subject), subject.X.copy(), subject.y.copy()
    X[::7] *= 1e200
    if subject.spec["loss"]["kind"] == "squared":
        y[::5] = 1e308
        y[1::5] = -1e308
    scores = models.learn_many(booster, X, y, np.where(subject.w > 0, 1e308, 0.0))
    models.learn_many(booster, subject.X, subject.y)

    assert np.isfinite(scores).all()
    assert np.isfinite(models.predict_many(booster, subject.X)).all()
    assert np.isfinite(booster.progress.mean_loss)
    assert np.isfinite(booster.progress.prefix_losses).all()
    assert np.isfinite(booster.progress.edges).all()


CHECKS = (
    check_twin, check_batching, check_predict_is_pure, check_save_load_continue,
    check_read_only_serving, check_weight_zero, check_inputs_untouched, check_size_is_constant,
    check_survives_extremes,
)  # fmt: skip


@pytest.mark.parametrize("subject", list(subjects()))
def test_contract(subject):
    """Every check holds for this combination."""
    for check in CHECKS:
        check(subject)


def test_jit_off_equals_jit_on():
    """The whole product in plain Python gives the bytes that compiled kernels give."""
    program = (
        "import sys, hashlib, json; sys.path[:0] = ['.', 'tests/contracts'];"
        "import test_contracts as t, models;"
        "print(json.dumps({p.id: hashlib.sha256(b''.join("
        "a.tobytes() for a in models.to_arrays(t.learned(p.values[0])).values())).hexdigest()"
        " for p in t.subjects()}))"
    )
    digests = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "NUMBA_DISABLE_JIT": off},
                capture_output=True, check=True, text=True,
            ).stdout
        )
        for off in ("0", "1")
    ]  # fmt: skip

    assert len(digests[0]) == len(BANKS) * len(RULES) * len(LOSSES)
    assert digests[0] == digests[1]


@pytest.mark.parametrize("bank", BANKS, ids=lambda bank: "-".join(map(str, bank.values())))
def test_a_bank_of_n_is_n_banks_of_one(bank):
    """No learner's state depends on another's: fed alone, with its own target and weight, each
    moves alike.
    """
    r = np.random.default_rng(3)
    params = models.normalise_spec({"bank": bank, "loss": "squared"})["bank"]
    make = models.BANKS[params["kind"]].make
    N, m, d = params["n"], 2, 4
    whole = make(params, d, m, 9)
    # A learner i of cyclic banks sees feature i mod d: a bank of one is that of learner 0.
    ones = [make(params, d, m, 9) for _ in range(N)]
    for x in r.normal(size=(12, d)):
        h, room = np.empty((m, N)), np.empty((verbs.rooms(whole), N))
        target, weight = r.normal(size=(m, N)), r.choice([0.0, 1.0, 2.0], N)
        verbs.predict(whole, x, h, room)
        verbs.update(whole, x, h, target.copy(), weight.copy(), 0, room)
        for i, one in enumerate(ones):
            alone = np.where(np.arange(N) == i, weight, 0.0)
            verbs.predict(one, x, h, room)
            verbs.update(one, x, h, target.copy(), alone, 0, room)
    for field, array in whole._asdict().items():
        if isinstance(array, np.ndarray) and array.shape[-1] == N and field != "s":
            for i, one in enumerate(ones):
                np.testing.assert_array_equal(array[..., i], getattr(one, field)[..., i], field)
