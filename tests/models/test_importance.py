"""Importance against what shuffling a feature costs."""

import numpy as np
import pytest

from bench.importance import correlation
from kaboost import Model

TASKS = ("binary", "regression", "multiclass")


@pytest.mark.parametrize("task", TASKS)
def test_it_agrees_with_permutation(task: str) -> None:
    """On a stream of numbers, categories and booleans with effects from none to strong."""
    assert correlation(task, seed=1) >= 0.9


@pytest.mark.parametrize("task", TASKS)
def test_ten_streams_agree_with_permutation(task: str) -> None:
    """Where several features have hardly any effect, their order is chance: on average it holds."""
    assert np.mean([correlation(task, seed) for seed in range(10)]) >= 0.9


def test_two_columns_that_cancel_have_no_importance() -> None:
    """A weak category stays behind a strong number, whatever the weights of its two columns."""
    r = np.random.default_rng(3)
    amounts, shops = r.normal(size=6000), r.integers(0, 30, 6000)
    labels = (amounts + 0.2 * (shops % 2) + r.logistic(size=6000) * 0.5 > 0.0).tolist()
    rows = [{"amount": a, "shop": f"s{s}"} for a, s in zip(amounts.tolist(), shops, strict=True)]
    model = Model("binary", features={"amount": "number", "shop": "category"})
    model.learn_many(rows, labels)

    shares = {share.name: share.share for share in model.importance()}

    assert shares["amount"] > 0.8
    assert shares["shop"] < 0.1
