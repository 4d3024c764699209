"""Labels that come later: events are learned as they were predicted, and what is served is as sure
as it was right.
"""

from typing import Any

import numpy as np
import pytest

from kaboost.models.features.columns import Columns
from kaboost.models.features.onehot import Encoder, Table, slice_table
from kaboost.models.model import Model
from kaboost.models.reboosted.late_mixture import late_mixture, score_late
from kaboost.models.table_model import Captured
from kaboost.models.types import Mat, Vec
from tests.boosters import array_bytes
from tests.models.number_streams import regimes
from tests.specs import LINEAR

SCHEMA = {"x": "number", "y": "number", "colour": "category"}
COLOURS = ["red", "green", "blue", None]


def table(n: int, seed: int = 0) -> Table:
    draw = np.random.default_rng(seed)
    colours = [COLOURS[k] for k in draw.integers(0, 4, n)]
    return Table(draw.normal(size=(n, 2)), np.empty((n, 0)), [colours])


def part(whole: Table, k: int) -> Table:
    numbers, booleans, (colours,), *_ = whole
    return Table(numbers[k : k + 1], booleans[k : k + 1], [colours[k : k + 1]])


def joined(parts: list[Captured]) -> Captured:
    return Captured(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def test_a_linear_model_learns_the_same_whenever_the_label_comes() -> None:
    """Without categories nothing depends on when the label came: the bytes are the same."""
    whole = Table(table(50).numbers, np.empty((50, 0)), [])
    y, w = np.arange(50) % 2.0, np.ones(50)
    schema = {"x": "number", "y": "number"}
    at_once, late = Model("binary", LINEAR, schema), Model("binary", LINEAR, schema)

    at_once.learn(whole, y, w)
    late.learn_captured(late.capture(whole), y, w)

    assert array_bytes(at_once.to_arrays()) == array_bytes(late.to_arrays())


@pytest.mark.parametrize("kind", [Columns, Encoder])
def test_an_encoder_learns_the_same_in_two_steps(kind: type[Encoder]) -> None:
    """What needs no label is learned with the features, the rest with the label."""
    whole, y, one = table(60), np.arange(60) % 2.0, np.ones(1)
    at_once, late = kind(SCHEMA), kind(SCHEMA)
    for k in range(60):
        expected = at_once.learn_many(part(whole, k), one, y[k : k + 1])
        X, codes = late.capture(part(whole, k))
        late.learn_labels(X, codes, one, y[k : k + 1], np.full(1, float(k)))
        if kind is Columns:  # a one-hot column of a new value is set from the next event on
            np.testing.assert_array_equal(X, expected)

    for ours, theirs in zip(late.state, at_once.state, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def prequential(x: Mat, y: Vec, delay: int, *, capture: bool, step: int = 25) -> Vec:
    """Return the probability of every label as it was served, with labels `delay` events late."""
    model = Model("binary", features=dict.fromkeys("abc", "number"))
    served, waiting = np.empty(len(y)), []
    for first in range(0, len(y), step):
        rows = Table(x[first : first + step], np.empty((step, 0)), [])
        due = first - delay - step
        if due >= 0 and capture:
            model.learn_captured(waiting.pop(0), y[due : due + step], np.ones(step))
        elif due >= 0:
            before = Table(x[due : due + step], np.empty((step, 0)), [])
            model.learn(before, y[due : due + step], np.ones(step))
        if capture:
            waiting.append(model.capture(rows))
        scores = waiting[-1].scores if capture else model.predict(rows)
        served[first : first + step] = model.predictions(scores)[:, 1]
    return np.where(y == 1.0, served, 1.0 - served)


@pytest.fixture(scope="module")
def streams() -> Any:
    return regimes(6000, 3, seed=3)


def test_late_labels_make_nothing_overconfident(streams: tuple[Mat, Vec]) -> None:
    """Late events lose hardly more than the prior; learned as if at once they lose far more."""
    x, y = streams

    ours = prequential(x, y, 300, capture=True)[1500:]
    naive = prequential(x, y, 300, capture=False)[1500:]

    prior = -np.log(np.clip(y.mean(), 0.01, 0.99)) * y.mean() - np.log(1 - y.mean()) * (
        1 - y.mean()
    )
    assert -np.log(ours).mean() < 1.07 * prior
    assert -np.log(naive).mean() > 1.3 * prior  # the fault that is mended
    sure = np.maximum(ours, 1.0 - ours) > 0.98
    assert (ours[sure] < 0.5).sum() <= 0.03 * max(sure.sum(), 100)


def test_labels_at_once_are_learned_as_before(streams: tuple[Mat, Vec]) -> None:
    """With a delay of one batch capturing is hardly worse than learning at once."""
    x, y = streams

    ours = -np.log(prequential(x, y, 0, capture=True)[1500:]).mean()
    usual = -np.log(prequential(x, y, 0, capture=False)[1500:]).mean()

    assert ours < usual + 0.03


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_every_task_learns_late_labels(task: str) -> None:
    """Several classes and numbers are learned from captured events, features added meanwhile."""
    labels = ["a", "b", "c"] if task == "multiclass" else None
    model = Model(task, LINEAR if task == "multiclass" else None, SCHEMA, labels)
    whole, w = table(300), np.ones(300)
    target = np.digitize(whole.numbers[:, 0], [-0.5, 0.5]).astype(np.float64)

    losses = []
    for k in range(0, 300, 50):
        rows = Table(
            whole.numbers[k : k + 50], np.empty((50, 0)), [list(whole.categories[0][k : k + 50])]
        )
        outcome = model.learn_captured(model.capture(rows), target[k : k + 50], w[:50])
        losses.append(outcome.losses.mean())

    assert losses[-1] < losses[0]
    assert int(model.booster.progress.events) == 300


def test_features_that_were_added_meanwhile_are_missing() -> None:
    """A captured row is learned with the columns that it had."""
    model = Model("binary", features="auto")
    model.learn_many([{"x": 1.0, "c": "a"}], [1])
    names = len(model.encoder.columns)
    captured = model.capture(Table(np.ones((1, 1)), np.empty((1, 0)), [["a"]]))
    model.learn_many([{"x": 1.0, "c": "b", "z": 3.0, "d": "u"}], [0])

    outcome = model.learn_captured(captured, np.ones(1), np.ones(1))

    assert names == captured.X.shape[1] < len(model.encoder.columns)
    assert outcome.scores.tobytes() == captured.scores.tobytes()


def test_labels_of_one_class_may_come_later_than_those_of_the_other() -> None:
    """What was known at a prediction then tells the class of learned rows; it must not be learned.

    Positives come 1,000 events late and negatives 1,600. The model is nearly as good as one that
    had every label at once.
    """
    draw, n = np.random.default_rng(5), 9000
    x, colours = draw.normal(size=(n, 2)), draw.integers(0, 3, n)
    log_odds = x[:, 0] + np.array([-2.0, -1.0, 0.5])[colours]
    y = (draw.random(n) < 1 / (1 + np.exp(-log_odds))).astype(np.float64)
    rows = Table(x, np.empty((n, 0)), [[COLOURS[k] for k in colours]])
    due = np.arange(n) + np.where(y == 1.0, 1000, 1600)
    order = np.argsort(due, kind="stable")
    late, once = (Model("binary", features=SCHEMA) for _ in range(2))
    captured, done = [], 0
    for first in range(0, n - 1000, 50):
        captured.append(late.capture(slice_table(rows, first, first + 50)))
        ready = int(np.searchsorted(due[order], first + 50))
        places = order[done:ready]
        done = ready
        if len(places):
            whole = Captured(*(np.concatenate(values) for values in zip(*captured, strict=True)))
            chosen = Captured(*(values[places] for values in whole))
            late.learn_captured(chosen, y[places], np.ones(len(places)))
            for k in places:
                once.learn(part(rows, k), y[k : k + 1], np.ones(1))
    unseen = slice_table(rows, n - 1000, n)
    losses = [
        -np.log(np.where(y[-1000:] == 1.0, p, 1.0 - p)).mean()
        for p in (m.predictions(m.predict(unseen))[:, 1] for m in (late, once))
    ]

    assert losses[0] < 1.05 * losses[1]
    assert not late.booster.trees.label_means.any()
    assert once.booster.trees.label_means.any()


def test_a_late_row_is_encoded_as_of_now() -> None:
    """The mean label of a category is that of the moment when the label is learned."""
    whole, y, one = table(60), np.arange(60) % 2.0, np.ones(1)
    encoder = Columns(SCHEMA)
    encoder.learn_many(part(whole, 0), one, y[:1])
    X, codes = encoder.capture(part(whole, 0))
    for k in range(1, 60):
        encoder.learn_many(part(whole, k), one, y[k : k + 1])
    now = encoder.encode_many(part(whole, 0))
    assert not np.array_equal(X, now)

    encoder.learn_labels(X, codes, one, y[:1], 59.0 * one)

    np.testing.assert_array_equal(X, now)


def test_a_category_of_no_effect_says_nothing_of_the_class_that_is_learned() -> None:
    """Where labels come late, what a category shows is how frequent it is in each class."""
    draw, encoder = np.random.default_rng(6), Columns({"all": "category", "some": "category"})
    shown = []
    for _ in range(60):  # blocks of one class, each 500 labels late
        for label, n in ((1.0, 20), (0.0, 80)):
            some = ["a" if draw.random() < (0.8 if label else 0.4) else "b" for _ in range(n)]
            captured, codes = encoder.capture(
                Table(np.empty((n, 0)), np.empty((n, 0)), [["x"] * n, some])
            )
            times = np.full(n, encoder.state.lateness[0] - 500.0)
            encoder.learn_labels(captured, codes, np.ones(n), np.full(n, label), times)
            shown.append(captured)
    rows = np.concatenate(shown[60:])

    np.testing.assert_allclose(rows[:, 0], 0.5, atol=1e-12)
    a = rows[rows[:, 3] == encoder.encode_many(
        Table(np.empty((1, 0)), np.empty((1, 0)), [["x"], ["a"]]))[0, 3]]  # fmt: skip
    np.testing.assert_allclose(a[:, 2], 0.8 / (0.8 + 0.4), atol=0.05)


def test_a_model_without_evidence_says_the_base_rate() -> None:
    """Rows that were captured before anything was learned tell nothing of how sure to be."""
    draw = np.random.default_rng(3)
    whole, labels = table(4_000, 5), (draw.random(4_000) < 0.03).astype(float)
    model = Model("binary", features=SCHEMA)
    captured = model.capture(whole)
    for first in range(0, 2_000, 500):
        some = slice(first, first + 500)
        rows = Captured(*(values[some] for values in captured))
        model.learn_captured(rows, labels[some], np.ones(500))

    p = model.predictions(model.predict(slice_table(whole, 2_000, 4_000)))[:, 1]

    assert 0.01 < p.mean() < 0.06
    assert 0.2 > p.max()


@pytest.mark.parametrize("spec", [LINEAR, {}])
def test_an_answer_before_any_event_is_the_first_class(spec: dict[str, Any]) -> None:
    """So its error is that of this class, as a client saw it."""
    model = Model("binary", spec, {"x": "number", "y": "number"})
    whole = Table(table(4).numbers, np.empty((4, 0)), [])
    captured = model.capture(whole)

    outcome = model.learn_captured(captured, np.array([0.0, 1.0, 0.0, 0.0]), np.ones(4))

    assert [0.0, 1.0, 0.0, 0.0] == outcome.errors.tolist()
    assert outcome.losses == pytest.approx(np.full(4, np.log(2.0)))


def test_the_served_score_counts_as_much_as_all_others_at_first() -> None:
    """Before losses tell them apart, what was served has half of the weight in the mixture."""
    late = late_mixture(20)
    late.events[()], late.labels[:] = 1.0, (2.0, 1.0)  # log-odds 0
    captured, scores = np.full((1, 21), -3.0), np.zeros((1, 1))
    captured[0, -1] = 3.0

    score_late(late, captured, 0, np.empty_like(late.losses), scores)

    assert scores[0, 0] == pytest.approx(0.0, abs=1e-12)
