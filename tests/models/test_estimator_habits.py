"""What users of other libraries expect of the estimators: class weights, importances, texts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kaboost
from kaboost import ModelError
from kaboost.models.adapters.class_weights import ClassWeights
from kaboost.models.adapters.to_river import Classifier as RiverClassifier
from tests.models.test_schema import TREES

LINEAR = {"bank": {"kind": "linear", "n": 5}, "epochs": 3}
BANK = {"bank": TREES}


def rare(n: int, seed: int) -> tuple[Any, Any]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 3))
    return X, np.where(X[:, 0] + r.normal(size=n) > 2.4, "rare", "usual")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [LINEAR, BANK])
@pytest.mark.parametrize("weight", ["balanced", {"rare": 20.0}])
def test_class_weights_raise_the_rare_class(seed: int, options: Any, weight: Any) -> None:
    """In one call and online, both of whose factors follow the labels."""
    X, y = rare(1_500, seed)
    found = y == "rare"
    shares = {}
    for name, given in (("plain", None), ("weighted", weight)):
        fitted = kaboost.Classifier(**options, class_weight=given).fit(X, y)
        online = kaboost.Classifier(**options, class_weight=given)
        for part in np.array_split(np.arange(1_500), 15):
            online.partial_fit(X[part], y[part], ["rare", "usual"])
        shares[name] = [(one.predict(X) == "rare")[found].mean() for one in (fitted, online)]

    assert all(w > p + 0.15 for w, p in zip(shares["weighted"], shares["plain"], strict=True))


def test_balanced_factors_do_not_depend_on_batches() -> None:
    """Each follows the labels before it, and its own."""
    codes = np.random.default_rng(2).integers(0, 3, 200)
    whole, parts = ClassWeights("balanced"), ClassWeights("balanced")
    expected = whole.learn(["a", "b", "c"], codes)
    found = [parts.learn(["a", "b", "c"], part) for part in np.array_split(codes, 17)]

    np.testing.assert_array_equal(expected, np.concatenate(found))
    counts = [np.bincount(codes[: k + 1], minlength=3) for k in range(200)]
    naive = [c.sum() / ((c > 0).sum() * c[code]) for c, code in zip(counts, codes, strict=True)]
    np.testing.assert_allclose(naive, expected)


@pytest.mark.parametrize("weight", ["even", 3, {"a": -1.0}, {"a": "much"}, {"a": float("inf")}])
def test_other_class_weights_are_refused(weight: Any) -> None:
    """By name, with the remedy."""
    with pytest.raises(ModelError, match="class_weight: "):
        ClassWeights(weight)


@pytest.mark.parametrize("weight", ["balanced", {True: 20.0}])
def test_class_weights_of_river(weight: Any) -> None:
    """Online, one event after the other; a copy goes on alike."""
    X, y = rare(1_500, 5)
    plain, weighted = RiverClassifier(slots=4), RiverClassifier(slots=4, class_weight=weight)
    for row, label in zip(X, y, strict=True):
        for one in (plain, weighted):
            one.learn_one({"a": row[0], "b": row[1]}, label == "rare")
    found = [
        np.mean([one.predict_one({"a": row[0], "b": row[1]}) is True for row in X[y == "rare"]])
        for one in (plain, weighted, copy.deepcopy(weighted))
    ]

    assert found[1] > found[0] + 0.15
    assert found[1] == found[2]


@pytest.mark.parametrize("estimator", [kaboost.Classifier(**BANK), kaboost.Regressor(**BANK)])
def test_importances_of_features(estimator: Any) -> None:
    """They are parts of one, and the column that decides has most; linear learners have none."""
    r = np.random.default_rng(1)
    X = r.normal(size=(2_000, 4))
    assert not hasattr(estimator, "feature_importances_")
    fitted = estimator.fit(X, (X[:, 2] > 0.0).astype(int))

    assert (4,) == fitted.feature_importances_.shape
    assert 2 == fitted.feature_importances_.argmax()
    np.testing.assert_allclose(1.0, fitted.feature_importances_.sum())
    linear = kaboost.Classifier(**LINEAR).fit(X, X[:, 2] > 0.0)
    with pytest.raises(AttributeError, match="feature_importances_: only trees"):
        _ = linear.feature_importances_


def shops(n: int, seed: int) -> tuple[Any, Any]:
    r = np.random.default_rng(seed)
    rate = r.beta(0.4, 0.4, 12)
    code = r.integers(0, 12, n)
    names = np.array([f"shop {k}" for k in range(12)], object)[code]
    frame = pd.DataFrame(
        {
            "shop": names,
            "amount": r.normal(size=n),
            "zip": pd.Categorical(code * 11 + 1000),
            "vip": r.random(n) < 0.5,
        }
    )
    frame.loc[::9, "shop"] = None
    return frame, (r.random(n) < rate[code]).astype(int)


@pytest.mark.parametrize("options", [LINEAR, BANK])
def test_columns_of_texts_are_categories(options: Any) -> None:
    """In frames and arrays of objects, in one call and in parts; unseen and missing names too."""
    X, y = shops(2_000, 3)
    fitted = kaboost.Classifier(**options).fit(X, y)
    online = kaboost.Classifier(**options)
    for part in np.array_split(np.arange(2_000), 10):
        online.partial_fit(X.iloc[part], y[part], [0, 1])
    array = kaboost.Classifier(**options).fit(X[["shop", "amount"]].to_numpy(object), y)

    assert ("category", "number", "category", "number") == fitted.kinds_
    assert ["shop", "amount", "zip", "vip"] == list(fitted.feature_names_in_)
    for one, rows in ((fitted, X), (online, X), (array, X[["shop", "amount"]].to_numpy(object))):
        assert one.score(rows, y) > 0.65
    odd = X.iloc[:3].assign(shop=["new", None, float("nan")])
    assert (3, 2) == fitted.predict_proba(odd).shape


def test_texts_of_a_regression() -> None:
    """Columns decide by the first call; a text where numbers were is refused by its column."""
    X, _ = shops(600, 1)
    y = X["shop"].map(lambda name: float(len(name)) if isinstance(name, str) else 0.0).to_numpy()
    regressor = kaboost.Regressor(**BANK).partial_fit(X, y)
    with pytest.raises(ValueError, match="X: 'much' in column amount is not a number"):
        regressor.predict(X.assign(amount="much"))
    with pytest.raises(ValueError, match="feature"):
        regressor.predict(X.drop(columns=["vip"]))
    assert np.isfinite(regressor.predict(X)).all()


def test_numbers_in_text_stay_numbers() -> None:
    """As everywhere in scikit-learn: arrays of objects that are numbers."""
    X = np.array([["1.5", 2.0], ["2.5", None]], object)
    fitted = kaboost.Regressor(**LINEAR).fit(X, [1.0, 2.0])
    assert fitted.kinds_ is None
