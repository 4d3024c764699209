"""Labels that come late to a `Model`: what was predicted is remembered and taught."""

import copy
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kaboost import Model, ModelError
from kaboost.models.features import predicted_rows
from kaboost.models.types import Mat
from tests.boosters import array_bytes
from tests.models.number_streams import regimes
from tests.specs import LINEAR

NUMBERS = {"a": "number", "b": "number"}


def two_regimes(n: int) -> tuple[list[dict[str, Any]], list[int]]:
    """Draw rows of `regimes`: the last labels tell the next, if they are known."""
    X, y = regimes(n, 2, seed=4)
    return [{"a": float(a), "b": float(b)} for a, b in X], y.astype(int).tolist()


def served(rows: list[dict[str, Any]], y: list[int], late: int, step: int = 20) -> Mat:
    """Predict rows step by step, and learn each `late` rows later; return probabilities."""
    model, answers = Model(features=NUMBERS), []
    for first in range(0, len(y), step):
        due = first - late - step
        if due >= 0:
            model.learn_many(rows[due : due + step], y[due : due + step])
        answers.append(model.predict_proba_many(rows[first : first + step]))
    return np.concatenate(answers)


def log_loss(probabilities: Mat, y: list[int]) -> float:
    """Return the mean log-loss from the 1,500th row on."""
    return float(-np.log(probabilities[np.arange(len(y)), y])[1500:].mean())


def test_late_labels_make_nothing_overconfident() -> None:
    """Rows that were predicted 300 rows before their label hardly lose more than the prior."""
    rows, y = two_regimes(6000)

    answers = served(rows, y, late=300)

    assert log_loss(answers, y) < 1.07 * np.log(2.0)
    sure = answers.max(axis=1)[1500:] > 0.98
    wrong = answers.argmax(axis=1)[1500:] != np.array(y[1500:])
    assert wrong[sure].sum() <= 0.03 * max(sure.sum(), 100)


def test_a_given_delay_is_learned_alike() -> None:
    """With `delay` the answers of one call are as those of a loop that waits for the labels."""
    rows, y = two_regimes(6000)
    model = Model(features=NUMBERS)

    answers = model.learn_many(rows, y, delay=300)

    assert len(answers) == 6000 == int(model.booster.progress.events)
    assert log_loss(answers, y) == pytest.approx(log_loss(served(rows, y, late=300), y), abs=0.02)
    assert log_loss(Model(features=NUMBERS).learn_many(rows, y), y) < 0.6 * log_loss(answers, y)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_labels_at_once_leave_the_same_bytes(task: str) -> None:
    """A prediction right before its label changes nothing, and none changes the state."""
    labels = {"binary": None, "multiclass": ["0", "1", "2"], "regression": None}[task]
    features = NUMBERS | {"c": "category"}
    rows, y = two_regimes(400)
    rows = [row | {"c": "pqr"[k % 3]} for k, row in enumerate(rows)]
    chosen: list[Any] = [str(k) for k in y] if labels else y
    asked, silent = (Model(task, None, features, labels) for _ in range(2))
    for first in range(0, 400, 16):
        part = slice(first, first + 16)
        before = array_bytes(asked.to_arrays())
        expected = asked.predict_many(rows[part])
        assert array_bytes(asked.to_arrays()) == before
        assert expected.tobytes() == silent.predict_many(rows[part]).tobytes()
        asked.learn_many(rows[part], chosen[part])
        silent.learn_many(rows[part], chosen[part])

    assert array_bytes(silent.to_arrays()) == array_bytes(asked.to_arrays())


def test_answers_that_were_given_are_returned() -> None:
    """What `learn_many` returns for a late label is the prediction that was made."""
    rows, y = two_regimes(300)
    model = Model(features=NUMBERS)
    model.learn_many(rows[:100], y[:100])
    given = model.predict_proba_many(rows[100:120])
    model.learn_many(rows[200:], y[200:])

    mixed = model.learn_many([*rows[150:160], *rows[100:120]], [*y[150:160], *y[100:120]])

    np.testing.assert_array_equal(mixed[10:], given)
    assert len(model._predicted_rows) == 0


def test_equal_rows_are_learned_in_their_order() -> None:
    """Of two predictions of equal rows the first label belongs to the first."""
    rows, y = two_regimes(200)
    model, same = Model(features=NUMBERS), {"a": 0.5, "b": 0.5}
    model.learn_many(rows[:50], y[:50])
    first = model.predict_proba_many([same])
    model.learn_many(rows[50:100], y[50:100])
    second = model.predict_proba_many([same])
    model.learn_many(rows[100:], y[100:])

    assert first.tobytes() != second.tobytes()
    assert model.learn_many([same], [1]).tobytes() == first.tobytes()
    assert model.learn_many([same], [0]).tobytes() == second.tobytes()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest predictions are forgotten, within one call too."""
    monkeypatch.setattr(predicted_rows, "MAX_ROWS", 30)
    rows, y = two_regimes(200)
    model = Model(features=NUMBERS)
    model.learn_many(rows[:50], y[:50])
    whole = model.predict_proba_many(rows)

    assert len(model._predicted_rows) == 30
    model.learn_many(rows[:10], y[:10])
    np.testing.assert_array_equal(model.learn_many(rows[170:], y[170:]), whole[170:])
    assert len(model._predicted_rows._of_key) == 0


def test_a_frame_and_inferred_features_may_be_late() -> None:
    """Columns of a DataFrame join while labels are waited for."""
    draw = np.random.default_rng(2)
    frame = pd.DataFrame({"a": draw.normal(size=600), "c": draw.choice(["x", "y"], 600)})
    y = ((frame["a"] > 0) ^ (frame["c"] == "x")).astype(int).to_numpy()
    model = Model()

    answers = model.learn_many(frame, y, delay=40)

    assert model.kinds == {"a": "number", "c": "category"}
    assert (answers.argmax(axis=1) == y)[300:].mean() > 0.7


def test_published_systems_answer_without_the_labels_that_are_late() -> None:
    """Before the first label all answers are alike."""
    rows, y = two_regimes(80)
    model, at_once = (Model(spec=LINEAR, features=NUMBERS) for _ in range(2))

    late, usual = model.learn_many(rows, y, delay=30), at_once.learn_many(rows, y)

    assert (late[:30] == late[0]).all()
    assert not (usual[:30] == usual[0]).all()
    assert int(model.booster.progress.events) == 80


@pytest.mark.parametrize("delay", [-1, 1.5, True, "two", predicted_rows.MAX_ROWS + 1])
def test_a_delay_that_is_none_is_refused(delay: Any) -> None:
    """The message names the value and the bounds; nothing is learned."""
    model = Model(features=NUMBERS)
    with pytest.raises(ModelError, match=rf"delay: {delay!r} is not a whole number from 0 to"):
        model.learn_many(*two_regimes(5), delay=delay)

    assert int(model.booster.progress.events) == 0


def test_threads_may_predict_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the memory of predictions is full, and copies are made meanwhile."""
    monkeypatch.setattr(predicted_rows, "MAX_ROWS", 20)
    rows, y = two_regimes(60)
    model = Model(spec=LINEAR, features=NUMBERS)
    model.learn_many(rows, y)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            wanted = [pool.submit(model.predict_proba_many, rows[k % 40 :][:9]) for k in range(600)]
            copies = [copy.deepcopy(model) for _ in range(5)]
            answers = [one.result() for one in wanted]
    finally:
        sys.setswitchinterval(interval)

    np.testing.assert_array_equal(answers[0], copies[0].predict_proba_many(rows[:9]))
    for each in (model, *copies):
        each.learn_many(rows, y)
        assert len(each._predicted_rows) <= 20
