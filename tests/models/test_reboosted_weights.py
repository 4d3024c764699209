"""What is learned depends on the ratios of importances alone, not on their unit."""

from typing import Any

import numpy as np
import pytest

import kaboost

TASKS = ("logistic", "squared", "absolute", "poisson")


def stream(loss: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw events of four numbers, and labels of the loss."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 4))
    z = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * r.normal(size=n)
    labels = {"logistic": (z > 0.0) * 1.0, "poisson": np.floor(np.exp(z))}
    return X, labels.get(loss, z)


def learned(loss: str, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> Any:
    """Return the scores of a new model, each made before its event was learned."""
    booster = kaboost.build({"bank": "reboosted_trees", "loss": loss, "seed": 3}, X.shape[1])
    parts = [kaboost.learn_many(booster, *(a[k : k + 250] for a in (X, y, w)))[:, 0]
             for k in range(0, len(y), 250)]  # fmt: skip
    return np.concatenate(parts)


@pytest.mark.parametrize("loss", TASKS)
@pytest.mark.parametrize("factor", [2.0**-40, 0.25, 2.0**30])
def test_a_common_factor_changes_nothing(loss: str, factor: float) -> None:
    """To the bit for a power of 2, whatever the ratios of the importances are."""
    X, y = stream(loss, 1000, 4)
    w = np.random.default_rng(9).choice([0.0, 0.5, 1.0, 7.0], len(y))
    expected = learned(loss, X, y, w)

    np.testing.assert_array_equal(expected, learned(loss, X, y, factor * w))


def test_ratios_count() -> None:
    """Of labels that contradict each other, the more important ones win."""
    X, y = stream("logistic", 3000, 5)
    wrong = np.random.default_rng(6).random(len(y)) < 0.5
    given = np.where(wrong, 1.0 - y, y)
    s = learned("logistic", X, given, np.where(wrong, 1e-4, 1e-3))

    assert ((s > 0.0) == (y > 0.0))[1500:].mean() > 0.8
