"""What is learned depends on the ratios of importances alone, not on their unit."""

import numpy as np
import pytest

from tests.boosters import default_booster, learn_stream
from tests.models.number_streams import product

TASKS = ("logistic", "squared", "absolute", "poisson")


def scores(loss: str, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the scores of a new model, each made before its event was learned."""
    return learn_stream(default_booster(X.shape[1], loss, seed=3), X, y, w, batch=250)[:, 0]


@pytest.mark.parametrize("loss", TASKS)
@pytest.mark.parametrize("factor", [2.0**-40, 0.25, 2.0**30])
def test_a_common_factor_changes_nothing(loss: str, factor: float) -> None:
    """To the bit for a power of 2, whatever the ratios of the importances are."""
    X, y = product(1000, loss, 4)
    w = np.random.default_rng(9).choice([0.0, 0.5, 1.0, 7.0], len(y))
    expected = scores(loss, X, y, w)

    np.testing.assert_array_equal(expected, scores(loss, X, y, factor * w))


def test_ratios_count() -> None:
    """Of labels that contradict each other, the more important ones win."""
    X, y = product(3000, "logistic", 5)
    wrong = np.random.default_rng(6).random(len(y)) < 0.5
    given = np.where(wrong, 1.0 - y, y)
    s = scores("logistic", X, given, np.where(wrong, 1e-4, 1e-3))

    assert ((s > 0.0) == (y > 0.0))[1500:].mean() > 0.8
