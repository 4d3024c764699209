"""Seeded streams of numbers X (B, d), labels y (B,) and importances w (B,), by what they draw."""

from __future__ import annotations

import numpy as np


def switched_line(n, seed):
    """Three features, and labels of a line that a sign switches: no line gives them."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 3))
    z = np.where(X[:, 0] > 0.0, X[:, 1], -X[:, 1]) + 0.5 * X[:, 2]
    return X, z + 0.3 * r.normal(size=n)


def switched_classes(n, seed):
    """`switched_line` with labels 0 and 1."""
    X, z = switched_line(n, seed)
    return X, (z > 0.0).astype(float)


def product(n, loss="squared", seed=0):
    """Four features, and labels of the loss that follow a product of two."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 4))
    z = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * r.normal(size=n)
    labels = {"logistic": (z > 0.0) * 1.0, "poisson": np.floor(np.exp(z))}
    return X, labels.get(loss, z)


def product_with_gaps(n, d=5, loss="logistic", seed=0):
    """Features with missing and repeated values, and labels that follow a product of two."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    X[:, 1] = np.round(X[:, 1])
    X[r.random((n, d)) < 0.05] = np.nan
    z = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2]) + 0.3 * r.normal(size=n)
    if loss == "logistic":
        return X, (z > 0).astype(float)
    return X, np.floor(abs(z)) if loss == "poisson" else z


def product_of_eight(n):
    """Eight features, and labels about 0, of a deviation of 3.6."""
    r = np.random.default_rng(3)
    X = r.normal(size=(n, 8))
    return X, 3.0 * X[:, 0] + 2.0 * X[:, 1] * X[:, 2] + r.normal(0.0, 0.5, n)


def reversed_product(n, turn, d=8):
    """A smooth rule under a little noise, which is reversed at `turn`: a drift is detected."""
    r = np.random.default_rng(5)
    X = r.normal(size=(n, d))
    z = np.where(np.arange(n) < turn, 1.0, -1.0) * (X[:, 0] + 0.2 * X[:, 1] * X[:, 2])
    return X, (z + 0.1 * r.normal(size=n) > 0).astype(float)


def random_walk(n, d, loss, seed=3):
    """Features of which some are missing, labels that follow those before them and now and then are
    far from all others, and importances of which some are 0.
    """
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    X[r.random((n, d)) < 0.05] = np.nan
    z = np.nan_to_num(X[:, 0]) + np.cumsum(r.normal(size=n)) / 10.0
    w = r.choice([0.0, 1.0, 2.0], n, p=[0.2, 0.6, 0.2])
    if loss == "logistic":
        return X, (z > 0).astype(float), w
    y = np.where(r.random(n) < 0.03, 1e5 * z, z)
    return X, abs(np.floor(y)) if loss == "poisson" else y, w


def regimes(n, d, seed):
    """Labels that agree with a hidden state, which changes every 150 events on average: a model
    that learned the last labels is right, one that waits for them is often wrong.
    """
    r = np.random.default_rng(seed)
    state = np.cumsum(r.random(n) < 1 / 150) % 2
    X = r.normal(size=(n, d))
    log_odds = 4.0 * (2 * state - 1) + 1.5 * X[:, 0]
    return X, (r.random(n) < 1 / (1 + np.exp(-log_odds))).astype(float)


def levels(n, d, count, loss):
    """Whole numbers below `count` of which some are missing, and labels that follow them."""
    r = np.random.default_rng(3)
    X = r.integers(0, count, size=(n, d)).astype(float)
    X[r.random((n, d)) < 0.05] = np.nan
    z = np.nan_to_num(X[:, 0] - 4.0) + np.nan_to_num((X[:, 1] - 4.0) * (X[:, 2] > 5))
    z += 2.0 * np.isnan(X[:, 3]) + r.normal(size=n)
    return X, (z > 0.3).astype(float) if loss == "logistic" else z


def numbers_and_codes(n=400, seed=3):
    """Numbers, some missing; a column that is always present; codes of categories."""
    r = np.random.default_rng(seed)
    X = r.normal(3.0, 2.0, (n, 4))
    X[:, 3] = r.integers(-1, 70, n)
    X[r.random(n) < 0.3, 0] = np.nan
    X[r.random(n) < 0.1, 3] = np.nan
    y = 2.0 * X[:, 1] - X[:, 2] + np.where(np.isnan(X[:, 0]), 5.0, X[:, 0])
    return X, y + 3.0 * (X[:, 3] == 7.0) + 0.1 * r.normal(size=n)


def scaled_columns(loss, m=1, n=120, d=4):
    """Features of several scales with zeros, labels (B,) or (B, m), importances with zeros."""
    r = np.random.default_rng(3)
    X = r.normal(size=(n, d)) * (1.0, 2.0, 0.3, 1.0)
    X[r.random(X.shape) < 0.1] = 0.0
    z = 0.6 * X[:, 0] - 0.5 * X[:, 1] + 0.3 + 0.1 * r.normal(size=n)
    w = np.where(r.random(n) < 0.1, 0.0, r.choice([1.0, 1.0, 0.5, 2.0], n))
    if loss in ("logistic", "hinge", "exponential"):
        return X, np.where(z > 0, 1.0, -1.0), w
    if loss == "poisson":
        return X, np.floor(abs(z)), w
    return X, z if m == 1 else np.stack([z, abs(z), X[:, 2]], axis=1), w
