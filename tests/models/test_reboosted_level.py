"""A level shift moves the label offset: all that was learned stays."""

from typing import Any

import numpy as np
import pytest

import kaboost
from kaboost.models.reboosted.label_guard import (
    BACKOFF,
    SHIFT_EVENTS,
    guard_label,
)
from kaboost.models.reboosted.label_scale import LabelScale, label_scale
from kaboost.models.reboosted.linear import linear_filters
from kaboost.models.reboosted.linear_inputs import blank_row
from tests.boosters import absolute_errors, default_booster, restored, state_digest
from tests.models.number_streams import product_of_eight
from tests.models.test_reboosted_origin import LOSSES

SETTLED = 20  # events after a change of level


def changed(y: np.ndarray, *changes: tuple[int, float]) -> np.ndarray:
    """Add to the labels from each place on."""
    up = y.copy()
    for at, by in changes:
        up[at:] += by
    return up


def scale(**known: float) -> LabelScale:
    """Return the scale of labels about 0, of deviation 2, with residuals of 1."""
    made = label_scale()
    for name, number in ({"deviation": 2.0, "residual": 1.0} | known).items():
        getattr(made, name)[...] = number
    made.shift[0].deviation = 2.0
    return made


def guarded(made: LabelScale, labels: Any, predicted: float = 0.0, t: int = 100) -> list[float]:
    """Return what is to be learned of labels, one after another."""
    lines, row = linear_filters(1), blank_row(1)
    row.runs[:] = 1  # nothing is there
    return [
        guard_label(made, y - made.offset[()], t + k, predicted, lines, row, False)
        for k, y in enumerate(labels)
    ]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    ("at", "by"), [(20, 1e6), (60, -1e3), (1000, 8.0), (6000, -8.0), (6000, 1e5)]
)
def test_a_new_level_costs_some_events(loss: Any, at: int, by: float) -> None:
    """However far, however late: answers are then as good as if it had not changed."""
    X, y = product_of_eight(at + 1500)
    same = absolute_errors(default_booster(8, loss), X, y, 500)[at + SETTLED :]
    after = absolute_errors(default_booster(8, loss), X, changed(y, (at, by)), 500)[at + SETTLED :]

    assert after[:480].mean() < 1.15 * same[:480].mean()
    assert after[480:].mean() < 1.15 * same[480:].mean()


def test_batches_do_not_matter() -> None:
    """The offset moves at the same event wherever a batch ends, and the scores are the same."""
    X, y = product_of_eight(600)
    y = changed(y, (100, 300.0), (400, 30.0))
    found = []
    for batch in (1, 7, 43, 600):
        booster = default_booster(8, "squared")
        predicted = absolute_errors(booster, X, y, batch)
        found.append((state_digest(booster), predicted.tobytes()))

    assert float(booster.labels.offset) == pytest.approx(330.0, abs=5.0)
    assert found == [found[0]] * len(found)


def test_a_checkpoint_in_mid_run_goes_on() -> None:
    """The record of a possible shift is part of the state."""
    X, y = product_of_eight(400)
    y = changed(y, (200, 100.0))
    whole = default_booster(8, "squared")
    kaboost.learn_many(whole, X, y)
    part = default_booster(8, "squared")
    kaboost.learn_many(part, X[:204], y[:204])
    assert 1.0 < part.labels.shift[0].count < SHIFT_EVENTS
    again = restored(part, {"bank": "reboosted_trees", "loss": "squared", "seed": 1})
    kaboost.learn_many(again, X[204:], y[204:])

    assert state_digest(again) == state_digest(whole)


def test_levels_that_go_back_and_forth_are_left_to_the_features() -> None:
    """The offset stays where a feature explains the levels: it is learned."""
    X, y = product_of_eight(8000)
    X[:, 7] = np.arange(8000) // 200 % 2
    there = y + 100.0 * X[:, 7]
    booster = default_booster(8, "squared")
    off = absolute_errors(booster, X, there, 500)
    expected = absolute_errors(default_booster(8, "squared"), X, y, 500)

    assert booster.labels.offset == 0.0
    assert off[6000:].mean() < 1.5 * expected[6000:].mean()


@pytest.mark.parametrize("kind", ["category", "number", "missing"])
def test_a_level_of_a_new_value_is_no_shift(kind: str) -> None:
    """A history sorted by shop, then all shops mixed: the offset stays, the first shop's labels in
    the window go on being right.
    """
    r = np.random.default_rng(5)
    shop = np.where(np.arange(2500) < 1600, np.arange(2500) // 800, r.integers(0, 2, 2500))
    X = r.normal(size=2500)
    y = 200.0 * shop + 2.0 * X + r.normal(0.0, 0.5, 2500)
    written = {"category": ["a", "b"], "number": [3, 4], "missing": [None, 1]}[kind]
    rows = [{"x": float(x), "shop": written[k]} for x, k in zip(X, shop, strict=True)]
    columns = {"x": "number", "shop": "category" if kind == "category" else "number"}
    model = kaboost.Model("regression", features=columns)
    off = abs(np.asarray(model.learn_many(rows, y)) - y)

    assert model.booster.labels.offset == 0.0
    assert off[1600:].mean() < 3.0


def test_categories_that_come_once_explain_nothing() -> None:
    """Every event has a new one: none of them explains a level."""
    X, y = product_of_eight(600)
    rows = [{"x": float(x[0]), "id": f"n{k}"} for k, x in enumerate(X)]
    model = kaboost.Model("regression", features={"x": "number", "id": "category"})
    model.learn_many(rows, changed(y, (500, 100.0)))

    assert model.booster.labels.offset == pytest.approx(100.0, abs=10.0)


def test_one_rare_label_is_learned() -> None:
    """Alone it is no shift; the labels of rare events must not be lost."""
    made = scale()

    assert guarded(made, [0.5, 30.0, 0.5, -30.0, 30.0, 0.1]) == [0.5, 30.0, 0.5, -30.0, 30.0, 0.1]
    assert made.offset == 0.0


def test_the_next_are_not_learned_until_the_shift_is_certain() -> None:
    """From the second on the score is learned, and at last the label less the level."""
    made = scale()
    labels = [30.0, 31.0, 29.0, 31.0, 29.0, 31.0, 29.0, 30.0]
    assert len(labels) == SHIFT_EVENTS

    assert guarded(made, labels) == [30.0, *[0.0] * 6, 0.0]
    assert made.offset == 30.0
    assert made.deviation == pytest.approx(2.0)


def test_labels_that_are_off_by_different_numbers_are_no_level() -> None:
    """A rule that changes is learned: no count begins within the next fifty events."""
    made = scale()
    labels = [30.0, 31.0, 9.0, 30.0, 31.0, 29.0, 30.0, 31.0, 29.0, 30.0, 31.0]

    assert guarded(made, labels) == [30.0, 0.0, *labels[2:]]
    assert made.offset == 0.0


def test_usual_residuals_are_no_part_of_a_level() -> None:
    """Residuals of a quantile of 0.9 are biased."""
    made = scale()
    guarded(made, np.full(5000, -1.5))
    guarded(made, np.full(8, 98.5), t=5100)

    assert float(made.offset) == pytest.approx(100.0, abs=0.1)


def test_moves_block_further_ones() -> None:
    """After a second move within half of the stream's age, or a move back, none follows soon."""
    made = scale()
    guarded(made, [29.0, 31.0] * 4)
    assert made.shift[0].blocked_until == 0.0
    guarded(made, [59.0, 61.0] * 4, t=150)
    assert made.shift[0].blocked_until == BACKOFF * 157
    guarded(made, [90.0] * 20, t=200)
    assert made.offset == pytest.approx(60.0, abs=1.0)

    back = scale()
    guarded(back, [29.0, 31.0] * 4)
    guarded(back, [0.0] * 8, t=1000)
    assert back.shift[0].blocked_until == BACKOFF * 1007
    assert back.offset == 0.0


def test_a_level_that_leaves_no_digits_is_left_to_the_bit() -> None:
    """Labels less 10^30 are multiples of 10^14; the way back is to the offset before."""
    made = scale()

    guarded(made, [1e30] * 12)
    assert made.offset == 1e30
    guarded(made, [1.0, -1.0] * 6, t=112)
    assert made.offset == 0.0
    assert made.deviation < 10.0
