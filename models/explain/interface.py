"""Explanations of scores: the contribution of every column, and the importance of columns."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from kaboost.models.types import Mat, Mat3, ModelError, Vec

REFUSAL = "only trees of the bank reboosted_trees can be explained; take it: bank: reboosted_trees"


class Explanation(NamedTuple):
    """The parts of scores (B, m): base + the sum of contributions + mixing, up to rounding.

    Columns are those of X, then the label lags: d + 5.
    """

    base: Mat  # (B, m) the linear part of an event without any feature
    contributions: Mat3  # (B, m, d + 5) Shapley values of the linear part
    mixing: Mat  # (B, m) what mixing, clipping and calibration add to the linear part
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
def gains(booster: Any) -> Vec:
    """Return the variance of the linear part that the cuts of every column explain, (d + 5,).

    Raises
    ------
    ModelError
        The booster's bank has no cuts.
    """
    raise ModelError(REFUSAL)
