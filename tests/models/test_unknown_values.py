"""What the model was never taught the meaning of is answered as the mean over likely values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost import Model
from kaboost.models.reboosted import imputation as module
from kaboost.models.reboosted.imputation import SAMPLED, average, observe_row
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS, NUMBERS

KINDS = {"x": "number", "z": "number", "c": "category"}


def events(n=3_000, seed=0, base=0.3):
    """Rows of two numbers and a category, and a class that all of them decide."""
    r = np.random.default_rng(seed)
    x, z, c = r.normal(size=n), r.normal(size=n), r.integers(0, 3, size=n)
    log_odds = math.log(base / (1 - base)) + 2 * x + z + np.array([-3.0, 0.0, 3.0])[c]
    y = (r.random(n) < 1 / (1 + np.exp(-2 * log_odds))).astype(int)
    rows = [
        {"x": float(a), "z": float(b), "c": ["red", "green", "blue"][k]}
        for a, b, k in zip(x, z, c, strict=True)
    ]
    return rows, y.tolist()


@pytest.fixture(scope="module")
def model():
    """A model that saw no row without a value."""
    made = Model(features=KINDS)
    made.learn_many(*events())
    return made


@pytest.mark.parametrize("base", [0.5, 0.25])
def test_two_values_and_a_third(base):
    """A category that decides all: a value never seen and a missing one are the base rate."""
    r = np.random.default_rng(4)
    known = r.random(4_000) < base
    model = Model(features={"c": "category"})
    model.learn_many([{"c": "A" if k else "B"} for k in known], known.astype(int).tolist())

    for row in ({"c": "zzz"}, {"c": None}, {}):
        assert abs(model.predict_proba_one(row)[1] - base) < 0.2
    assert model.predict_proba_one({"c": "A"})[1] > 0.95


def test_nothing_known_is_the_base_rate(model):
    """Without any feature, the answer is the share of the class."""
    y = events()[1]
    assert abs(model.predict_proba_one({})[1] - np.mean(y)) < 0.15


@pytest.mark.parametrize("name", ["x", "z", "c"])
def test_the_rest_still_counts(model, name):
    """Rows that lack one feature are answered as the mean over its values, given the others."""
    rows, _ = events(400, seed=1)
    full = model.predict_proba_many(rows)[:, 1]
    lacking = [{k: v for k, v in row.items() if k != name} for row in rows]
    answers = model.predict_proba_many(lacking)[:, 1]

    assert np.corrcoef(full, answers)[0, 1] > 0.5
    seen = events(600)[0][::10]
    expected = [model.predict_proba_many([{**row, name: s[name]} for s in seen])[:, 1].mean()
                for row in rows[:20]]  # fmt: skip
    np.testing.assert_allclose(answers[:20], expected, atol=0.2)


def test_what_is_often_missing_is_learned():
    """Where a value is missing for a reason, trees know it."""
    rows, y = events()
    for row, label in zip(rows, y, strict=True):
        if label and row["x"] > 0.0:
            del row["x"]
    model = Model(features=KINDS)
    model.learn_many(rows, y)

    assert model.predict_proba_one({"z": 0.0, "c": "green"})[1] > 0.9


def test_progressive_loss_is_that_of_the_answer(model):
    """`learn_many` returns for a row with an unknown value what `predict` answered before."""
    rows, y = events(200, seed=2)
    del rows[40]["x"], rows[90]["c"]
    rows[120]["c"] = "violet"
    one, many = Model(features=KINDS), Model(features=KINDS)
    for each in (one, many):
        each.learn_many(*events(1_000))
    learned = many.learn_many(rows, y)
    for k in (40, 90, 120):
        before = Model(features=KINDS)
        before.learn_many(*events(1_000))
        before.learn_many(rows[:k], y[:k])
        expected = before.predict_proba_many([rows[k]])[0]
        np.testing.assert_array_equal(learned[k], expected)


def test_any_batching_learns_the_same():
    """Rows with unknown values leave the same bytes, whatever comes with them in a batch."""
    rows, y = events(400, seed=3)
    for k in range(70, 400, 30):
        del rows[k]["x"]
    whole, parts = Model(features=KINDS), Model(features=KINDS)
    whole.learn_many(rows, y)
    for first in range(0, 400, 37):
        parts.learn_many(rows[first : first + 37], y[first : first + 37])

    for name, array in whole.to_arrays().items():
        np.testing.assert_array_equal(array, parts.to_arrays()[name], err_msg=name)


def test_explanations_add_up(model):
    """Those of a row with an unknown value too, and the unknown value says little."""
    row = {"x": 2.0, "z": 0.0}
    reason = model.explain_one(row)
    known = model.explain_one({**row, "c": "blue"})
    parts = sum(reason.contributions.values()) + sum(reason.label_lags.values())

    assert math.isclose(reason.base + parts, reason.score, abs_tol=1e-9)
    assert abs(reason.contributions["c"]) < abs(known.contributions["c"])


def test_snapshots_answer_the_same(model):
    """The arrays that serve are enough."""
    arrays = {k: v.copy() for k, v in model.serving_arrays().items()}
    served = Model.from_arrays(model.describe(), arrays)
    for row in ({}, {"x": 1.0}, {"x": 1.0, "z": 0.0, "c": "violet"}):
        assert served.predict_proba_one(row) == model.predict_proba_one(row)


@given(st.lists(st.floats(-24, 24), min_size=1, max_size=20))
@settings(derandomize=True, deadline=None)
def test_average_lies_between(scores):
    """The mean of predictions is the prediction of a score between the least and the largest."""
    s = np.array(scores)
    least, most = s.min(), s.max()
    for link in (NUMBERS, LOG_ODDS, LOGARITHMS):
        assert least - 1e-4 <= average(s, link) <= most + 1e-4


@pytest.mark.parametrize("period", [2, 3, 64])
def test_sample_has_no_period(period):
    """Of a stream that repeats, every part is sampled; the sample follows the stream."""
    made = module.imputation(1)
    for t in range(40_000):
        observe_row(made, np.zeros(1), np.array([float(t)]), t)
    rows = made.rows[:, 0]

    assert len(set(rows)) == SAMPLED
    assert rows.min() > 0
    assert len(set(rows % period)) > min(period, 64) / 2.5
