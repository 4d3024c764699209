"""Explanations by name: contributions and importance of features and label lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kaboost.models.explain.interface import Explanation
from kaboost.models.features.columns import WIDTHS, Columns
from kaboost.models.types import Vec


class Reason(NamedTuple):
    """The explanation of one score: base + all contributions + all label lags + mixing.

    The first three add up to the linear part: the weighted sum of the scores of the tree structures
    and the linear learners, and of the last label. Contributions are path-dependent Shapley values
    for trees, and the terms of the columns for linear learners.
    """

    score: float
    base: float  # the linear part of an event without any feature
    contributions: Mapping[str, float]  # by feature
    label_lags: Mapping[str, float]  # by rate of the decayed mean of recent labels
    mixing: float  # what mixing, clipping and calibration add to the linear part
    recent_label_parts: Mapping[str, float]  # of a category's contribution: by its mean label


class Share(NamedTuple):
    """The importance of one feature or label lag."""

    name: str
    kind: str  # feature or label lag
    share: float  # of the variance that all cuts explain
    recent_label_part: float | None = None  # of a category's share: by its mean label


def reasons(
    encoder: Columns, rates: Sequence[float], explanation: Explanation
) -> list[list[Reason]]:
    """Return the explanations of B events and m outputs by feature names.

    Parameters
    ----------
    encoder
        The encoder, which has the names.
    rates
        Rates of the label lags, (5,), which name them.
    explanation
        What `explain_many` returned for B events.

    Returns
    -------
    list[list[Reason]]
        B lists of m.
    """
    B, m = explanation.scores.shape
    return [[_reason(encoder, rates, explanation, (r, c)) for c in range(m)] for r in range(B)]


def _reason(
    encoder: Columns, rates: Sequence[float], explanation: Explanation, place: tuple[int, int]
) -> Reason:
    score, base, mixing = (
        float(part[place]) for part in (explanation.scores, explanation.base, explanation.mixing)
    )
    contributions, lags, parts = _named(encoder, rates, explanation.contributions[place])
    return Reason(score, base, contributions, lags, mixing, parts)


def shares(encoder: Columns, rates: Sequence[float], gains: Vec) -> list[Share]:
    """Return features and label lags in falling order of their gains (d + 5,)."""
    total = float(gains.sum())
    features, lags, parts = _named(encoder, rates, gains / total if total > 0.0 else gains)
    listed = [Share(name, "feature", share, parts.get(name)) for name, share in features.items()]
    listed += [Share(name, "label lag", share) for name, share in lags.items()]
    return sorted(listed, key=lambda share: -share.share)


Named = tuple[dict[str, float], dict[str, float], dict[str, float]]


def _named(encoder: Columns, rates: Sequence[float], values: Vec) -> Named:
    """Return values (d + 5,) of columns by name: features, label lags, and the parts of categories
    that are due to the mean label.
    """
    by_column = values.tolist()
    whole: dict[str, float] = {}
    parts: dict[str, float] = {}
    for name, kind in encoder.kinds.items():
        first = encoder.places[name]
        whole[name] = sum(by_column[first : first + WIDTHS[kind]])
        if kind == "category":
            parts[name] = by_column[first]
    for name, first, last in encoder.retired:  # their columns are missing, which says something too
        whole[name] += sum(by_column[first:last])
    lags = (f"label lag {rate:g}" for rate in rates)
    return whole, dict(zip(lags, by_column[encoder.width :], strict=True)), parts
