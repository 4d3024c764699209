"""Labels that stick at a wrong number, and codes among labels of robust losses, cost little."""

from functools import cache

import numpy as np
import pytest

from tests.boosters import absolute_errors, default_booster
from tests.models.number_streams import product_of_eight

AT = 1500  # event at which labels stick


@cache
def usual(n: int) -> np.ndarray:
    """Return the errors where no label sticks."""
    return absolute_errors(default_booster(8, "squared"), *product_of_eight(n), 500)


@pytest.mark.parametrize("stuck", [-500.0, 7e4, 1e300])
@pytest.mark.parametrize("length", [10, 17, 25, 40, 70, 300])
def test_stuck_labels(stuck: float, length: int) -> None:
    """A run of any length is distinguished from a new level when values return."""
    X, y = product_of_eight(AT + length + 450)
    given = y.copy()
    given[AT : AT + length] = stuck
    after = slice(AT + length + 50, None)

    assert (
        absolute_errors(default_booster(8, "squared"), X, given, 500)[after].mean()
        < 2.0 * usual(len(y))[after].mean()
    )


def test_stuck_again() -> None:
    """Neither the third run costs more."""
    X, y = product_of_eight(4000)
    given = y.copy()
    for first in (1500, 2200, 2900):
        given[first : first + 30] = 5e3
    after = slice(3000, None)

    assert (
        absolute_errors(default_booster(8, "squared"), X, given, 500)[after].mean()
        < 2.0 * usual(4000)[after].mean()
    )


@pytest.mark.parametrize("loss", ["absolute", "huber", {"kind": "quantile", "q": 0.5}], ids=str)
@pytest.mark.parametrize("code", [-9e3, 1e12])
def test_codes_among_labels_of_robust_losses(loss: object, code: float) -> None:
    """Two of a hundred labels are a code, for as long as it takes: they are never learned."""
    X, y = product_of_eight(3000)
    bad = np.random.default_rng(8).random(len(y)) < 0.02
    bad[:20] = False
    late = np.flatnonzero(~bad & (np.arange(len(y)) >= 1500))
    without = absolute_errors(default_booster(8, loss), X, y, 500)[late].mean()

    assert (
        absolute_errors(default_booster(8, loss), X, np.where(bad, code, y), 500)[late].mean()
        < 1.1 * without
    )
