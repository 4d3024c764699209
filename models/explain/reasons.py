"""Explanations by name: contributions and importance of features and label lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kaboost.models.explain.interface import Explanation
from kaboost.models.features.columns import WIDTHS, Columns
from kaboost.models.types import Mat, Vec


class Reason(NamedTuple):
    """The explanation of one score: base + all contributions + all label lags.

    Contributions are path-dependent Shapley values for trees, and the terms of the columns for
    linear learners. What mixing, clipping and calibration add to the sum of these is spread over
    all of them in proportion to their sizes.
    """

    score: float
    base: float  # the score of an event without any feature
    contributions: Mapping[str, float]  # by feature
    label_lags: Mapping[str, float]  # by rate of the decayed mean of recent labels
    recent_label_parts: Mapping[str, float]  # of a category's contribution: by its mean label


class Share(NamedTuple):
    """The importance of one feature or label lag."""

    name: str
    kind: str  # feature or label lag
    share: float  # of the variances of all contributions over recent events
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
    score, base = float(explanation.scores[place]), float(explanation.base[place])
    contributions, lags, parts = _named(encoder, rates, explanation.contributions[place])
    return Reason(score, base, contributions, lags, parts)


def shares(encoder: Columns, rates: Sequence[float], deviations: Mat) -> list[Share]:
    """Return features and label lags in falling order of the variance of their contributions, whose
    deviations (n, d + 5) from their means are given.
    """
    covariances = _covariances_with_own_feature(encoder, deviations)
    total = float(covariances.sum())
    features, lags, parts = _named(encoder, rates, covariances / (total if total > 0.0 else 1.0))
    listed = [Share(name, "feature", share, parts.get(name)) for name, share in features.items()]
    listed += [Share(name, "label lag", share) for name, share in lags.items()]
    return sorted(listed, key=lambda share: -share.share)


def _covariances_with_own_feature(encoder: Columns, deviations: Mat) -> Vec:
    """Return the covariance (d + 5,) of every column with its feature: they sum up to the
    variance of the feature, also where two columns of it cancel.
    """
    found = np.square(deviations).sum(axis=0)
    spans = [(encoder.places[n], encoder.places[n] + WIDTHS[k]) for n, k in encoder.kinds.items()]
    own: dict[str, list[int]] = {}
    for name, (first, last) in zip(encoder.kinds, spans, strict=True):
        own[name] = list(range(first, last))
    for name, first, last in encoder.retired:
        own[name] += range(first, last)
    for columns in own.values():
        whole = deviations[:, columns].sum(axis=1)
        found[columns] = whole @ deviations[:, columns]
    return np.asarray(found)


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
