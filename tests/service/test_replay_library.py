"""`kaboost.replay`, and the frames of other libraries that `Model` and the estimators take."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kaboost
from kaboost import Classifier, Model, ModelError, Regressor
from kaboost.service.errors import ConfigError
from tests.service.replays import rows

EVENTS = 400
SPEC = {"rule": "sgb", "bank": {"kind": "linear", "n": 4, "step": "sgd", "lr": 0.1}}
KINDS = {"amount": "number", "country": "category", "vip": "boolean"}
TABLE = [{k: v for k, v in row.items() if k != "order"} for row in rows(EVENTS)]
X = [{k: row[k] for k in KINDS} for row in TABLE]
Y = [row["fraud"] for row in TABLE]


def model() -> Model:
    """A small model of these rows."""
    return Model("binary", SPEC, KINDS)


FRAMES = {
    "pandas": pd.DataFrame(TABLE),
    "polars": pl.DataFrame(TABLE),
    "pyarrow": pa.Table.from_pylist(TABLE),
    "generator": (dict(row) for row in TABLE),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_replay_of_frames(kind: str) -> None:
    """Frames and iterables of dicts give one result: what `learn_many` predicted."""
    twin = model()
    p = twin.learn_many(X, Y)[np.arange(EVENTS), Y]
    given = model()
    result = kaboost.replay(FRAMES[kind], given, label="fraud", slices=["country"])

    assert result.loss == pytest.approx(float(-np.log(p).mean()), rel=1e-6)
    assert (EVENTS, EVENTS) == (result.events, result.to_frame().index[-1])
    assert result.model is given
    assert given.observer is None
    assert given.to_arrays().keys() == twin.to_arrays().keys()
    for name, array in twin.to_arrays().items():
        np.testing.assert_array_equal(given.to_arrays()[name], array, err_msg=name)


def test_labels_apart_and_task() -> None:
    """Labels may be passed apart; without a model the first labels decide about the task."""
    prices = [3.5 * row["amount"] for row in TABLE]
    result = kaboost.replay(X, SPEC | {"bank": {"kind": "reboosted_trees"}}, y=prices)
    words = kaboost.replay([{"x": k % 3} for k in range(90)], y=["abc"[k % 3] for k in range(90)])

    assert "regression" == result.figures["task"]
    assert result.loss < result.losses["prior"]
    assert ["a", "b", "c"] == words.figures["classes"]
    assert "Result(400 events" in repr(result)
    assert "<table>" in result._repr_html_()
    assert result.plot().axes


def test_what_replay_refuses() -> None:
    """A label that is no column, labels twice, no rows, an unknown other model or slice."""
    with pytest.raises(ModelError, match="label: a row has no 'froud'; did you mean 'fraud'"):
        kaboost.replay(TABLE, model(), label="froud")
    with pytest.raises(ModelError, match="label, y: pass the name of a column, or the labels"):
        kaboost.replay(TABLE, model(), label="fraud", y=Y)
    with pytest.raises(ModelError, match="rows: there are none"):
        kaboost.replay([], model(), label="fraud")
    with pytest.raises(ConfigError, match="--against catboost"):
        kaboost.replay(TABLE, model(), label="fraud", against="catboost")
    with pytest.raises(ConfigError, match="--slice town: is no feature"):
        kaboost.replay(TABLE, model(), label="fraud", slices=["town"])


def test_times_make_spans() -> None:
    """A column of times is no feature."""
    timed = [{**row, "at": f"2026-11-{1 + k % 9:02d}"} for k, row in enumerate(TABLE)]
    result = kaboost.replay(timed, model(), label="fraud", timestamp="at")

    assert 9 == len({row["from"][:10] for row in result.figures["by_time"]})


@pytest.mark.parametrize("frame", [pl.DataFrame(X), pa.Table.from_pylist(X), pd.DataFrame(X)])
def test_model_takes_frames(frame: object) -> None:
    """Rows of polars, pyarrow and pandas are the rows of dicts, learned and predicted."""
    expected, given = model(), model()
    expected.learn_many(X, Y)
    labels = pa.chunked_array([Y]) if isinstance(frame, pa.Table) else pl.Series(Y)
    given.learn_many(frame, labels)

    np.testing.assert_array_equal(expected.predict_proba_many(X), given.predict_proba(frame))
    np.testing.assert_array_equal(expected.predict_many(X), given.predict(frame))


def test_model_takes_a_series() -> None:
    """One row may be a Series of pandas; what it lacks is missing."""
    fitted = model().fit(X, Y)
    row = pd.Series({"amount": 1.5, "country": "DE", "vip": np.nan})
    alike = {"amount": 1.5, "country": "DE"}

    assert fitted.predict_proba_one(alike) == fitted.predict_proba_one(row)
    fitted.learn_one(row, 1)
    assert EVENTS + 1 == fitted.progress.events


def test_fit_begins_again() -> None:
    """`fit` forgets what was learned; the features that were inferred are inferred again."""
    inferred = Model("binary")
    inferred.fit([{"old": 1.0}] * 30, [0, 1] * 15)
    inferred.fit(X, Y)

    assert KINDS == inferred.kinds
    assert EVENTS == inferred.progress.events
    html = inferred._repr_html_()
    assert "400" in html
    assert "amount" in html


def test_fit_keeps_learned_classes_open() -> None:
    """A model that learns its classes learns them again."""
    grown = Model("multiclass", labels="auto").fit(
        [{"x": k % 2} for k in range(40)], ["a", "b"] * 20
    )
    grown.fit([{"x": k % 2} for k in range(40)], ["c", "d"] * 20)

    assert ("c", "d") == grown.classes_


@pytest.mark.parametrize("make", [pl.DataFrame, pa.Table.from_pylist, pd.DataFrame])
def test_estimators_take_frames(make: object) -> None:
    """Estimators take columns of texts of any library, with names and importances."""
    frame = make(X)  # type: ignore[operator]
    classifier = Classifier().fit(frame, Y)
    regressor = Regressor().fit(frame, [float(v) for v in Y])

    assert list(KINDS) == classifier.feature_names_in_.tolist()
    assert "amount" == classifier.feature_names_in_[classifier.feature_importances_.argmax()]
    assert (EVENTS, 2) == classifier.predict_proba(frame).shape
    assert (EVENTS,) == regressor.predict(frame).shape


def test_frames_need_narwhals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without narwhals a frame of polars is refused with the command to install it."""
    monkeypatch.setitem(__import__("sys").modules, "narwhals", None)

    with pytest.raises(ModelError, match=r"polars\.DataFrame needs narwhals; pip install"):
        model().predict_many(pl.DataFrame(X))
