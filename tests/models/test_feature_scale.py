"""Columns that vary by far less than they are large, or beyond float32, are learned as others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaboost
from kaboost.models.explain.interface import explain_many
from kaboost.models.reboosted.explain import export_trees
from kaboost.models.reboosted.feature_scale import feature_scale, with_features
from kaboost.models.reboosted.rescale import _moved, real_values
from kaboost.models.reboosted.trees.binning import to_keys
from tests.boosters import default_booster, learned, log_losses, restored, state_bytes
from tests.models.number_streams import switched_classes

N, SPEC = 2_500, {"bank": "reboosted_trees", "loss": "logistic"}


@pytest.mark.parametrize("seed", [3, 4])
def test_levels_and_sizes(seed):
    """Whatever a column's level and size, the loss is that of its standardised values."""
    X, y = switched_classes(N, seed)
    expected = log_losses(default_booster(3), X, y)[-1_000:].mean()
    for level, size in (
        (3e7, 1.0), (-4e8, 2.0), (1.7e9, 20.0), (1e12, 1.5), (1.7e18, 1e9), (1e60, 1e50),
        (0.0, 1e-46), (0.0, 1e-150), (0.0, 1e42), (0.0, 1e180),
    ):  # fmt: skip
        loss = log_losses(default_booster(3), level + size * X, y)
        assert loss[-1_000:].mean() < 1.05 * expected, (level, size)


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize("before", [0.0, 4e9, np.nan])
def test_levels_that_come_later(before, seed):
    """A level that comes up or jumps after thousands of events is told apart within 500."""
    X, y = switched_classes(6_000, seed)
    level = np.where(np.arange(6_000) < 4_000, before, 7e11)[:, None]
    loss = log_losses(default_booster(3), X + level, y)
    new = log_losses(default_booster(3), X[4_000:], y[4_000:])

    assert loss[4_500:].mean() < 1.3 * new[500:].mean()


def test_holes_and_sentinels():
    """A column that most events lack is observed all the same, and so is one with sentinels."""
    r = np.random.default_rng(7)
    X, y = switched_classes(N, 7)
    X = 5e11 + X
    X[r.random(X.shape[0]) < 0.9, 0] = np.nan
    X[r.random(X.shape[0]) < 0.15, 1] = -999.0
    X[:5, 2] = np.inf
    booster = learned(SPEC, X, y).booster

    assert (abs(booster.features.offset - 5e11) < 10.0).all()


def test_ordinary_columns_stay():
    """Columns that float32 tells apart keep offset 0 and factor 1."""
    r = np.random.default_rng(8)
    X = np.column_stack(
        [
            r.normal(size=N),
            r.integers(1990, 2030, N),
            np.where(r.random(N) < 0.5, 0.0, r.random(N) * 1e9),
            r.poisson(3.0, N) / 7.0,
            10.0 ** r.uniform(-20.0, 20.0, N),
            np.full(N, 1e12),
            np.cumsum(r.normal(size=N)),
            0.1 * 3.0 + r.integers(0, 2, N) * 1e-17,
        ]
    )
    booster = learned(SPEC, X, (X[:, 0] > 0.0).astype(float)).booster

    assert (booster.features.offset == 0.0).all()
    assert (booster.features.factor == 1.0).all()


def moving(seed):
    """Events with moves at the start, of some columns, and after 1,500 events."""
    X, y = switched_classes(N, seed)
    X[:, 0] += 1e12
    X[1_500:, 1] += 3e10
    X[:, 2] *= 1e-50
    return X, y


@pytest.mark.parametrize("seed", [9, 10])
def test_any_batching_and_restart_give_the_same_bytes(seed):
    """Moves come at the same events however the stream is cut, and after a restart."""
    X, y = moving(seed)
    whole = learned(SPEC, X, y).booster
    r, parts, first = np.random.default_rng(seed), kaboost.build(SPEC, 3), 0
    while first < N:
        last = first + int(r.choice([1, 3, 17, 600]))
        kaboost.learn_many(parts, X[first:last], y[first:last])
        parts, first = restored(parts, SPEC), last

    assert (whole.features.offset[:2] > 0.0).all()
    assert whole.features.factor[2] > 1.0
    assert state_bytes(whole) == state_bytes(parts)


def test_served_and_explained():
    """A snapshot serves the same scores; explanations add up; cuts are in the units of X."""
    X, y = moving(11)
    booster = learned(SPEC, X, y).booster
    scores = kaboost.predict_many(booster, X[-50:])
    served = kaboost.from_arrays(SPEC, kaboost.serving_arrays(booster))
    found = explain_many(booster, X[-50:])
    cuts = [
        cut
        for tree in export_trees(booster)["trees"]
        for cut, j in zip(tree["thresholds"], tree["features"], strict=True)
        if j == 0
    ]

    assert (kaboost.predict_many(served, X[-50:]) == scores).all()
    total = found.base + found.contributions.sum(axis=2)
    np.testing.assert_allclose(total, scores, atol=1e-9)
    assert abs(np.median(cuts) - 1e12) < 10.0


def test_more_features():
    """Offsets, factors and counts stay with their columns where features are added."""
    X, y = moving(12)
    scale = learned(SPEC, X, y).booster.features
    wide = with_features(scale, 20)

    for old, new, blank in zip(scale, wide, feature_scale(20), strict=True):
        assert (new[..., :3] == old).all()
        assert (new[..., 3:] == blank[..., 3:]).all()


@given(st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=30), st.floats(-1e15, 1e15))
def test_moves_keep_the_order(numbers, offset):
    """Keys in a new scale are ordered as before, and are the same numbers but for rounding."""
    old, new = feature_scale(1), feature_scale(1)
    new.offset[0] = offset
    keys = to_keys(np.sort(np.array(numbers))[:, None])[:, 0]
    zero = np.zeros(len(keys), np.int64)
    moved = _moved(old, new, keys, zero)
    x, back = real_values(old, keys, zero), real_values(new, moved, zero)

    assert (np.diff(moved.astype(np.int64)) >= 0).all()
    assert (abs(back - x) <= 2.0**-22 * (abs(x) + abs(offset)) + 1e-40).all()
