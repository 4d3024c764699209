"""Streams of the kinds that public reports tell of: every one is learned as a clean one is."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kaboost import Model, ModelError
from tests.models.number_streams import switched_line

N = 4_000
ELEC2 = Path(__file__).parents[2] / "data" / "elec2.csv.gz"


def named(X: np.ndarray) -> list[dict[str, float]]:
    """Rows of X by name."""
    return [dict(zip("abc", row, strict=True)) for row in X.tolist()]


def log_loss(X: np.ndarray, y: np.ndarray, w: list[float] | None = None) -> np.ndarray:
    """Loss of every event, predicted before it was learned."""
    p = Model().learn_many(named(X), y.tolist(), w)
    return -np.log(p[np.arange(len(y)), y])


def numbers(X: np.ndarray, y: np.ndarray, loss: str = "squared") -> np.ndarray:
    """The predictions of a regression, each made before its label."""
    return Model("regression", {"loss": loss}).learn_many(named(X), y.tolist()).reshape(-1)


@pytest.fixture(scope="module")
def usual() -> float:
    """The log-loss of the last 1,000 events of the clean stream."""
    X, f = switched_line(N, 1)
    return float(log_loss(X, (f > 0).astype(int))[-1_000:].mean())


@pytest.mark.parametrize("first", ["N/A", "", "-", True, "1,5", "?"])
def test_a_dirty_first_value_refuses_nothing(first: Any) -> None:
    """The kind is that of the values that follow."""
    model = Model()
    model.learn_one({"amount": first}, 0)
    for k in range(300):
        model.learn_one({"amount": float(k % 100)}, int(k % 100 > 50))
    assert model.kinds == {"amount": "number"}


@pytest.mark.parametrize(
    ("offset", "size"), [(3e8, 1), (1.7e9, 1), (1e12, 3), (0, 1e-50), (0, 1e40)]
)
def test_features_of_any_level_and_size(usual: float, offset: float, size: float) -> None:
    """They are learned as those around 0."""
    X, f = switched_line(N, 1)
    assert log_loss(offset + size * X, (f > 0).astype(int))[-1_000:].mean() < 1.05 * usual


@pytest.mark.parametrize("w", [0.03, 1e-3, 1e-6, 1e4])
def test_one_weight_for_all_changes_nothing(usual: float, w: float) -> None:
    """A common factor of all weights has no unit."""
    X, f = switched_line(N, 1)
    assert log_loss(X, (f > 0).astype(int), [w] * N)[-1_000:].mean() < 1.02 * usual


@pytest.mark.parametrize("begin", [0, 10**9, 2**60])
def test_whole_numbers_that_are_names(begin: int) -> None:
    """Fifty merchants, each with a rate of its own, are learned as well as by name."""
    r = np.random.default_rng(2)
    rate, c = r.beta(0.4, 0.4, 50), r.integers(0, 50, 8_000)
    y = (r.random(8_000) < rate[c]).astype(int)
    losses = []
    for code in (str, lambda i: begin + int(i)):
        p = Model().learn_many([{"merchant": code(int(i))} for i in c], y.tolist())
        losses.append(-np.log(p[np.arange(4_000, 8_000), y[4_000:]]).mean())
    assert losses[1] < 1.03 * losses[0]


def test_declared_and_pandas_categories_take_whole_numbers() -> None:
    """By name, and booleans too."""
    Model(features={"merchant": "category"}).learn_many(
        [{"merchant": 5411}, {"merchant": True}], [1, 0]
    )
    model = Model()
    model.learn_many(pd.DataFrame({"c": pd.Categorical([101, 205, 330] * 50)}), [1, 0, 0] * 50)
    assert model.kinds == {"c": "category"}


@pytest.mark.parametrize("stuck", [-200.0, 9_999.0, 0.0])
@pytest.mark.parametrize("length", [8, 16, 30, 50, 200])
def test_a_stuck_label_is_left_behind(stuck: float, length: int) -> None:
    """From 50 events on the error is at most twice that of a stream without it."""
    X, f = switched_line(N, 3)
    good = 10 + 3 * f
    y = good.copy()
    y[2_500 : 2_500 + length] = stuck
    behind = slice(2_500 + length + 50, 2_500 + length + 250)
    clean = abs(numbers(X, good) - good)[behind].mean()
    assert abs(numbers(X, y) - y)[behind].mean() < 2 * clean


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize(
    ("offset", "size"), [(1e6, 1), (1e9, 1), (1e12, 1), (1.76e18, 1e9), (0, 1e-20), (0, 1e40)]
)
def test_labels_of_any_level_and_size(loss: str, offset: float, size: float) -> None:
    """The error is about a third of the median's."""
    X, f = switched_line(N, 4)
    y = offset + size * f
    lost = abs(numbers(X, y, loss) - y)[-1_000:].mean()
    assert lost < 0.4 * abs(np.median(y[:-1_000]) - y[-1_000:]).mean()


@pytest.mark.parametrize("dtype", ["Int64", "string"])
def test_missing_labels_of_pandas(dtype: str) -> None:
    """They are named with their place."""
    values = [1, None] if dtype == "Int64" else ["a", None]
    model = Model(labels=None if dtype == "Int64" else ["a", "b"])
    with pytest.raises(ModelError, match=r"y\[1\]"):
        model.learn_many(pd.DataFrame({"x": [1.0, 2.0]}), pd.array(values, dtype=dtype))


@pytest.mark.parametrize("mean", [0.05, 3e3, 1e6])
def test_counts_of_any_size(mean: float) -> None:
    """No answer is above ten times the largest count, and the error is a part of the mean's."""
    r = np.random.default_rng(5)
    x = r.normal(size=N)
    y = r.poisson(mean * np.exp(x / 2)).astype(float)
    if mean == 0.05:
        y[3_000] = 200.0  # one wild count
    model = Model("regression", {"loss": "poisson"})
    p = model.learn_many([{"x": float(v)} for v in x], y.tolist()).reshape(-1)
    lost, of_mean = abs(p - y)[-500:].mean(), abs(y[:3_000].mean() - y[-500:]).mean()
    assert p.max() <= 10 * y.max()
    assert lost < (1.5 if mean == 0.05 else 0.3) * of_mean


def test_days_of_zeros_and_fifties() -> None:
    """Both are followed within some ten events."""
    y = [0] * 800 + [50] * 60 + [0] * 400 + [50] * 60
    model = Model("regression", {"loss": "poisson"}, features={"a": "number"})
    p = model.learn_many([{"a": float(i % 7)} for i in range(len(y))], y).reshape(-1)
    assert p.max() <= 500
    for begin in (800, 1_260):
        assert abs(p[begin + 12 : begin + 60] - 50).max() < 10


@pytest.mark.parametrize("loss", ["absolute", "huber", "quantile"])
def test_codes_among_labels_of_robust_losses(loss: str) -> None:
    """One label in a hundred that stands for a missing one costs at most a tenth."""
    X, f = switched_line(6_000, 6)
    y = 10 + 3 * f
    bad = (np.random.default_rng(7).random(6_000) < 0.01) & (np.arange(6_000) > 1_000)
    coded = np.where(bad, 1e9, y)
    kept = ~bad & (np.arange(6_000) >= 3_000)
    clean, dirty = (abs(numbers(X, z, loss) - y)[kept].mean() for z in (y, coded))
    assert dirty < 1.1 * clean


@pytest.mark.parametrize(("factor", "offset"), [(1.8, 32.0), (-0.5, 900.0)])
def test_a_unit_that_changes(factor: float, offset: float) -> None:
    """From 500 events on the loss is within 1.3 times that of a model that begins at the change."""
    X, f = switched_line(12_000, 8)
    X[10_000:] = factor * X[10_000:] + offset
    y = (f > 0).astype(int)
    old, new = log_loss(X, y)[10_000:], log_loss(X[10_000:], y[10_000:])
    assert old[500:1_000].mean() < 1.3 * new[500:1_000].mean()
    assert old[1_000:].mean() < 1.3 * new[1_000:].mean()


@pytest.mark.parametrize(("delay", "most"), [(48, 0.44), (336, 0.498)])
def test_late_labels_are_no_worse_than_a_line(delay: int, most: float) -> None:
    """On Elec2 the answers are better than those of a scaled logistic regression, as late."""
    with gzip.open(ELEC2, "rt") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))[:20_000]
    y = np.array([row.pop("class") == "UP" for row in rows]).astype(int)
    events = [{name: float(value) for name, value in row.items()} for row in rows]
    model, p = Model(), np.full((len(y), 2), 0.5)
    for i in range(0, len(y), 24):
        due = slice(max(0, i - delay - 24), max(0, i - delay))
        model.learn_many(events[due], y[due].tolist())
        p[i : i + 24] = model.predict_proba_many(events[i : i + 24])

    assert -np.log(p[np.arange(len(y)), y])[2_000:].mean() < most
