"""A label that is wrong by orders of magnitude costs the default model next to nothing, whenever it
comes; a stream that goes elsewhere for good is followed all the same.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

import kaboost
from kaboost import Model
from kaboost.models.features.label_outliers import FIRST_LABELS, replace_outliers
from tests.boosters import array_bytes

KINDS = {"a": "number", "h": "number", "c": "category", "new": "boolean"}
EVENTS = 3000


def rows(n: int) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Draw events, a tenth of which lack their category, and what to expect of them."""
    r = np.random.default_rng(1)
    drawn = zip(r.lognormal(3, 1, n), r.integers(0, 10, n), r.integers(0, 4, n), strict=True)
    X = [{"a": float(a), "h": int(h), "c": "wxyz"[c], "new": bool(h % 3)} for a, h, c in drawn]
    for x in X:
        if r.random() < 0.1:
            x["c"] = None
    return X, np.array([x["a"] + 3.0 * x["h"] for x in X]) + r.normal(0, 2, n)


@pytest.fixture(scope="module")
def errors() -> Any:
    """Give the mean absolute errors on whole rows and on rows of two features, and how many labels
    of the latter lie in their 90 % intervals, after one event of two features.
    """

    @cache
    def guarded(label: float, at: int) -> tuple[float, float, float]:
        X, y = rows(EVENTS + 500)
        model = Model("regression", features=KINDS)
        model.learn_many(X[:at], y[:at])
        model.learn_one({"a": 20.0, "h": 2}, label)
        model.learn_many(X[at:EVENTS], y[at:EVENTS])
        X, y = X[EVENTS:], y[EVENTS:]
        short = [{"a": x["a"], "h": x["h"]} for x in X]
        whole, part = (
            float(abs(np.asarray(model.predict_many(each)) - y).mean()) for each in (X, short)
        )
        bounds = model.predict_interval_many(short, 0.9)
        return whole, part, float(np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1])))

    return guarded


@pytest.mark.parametrize("wrong", [-1e4, 1e6, 1e300])
@pytest.mark.parametrize("at", [0, 10, FIRST_LABELS, 60, 2000])
def test_one_wrong_label_costs_little(errors: Any, wrong: float, at: int) -> None:
    """Neither where all is told of an event nor where as little is as of the wrong one."""
    right = errors(26.0, at)
    whole, part, held = errors(wrong, at)

    assert whole < 1.3 * right[0]
    assert part < 1.3 * right[1]
    assert right[2] - 0.15 < held


def test_one_far_label_changes_no_mind() -> None:
    """Where there is no noise, a label off by 150 usual errors neither sounds the alarm nor throws
    the stack: the next answers are off by two or three times the usual, not by twenty.
    """
    n, off = 20_000, {0.0: [], 20.0: []}
    for seed in range(4):
        X = np.random.default_rng(seed).standard_normal((n + 21, 4))
        y = 2.0 * X[:, 0] + X[:, 1] * X[:, 2]
        for far, errors in off.items():
            booster = kaboost.build({"bank": "reboosted_trees", "loss": "squared", "seed": seed}, 4)
            given = y + far * (np.arange(len(y)) == n)
            errors.append(abs(kaboost.learn_many(booster, X, given)[:, 0] - given)[n + 1 :])

            assert booster.trees.schedule.drift_at == booster.trees.schedule.warning_at == 0

    assert np.mean(off[20.0]) < 4.0 * np.mean(off[0.0])


@pytest.mark.parametrize("loss", ["squared", "absolute", "poisson"])
def test_batches_cut_anywhere(loss: str) -> None:
    """The first labels are looked at together whatever the batches, and events of weight 0 are not
    among them.
    """
    X, y = rows(60)
    y, w = abs(y), np.ones(60)
    y[[3, 30]], w[[0, 5, 21]] = 1e9, 0.0
    models = [Model("regression", {"loss": loss}, KINDS) for _ in range(3)]
    for model, size in zip(models, (1, 7, 60), strict=True):
        for k in range(0, 60, size):
            model.learn_many(X[k : k + size], y[k : k + size], w[k : k + size])

    arrays = [array_bytes(model.to_arrays()) for model in models]
    assert arrays[0] == arrays[1] == arrays[2]


@pytest.mark.parametrize("jump", [100.0, 1e5, -1e9])
def test_new_level_is_followed(jump: float) -> None:
    """Labels that go on being far are none that are wrong."""
    r = np.random.default_rng(2)
    X = [{"a": float(a)} for a in r.normal(size=1000)]
    y = np.array([x["a"] for x in X]) + 0.1 * r.normal(size=1000)
    y[600:] += jump
    model = Model("regression", features={"a": "number"})
    model.learn_many(X, y)

    assert abs(model.predict_one({"a": 0.0}) - jump) < 0.02 * abs(jump)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0.0] * 19 + [5.0], None),  # nobody can say
        ([0.0] * 17 + [1.0, 2.0, 1e9], [0.0] * 17 + [1.0, 2.0, 0.0]),
        ([*range(19), 1e30], [*range(19), 10.0]),
        ([-1e30, *range(18), 1e9], [9.0, *range(18), 9.0]),
        ([*range(10), *range(10**6, 10**6 + 10)], [1e6] * 10 + [*range(10**6, 10**6 + 10)]),
        ([2.0**k for k in range(7)] + [0.0] * 13, None),
        ([7.0] * 20, None),
    ],
)
def test_far_among_the_first(labels: list[float], expected: list[float] | None) -> None:
    """What is far beyond all others is put where most are."""
    given = np.array(labels, float)

    assert (expected is not None) == replace_outliers(given)
    assert (labels if expected is None else expected) == given.tolist()
