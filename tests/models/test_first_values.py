"""Inferred kinds follow the first values of a feature, whatever the very first one is."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost import Model, ModelError
from kaboost.models.features.evidence import FIRST_VALUES
from kaboost.models.features.number_codes import are_names, missing_code
from kaboost.models.features.readings import (
    DECLARED,
    INFERRED,
    MISSING_TEXTS,
    OPEN,
    UNREADABLE,
    reading,
)
from tests.boosters import array_bytes
from tests.models.test_schema import SPEC

MISSING = [None, *sorted(MISSING_TEXTS), " N/A ", "NaN", "None"]


def learned(values: list[Any], seed: int = 0, cut: int = 1_000) -> Model:
    """Return a model that has learned one feature and a clean one beside it."""
    r = np.random.default_rng(seed)
    rows = [{"x": value, "clean": float(r.normal())} for value in values]
    y = [int(row["clean"] > 0.0) for row in rows]
    model = Model("binary", SPEC)
    for first in range(0, len(rows), cut):
        model.learn_many(rows[first : first + cut], y[first : first + cut])
    return model


def numbers(n: int, seed: int) -> list[Any]:
    return np.random.default_rng(seed).normal(7.0, 3.0, n).round(3).tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "first",
    [
        ["N/A"],
        [""],
        [True],
        ["1,5"],
        ["bad", "worse"],
        ["null", "-", "?", "none"],
        ["x", True, "y"],
    ],
)
def test_numbers_after_dirty_values_are_numbers(first: list[Any], seed: int) -> None:
    """Nothing is refused, and the kind is that of the others."""
    clean = numbers(150, seed)
    model = learned([*first, *clean], seed)

    assert "number" == model.kinds["x"]
    assert len(first) + 150 == model.booster.progress.events
    assert {"x": 3.0, "clean": 0.1}.keys() == model.explain_one({"x": 3.0}).contributions.keys()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, "A", "B", 2, "C", "A"] * 20, "category"),
        ([3.5, "AB", "AC"] * 30, "category"),
        (["A", 1, 2, 3] * 30, "number"),
        ([True, False, True] * 30, "boolean"),
        ([True, 0, 1, False] * 30, "number"),
        (["on", True, False, True, True] * 3 + [True] * 40, "boolean"),
        ([1] + [True, False] * 120, "boolean"),
        (["PT", "N/A", "-"] * 30, "category"),
        ([2**60 + k % 5 for k in range(60)], "category"),
    ],
)
def test_the_majority_decides(values: list[Any], kind: str) -> None:
    """Texts that stand for a missing value have no say."""
    assert kind == learned(values).kinds["x"]


def test_a_corrected_feature_is_learned_as_if_it_had_been_clean() -> None:
    """The same predictions, but for the little that the first events taught."""
    r = np.random.default_rng(4)
    x = r.normal(size=3_000).round(4)
    y = (r.random(3_000) < 1 / (1 + np.exp(-4.0 * x))).astype(int).tolist()
    losses = []
    for first in ([], ["dirty", "dirtier"]):
        rows = [{"x": value} for value in [*first, *x.tolist()[len(first) :]]]
        p = Model("binary", SPEC).learn_many(rows, y)[1_000:, 1]
        chosen = np.where(np.array(y[1_000:]) == 1, p, 1 - p)
        losses.append(-np.log(chosen).mean())

    assert losses[1] < 1.05 * losses[0]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.sampled_from([1.5, 2, 0, True, False, "a", "b", "", "N/A", None, 2**55, 7e9]),
        min_size=30,
        max_size=120,
    ),
    st.integers(1, 60),
)
def test_no_trace_of_batches(values: list[Any], cut: int) -> None:
    """However the stream is cut, each byte is the same, and nothing is refused."""
    values = [*values, *[3.25] * 20]
    whole, parts = learned(values), learned(values, cut=cut)

    assert array_bytes(whole.to_arrays()) == array_bytes(parts.to_arrays())
    assert whole.describe() == parts.describe()


@pytest.mark.parametrize("at", [1, 3, 8, 60, 250])
def test_saved_in_between_and_continued(at: int, tmp_path: Any) -> None:
    """Evidence and corrected kinds are part of the file."""
    values = ["dirty", *numbers(5, 1), "x", *[10**9 + k * 7 % 50 for k in range(300)]]
    whole, first = learned(values), Model("binary", SPEC)
    r = np.random.default_rng(0)
    rows = [{"x": value, "clean": float(r.normal())} for value in values]
    y = [int(row["clean"] > 0.0) for row in rows]
    first.learn_many(rows[:at], y[:at])
    first.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    again.learn_many(rows[at:], y[at:])

    assert array_bytes(whole.to_arrays()) == array_bytes(again.to_arrays())
    assert whole.describe() == again.describe()


def test_after_its_first_values_a_kind_is_closed() -> None:
    """Another value is refused by name, and nothing of its batch is learned; but missing ones."""
    model = learned(numbers(FIRST_VALUES, 3))
    before = array_bytes(model.to_arrays())
    for row in ({"x": "dirty"}, {"x": [1]}):
        with pytest.raises(ModelError, match=r"features\.x: .* is not a number.*was inferred"):
            model.learn_one(row, 1)
    assert before == array_bytes(model.to_arrays())
    for value in MISSING:
        assert model.predict_proba_one({"x": value}) == model.predict_proba_one({})
    model.learn_many([{"x": value} for value in MISSING], [0] * len(MISSING))
    assert model.predict_proba_one({"x": True}) == model.predict_proba_one({"x": 1.0})


def test_many_misfits_keep_a_kind_open() -> None:
    """A column of errors that becomes numbers after 200 values is still one of numbers."""
    errors = [f"error {k % 30}" for k in range(150)]
    assert "number" == learned([*errors, *numbers(310, 2)]).kinds["x"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base", [5_000_000, 10**9, 2**53 - 1_000, 2**60, -(10**10)])
def test_whole_numbers_that_name_things_become_a_category(base: int, seed: int) -> None:
    """They are as good as texts; a later one is a name as well."""
    r = np.random.default_rng(seed)
    rate, code = r.beta(0.4, 0.4, 40), r.integers(0, 40, 4_000)
    y = (r.random(4_000) < rate[code]).astype(int)
    losses = []
    for name in (lambda k: f"m{k}", lambda k: base + k):
        model = Model("binary", SPEC)
        p = model.learn_many([{"merchant": name(int(k))} for k in code], y.tolist())
        assert "category" == model.kinds["merchant"]
        losses.append(-np.log(p[np.arange(1_000, 4_000), y[1_000:]]).mean())
        assert model.predict_proba_one({"merchant": name(3)}) != model.predict_proba_one({})

    assert losses[1] < 1.05 * losses[0]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (1_000.0 * np.arange(2_000.0, 2_200.0)[::-1] % 7e5 + 2e6, ""),  # round amounts
        (1.7e9 + 60.0 * np.arange(200.0), ""),  # times
        (np.repeat(1.7e9 + 86_400.0 * np.arange(20.0), 10)[::-1], ""),
        (np.tile([20261101.0, 20251224.0, 20260102.0], 60), ""),  # dates
        (np.tile([3.0, 1.0, 2.0], 60), ""),  # small
        (np.tile([1e9 + 3.5, 1e9 + 1.0], 60), ""),  # no whole numbers
        (np.tile([5e9 + 3.0, 5e9 + 1.0, 5e9 + 2.0], 60), "category"),
        (5e9 + np.random.default_rng(0).permutation(200), "unsure"),
    ],
)
def test_numbers_that_name_things(values: Any, found: str) -> None:
    """Large whole numbers in no order, that are no amounts, times or dates."""
    assert found == are_names(np.asarray(values, np.float64))


def test_identifiers_are_said() -> None:
    """Once, with the remedy."""
    values = (3e9 + np.random.default_rng(0).permutation(100_000)[:400]).astype(int).tolist()
    with pytest.warns(UserWarning, match=r'features\.x: .*features=\{"x": "category"') as said:
        model = learned(values, cut=90)
    assert (1, "number") == (len(said), model.kinds["x"])


@pytest.mark.parametrize("code", [-999.0, -200.0, 9999.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_far_number_that_comes_often_is_missing(code: float, seed: int) -> None:
    """From the moment that the first values show it; in predictions as well."""
    values = np.random.default_rng(seed).normal(12.0, 4.0, 260).round(1)
    values[5::9] = code
    model = learned(values.tolist())

    assert model.predict_proba_one({"x": code}) == model.predict_proba_one({})
    assert model.predict_proba_one({"x": 1.0}) != model.predict_proba_one({})


@pytest.mark.parametrize(
    "values",
    [
        [*range(100), -999, -999],  # too seldom
        [*np.linspace(-1_000, 1_000, 100), *[-999.0] * 10],  # among the others
        [*np.linspace(0, 100, 100), *[-1.0] * 10],  # near the others
        [0.0] * 50 + [-999.0] * 50,  # one other value
        [*range(100), *[-555.0] * 10],  # no usual code
    ],
)
def test_a_number_without_evidence_is_a_number(values: list[float]) -> None:
    """Seldom, near, or of no usual spelling."""
    assert np.isnan(missing_code(np.array(values, np.float64)))


@pytest.mark.parametrize(
    ("value", "name"),
    [(5411, "5411"), (5411.0, "5411"), (True, "true"), (False, "false"), (2**70, str(2**70)),
     (np.int64(7), "7"), (np.bool_(True), "true"), (-3, "-3"), (-0.0, "0"), ("7", "7")],
)  # fmt: skip
@pytest.mark.parametrize("bank", [SPEC, {"bank": "linear"}])
def test_a_declared_category_takes_whole_numbers_and_booleans_by_name(
    value: Any, name: str, bank: Any
) -> None:
    """They are the same value as their name, to the last bit."""
    models = [Model("binary", bank, {"c": "category"}) for _ in range(2)]
    for model, own in zip(models, (value, name), strict=True):
        model.learn_many([{"c": own}, {"c": "other"}] * 20, [1, 0] * 20)

    assert array_bytes(models[0].to_arrays()) == array_bytes(models[1].to_arrays())
    assert models[0].predict_proba_one({"c": name}) == models[1].predict_proba_one({"c": value})


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf"), [1], {"a": 1}])
def test_other_values_are_no_names(value: Any) -> None:
    """The sentence names the feature and what it takes."""
    with pytest.raises(ModelError, match=r"features\.c: .* is not a name; pass a text, a whole"):
        Model("binary", SPEC, {"c": "category"}).learn_one({"c": value}, 1)


@pytest.mark.parametrize(
    "codes", [pd.Categorical([101, 205, 101, None] * 60), pd.Categorical([True, False] * 120)]
)
def test_a_categorical_column_of_pandas_is_a_category(codes: Any) -> None:
    """Whatever its values are; they are found again by value and by name."""
    model = Model("binary", SPEC)
    model.learn_many(pd.DataFrame({"c": codes, "n": np.arange(240.0)}), [1, 0] * 120)
    first = codes[0]
    named = "true" if first == 1 else str(first)

    assert {"c": "category", "n": "number"} == model.kinds
    assert model.predict_proba_one({"c": first}) == model.predict_proba_one({"c": named})
    frame = pd.DataFrame({"c": codes[:1]})
    assert model.predict_proba_many(frame)[0, 1] == model.predict_proba_one({"c": named})[1]


def test_late_labels_of_rows_before_a_correction() -> None:
    """Rows that were predicted before a kind was corrected are learned as they were predicted."""
    model = Model("binary", SPEC)
    model.learn_many([{"c": "a", "x": "dirty", "n": 1.0}] * 2, [0, 1])
    early = [{"c": "a", "x": 2.0, "n": float(k)} for k in range(5)]
    model.predict_many(early)
    model.learn_many([{"c": "b", "x": float(k), "n": 0.0} for k in range(30)], [0, 1] * 15)
    assert "number" == model.kinds["x"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (5, 2) == model.learn_many(early, [0, 1, 0, 1, 0]).shape


def test_readings_by_sureness() -> None:
    """A declared kind is strict, an inferred one reads what loses nothing, an open one all."""
    cases: list[tuple[Any, str, list[Any]]] = [
        ("x", "number", [UNREADABLE, UNREADABLE, None]),
        (True, "number", [UNREADABLE, 1.0, 1.0]),
        (1, "boolean", [UNREADABLE, True, True]),
        (7, "boolean", [UNREADABLE, UNREADABLE, None]),
        (0.5, "category", [UNREADABLE, "0.5", "0.5"]),
        ("N/A", "boolean", [None, None, None]),
        ("N/A", "category", ["N/A", "N/A", "N/A"]),
        ([1], "number", [UNREADABLE] * 3),
        ("", "datetime", [UNREADABLE] * 3),
    ]
    for value, kind, expected in cases:
        assert expected == [reading(value, kind, sure) for sure in (DECLARED, INFERRED, OPEN)]
