"""Counts of any size, and counts that rise a thousandfold, are learned without overshooting."""

import numpy as np
import pytest

from kaboost import Model

POISSON = {"loss": "poisson"}


def answers(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the predictions of counts y, each made before its event was learned."""
    model = Model("regression", POISSON, features={"x": "number"})
    return np.asarray(model.learn_many([{"x": float(v)} for v in x], y.tolist())).ravel()


@pytest.mark.parametrize(("zeros", "count"), [(300, 20.0), (2000, 30.0), (900, 4e5)])
def test_counts_after_zeros(zeros: int, count: float) -> None:
    """Zeros, then one count throughout: followed within ten events, never overshot tenfold."""
    y = np.r_[np.zeros(zeros), np.full(30, count), np.zeros(300), np.full(30, count)]
    p = answers(y, np.arange(len(y)) % 5)

    assert p[1:].max() <= 10.0 * count
    for first in (zeros, zeros + 330):
        assert abs(p[first + 10 : first + 30] / count - 1.0).max() < 0.5


@pytest.mark.parametrize("mean", [300.0, 2e5, 4e8])
def test_large_counts_are_learned(mean: float) -> None:
    """As well as small ones, relative to the mean."""
    r = np.random.default_rng(int(mean) % 97)
    x = r.normal(size=3000)
    y = r.poisson(mean * np.exp(0.6 * x)).astype(float)
    p = answers(y, x)

    assert p.max() <= 10.0 * y.max()
    assert abs(p - y)[2000:].mean() < 0.1 * abs(y.mean() - y)[2000:].mean()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_large_count(seed: int) -> None:
    """A count of hundreds where .1 is usual costs a few events."""
    r = np.random.default_rng(seed)
    x = r.normal(size=3000)
    y = r.poisson(0.1 * np.exp(0.5 * x)).astype(float)
    y[2000] = 300.0
    p = answers(y, x)

    assert p[:2001].max() <= 10.0 * y[:2000].max()
    assert p[2001:].max() <= 3000.0
    assert p[2060:].mean() < 0.4
