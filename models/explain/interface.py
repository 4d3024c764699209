"""Explanations of scores: the contribution of every column, and the importance of columns."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from kaboost.models.types import Mat, Mat3, ModelError

REFUSAL = "only trees of the bank reboosted_trees can be explained; take it: bank: reboosted_trees"


class Explanation(NamedTuple):
    """The parts of scores (B, m): base + the sum of contributions, up to rounding.

    Columns are those of X, then the label lags: d + 5. Base and contributions are those of the
    linear part (Shapley values), and of what mixing, clipping and calibration add to it each has a
    part in proportion to its size.
    """

    base: Mat  # (B, m) the score of an event without any feature
    contributions: Mat3  # (B, m, d + 5)
    scores: Mat  # (B, m) as served


@singledispatch
def explain_many(booster: Any, X: ArrayLike) -> Explanation:
    """Explain the scores of X (B, d); the booster does not change, and may be read-only.

    Raises
    ------
    ModelError
        The booster's bank has no explanation.
    """
    raise ModelError(REFUSAL)


@singledispatch
def deviations(booster: Any) -> Mat:
    """Return the contributions of sampled recent events less their means, (n, d + 5).

    The importance of columns is the sum of squares of the sums of their deviations.

    Raises
    ------
    ModelError
        The booster's bank has no explanation.
    """
    raise ModelError(REFUSAL)
