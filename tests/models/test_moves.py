"""Features that move are distinguished within 300 events; still ones ask for no bins."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from tests.boosters import (
    default_booster,
    learn_stream,
    learned,
    log_losses,
    restored,
    state_bytes,
)
from tests.models.number_streams import switched_classes

AGE, AFTER, LOOK = 3_000, 1_200, 500
SPEC = {"bank": "reboosted_trees", "loss": "logistic"}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("columns", "factor", "offset"),
    [([0, 1, 2], 1.8, 32.0), ([1], 25.4, -700.0), ([0, 1, 2], 0.01, 0.0)],
)
def test_unit_changes(columns, factor, offset, seed):
    """From 500 events after a change of unit on, the loss is near that of a new model."""
    X, y = switched_classes(AGE + AFTER, seed)
    X[AGE:, columns] = X[AGE:, columns] * factor + offset
    booster = default_booster(3)
    old = log_losses(booster, X, y)
    new = log_losses(default_booster(3), X[AGE:], y[AGE:])

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
    booster = learned(SPEC, X, (X[:, 0] > 0.0).astype(float)).booster

    assert (booster.trees.schedule.moved_at == 0).all()


def test_batches_are_independent():
    """Any cut of batches gives the same scores where features move."""
    X, y = switched_classes(AGE + AFTER, 4)
    X[AGE:] = 5.0 * X[AGE:] - 90.0
    whole, parts = default_booster(3), default_booster(3)
    expected = kaboost.learn_many(whole, X, y)

    assert np.array_equal(expected, learn_stream(parts, X, y, batch=170))


def test_restarts_in_the_middle_of_a_move():
    """Checkpoints taken while new values come and bins are made go on to the same bytes."""
    X, y = switched_classes(AGE + AFTER, 5)
    X[AGE:] = X[AGE:] * 1.8 + 32.0
    whole, parts = default_booster(3), default_booster(3)
    kaboost.learn_many(whole, X, y)
    kaboost.learn_many(parts, X[:AGE], y[:AGE])
    for k in range(AGE, AGE + 600, 10):
        parts = restored(parts, SPEC)
        kaboost.learn_many(parts, X[k : k + 10], y[k : k + 10])
    kaboost.learn_many(parts, X[AGE + 600 :], y[AGE + 600 :])

    assert (whole.trees.schedule.moved_at > AGE).any()
    assert state_bytes(whole) == state_bytes(parts)
