"""Features that move are distinguished within 300 events; still ones ask for no bins."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost

AGE, AFTER, LOOK = 3_000, 1_200, 500


def learned(X, y):
    """The log-loss of every event, and the model."""
    booster = kaboost.build({"bank": "reboosted_trees", "loss": "logistic"}, X.shape[1])
    s = kaboost.learn_many(booster, X, y)[:, 0]
    return np.logaddexp(0.0, np.where(y > 0.0, -s, s)), booster


def drawn(seed):
    """Events whose rule is no line, of three features."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(AGE + AFTER, 3))
    z = np.where(X[:, 0] > 0.0, X[:, 1], -X[:, 1]) + 0.5 * X[:, 2]
    return X, (z + 0.3 * r.normal(size=len(z)) > 0.0).astype(float)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("columns", "factor", "offset"),
    [([0, 1, 2], 1.8, 32.0), ([1], 25.4, -700.0), ([0, 1, 2], 0.01, 0.0)],
)
def test_unit_changes(columns, factor, offset, seed):
    """From 500 events after a change of unit on, the loss is near that of a new model."""
    X, y = drawn(seed)
    X[AGE:, columns] = X[AGE:, columns] * factor + offset
    old, booster = learned(X, y)
    new, _ = learned(X[AGE:], y[AGE:])

    assert old[AGE + LOOK :].mean() < 1.3 * new[LOOK:].mean()
    asked = booster.trees.schedule.moved_at
    assert AGE < asked[asked > 0].min() < AGE + 300


def test_still_features_ask_for_nothing():
    """Numbers, counts, and a constant that rarely differs are no features that move."""
    r = np.random.default_rng(3)
    X = np.column_stack(
        [
            r.normal(size=3_000),
            r.poisson(200.0, 3_000),
            np.where(r.random(3_000) < 0.9, 0.0, r.random(3_000)),
            np.where(r.random(3_000) < 0.8, np.nan, r.random(3_000)),
        ]
    )
    _, booster = learned(X, (X[:, 0] > 0.0).astype(float))

    assert (booster.trees.schedule.moved_at == 0).all()


def test_batches_are_independent():
    """Any cut of batches gives the same scores where features move."""
    X, y = drawn(4)
    X[AGE:] = 5.0 * X[AGE:] - 90.0
    spec = {"bank": "reboosted_trees", "loss": "logistic"}
    whole, parts = kaboost.build(spec, 3), kaboost.build(spec, 3)
    expected = kaboost.learn_many(whole, X, y)
    got = [kaboost.learn_many(parts, X[k : k + 170], y[k : k + 170]) for k in range(0, len(y), 170)]

    assert np.array_equal(expected, np.concatenate(got))


def test_restarts_in_the_middle_of_a_move():
    """Checkpoints taken while new values come and bins are made go on to the same bytes."""
    X, y = drawn(5)
    X[AGE:] = X[AGE:] * 1.8 + 32.0
    spec = {"bank": "reboosted_trees", "loss": "logistic"}
    whole, parts = kaboost.build(spec, 3), kaboost.build(spec, 3)
    kaboost.learn_many(whole, X, y)
    kaboost.learn_many(parts, X[:AGE], y[:AGE])
    for k in range(AGE, AGE + 600, 10):
        arrays = {name: array.copy() for name, array in kaboost.to_arrays(parts).items()}
        parts = kaboost.from_arrays(spec, arrays)
        kaboost.learn_many(parts, X[k : k + 10], y[k : k + 10])
    kaboost.learn_many(parts, X[AGE + 600 :], y[AGE + 600 :])

    assert (whole.trees.schedule.moved_at > AGE).any()
    for name, array in kaboost.to_arrays(whole).items():
        assert array.tobytes() == kaboost.to_arrays(parts)[name].tobytes(), name
