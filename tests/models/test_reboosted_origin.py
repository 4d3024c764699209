"""Labels far from 0 for their spread are learned as those about 0 are, and all that tells of a
score tells it where the labels are.
"""

from typing import Any

import numpy as np
import pytest

import kaboost
from kaboost.models.explain.interface import explain_many
from kaboost.models.features.label_outliers import FIRST_LABELS
from kaboost.models.reboosted.label_guard import label_offset
from tests.boosters import absolute_errors, default_booster
from tests.models.number_streams import product_of_eight

LOSSES = ("squared", "absolute", "huber", {"kind": "quantile", "q": 0.5})


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("level", [100.0, -1e6, 1.7e9])
def test_the_level_of_labels_does_not_matter(loss: Any, level: float) -> None:
    """From the first labels on, after which learning starts again; the mean has an error of 2.9."""
    X, y = product_of_eight(3000)
    near = absolute_errors(default_booster(8, loss), X, y, 50)
    far = absolute_errors(default_booster(8, loss), X, y + level, 50)

    first = slice(FIRST_LABELS, 100)
    assert far[first].mean() < 1.4 * near[first].mean()
    assert far[100:1000].mean() < 1.15 * near[100:1000].mean()
    assert far[1000:].mean() < 1.15 * near[1000:].mean()


def test_batches_do_not_matter() -> None:
    """Labels are put about 0 at the same event wherever a batch ends."""
    X, y = product_of_eight(300)
    losses = [
        absolute_errors(default_booster(8, "squared"), X, y + 1e6, batch)
        for batch in (1, FIRST_LABELS, 37, 300)
    ]
    for other in losses[1:]:
        np.testing.assert_array_equal(losses[0], other)


def test_what_tells_of_a_score_tells_it_where_labels_are() -> None:
    """Prefixes, predictions, explanations and progressive losses are of the labels as they came."""
    X, y = product_of_eight(1500)
    booster = default_booster(8, "squared")
    kaboost.learn_many(booster, X[:FIRST_LABELS], y[:FIRST_LABELS] + 1e6)
    before, rest = float(booster.progress.loss_sum), slice(FIRST_LABELS, 1400)
    predicted = kaboost.learn_many(booster, X[rest], y[rest] + 1e6)[:, 0]
    losses = kaboost.predict_many(booster, X[1400:])
    explained = explain_many(booster, X[1400:])

    assert abs(np.asarray(losses).ravel() - y[1400:] - 1e6).mean() < 1.5
    assert (abs(kaboost.prefixes_many(booster, X[1400:]) - 1e6) < 100.0).all()
    whole = explained.base[:, 0] + explained.contributions[:, 0].sum(axis=1)
    np.testing.assert_allclose(whole, np.ravel(losses), rtol=1e-12)
    np.testing.assert_allclose(whole, np.ravel(losses), atol=1.0)
    lost = 0.5 * ((predicted - 1e6 - y[rest]) ** 2).sum()  # beside 5e11 of the first labels
    assert float(booster.progress.loss_sum) - before == pytest.approx(lost, abs=0.5)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("jitter", [0.0, 1e-9])
def test_a_start_that_is_stuck_tells_no_origin(loss: Any, jitter: float) -> None:
    """A sensor that begins with one number for a hundred events costs no more than it had to."""
    X, y = product_of_eight(600)
    y += 7.0
    y[:100] = 7.0 + jitter * y[:100]
    off = absolute_errors(default_booster(8, loss), X, y, 50)

    assert off[100:200].mean() < abs(y[100:200] - 7.0).mean()
    assert off[200:].mean() < 0.8 * abs(y[200:] - 7.0).mean()


def test_offset() -> None:
    """Labels about 0, or spread as widely as they are far, stay as they are."""
    assert label_offset(np.array([-1.0, 1.0, 2.0])) == 0.0
    assert label_offset(np.array([9.0, 11.0])) == 0.0
    assert label_offset(np.array([10.5, 12.5])) == 11.5
    assert label_offset(np.array([-99.0, -101.0])) == -100.0
    assert label_offset(np.zeros(20)) == 0.0
    assert label_offset(np.full(20, 7.0)) == 0.0
    assert label_offset(np.array([7.0, 7.0 + 1e-12])) == 0.0


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize(
    ("level", "size"),
    [(3e9, 1.0), (-1e12, 2.0), (1.7e18, 1e9), (0.0, 1e-20), (0.0, 1e-150), (0.0, 1e40)],
)
def test_neither_level_nor_size_of_labels_matters(level: float, size: float, seed: int) -> None:
    """However far or large labels are, errors relative to their spread are the same; a batch's end
    does not matter; a prediction is the score that is learned from.
    """
    X, f = product_of_eight(1500)
    X, f = np.roll(X, 100 * seed, 0), np.roll(f, 100 * seed)
    y, booster, other = (
        level + size * f,
        default_booster(8, "squared"),
        default_booster(8, "squared"),
    )
    near = absolute_errors(default_booster(8, "squared"), X, f, 50)
    far = absolute_errors(booster, X, y, 50)

    assert far[500:].mean() < 1.15 * size * near[500:].mean()
    np.testing.assert_array_equal(far, absolute_errors(other, X, y, 37))
    predicted = kaboost.predict_many(booster, X[:1])
    explained = explain_many(booster, X[:1])
    whole = explained.base + explained.contributions.sum(axis=2)
    np.testing.assert_allclose(whole, predicted, rtol=1e-9)
    assert kaboost.learn_many(booster, X[:1], y[:1]) == predicted


@pytest.mark.parametrize("first", [1e200, -1e30, 5e-300])
def test_an_odd_first_label_gives_no_scale(first: float) -> None:
    """A first label of another size than the others costs nothing for long."""
    X, y = product_of_eight(1500)
    near = absolute_errors(default_booster(8, "squared"), X, y, 50)
    y[0] = first
    far = absolute_errors(default_booster(8, "squared"), X, y, 50)

    assert far[500:].mean() < 1.15 * near[500:].mean()
