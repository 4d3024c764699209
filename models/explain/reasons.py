"""Explanations in words: contributions and importance by the names of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kaboost.models.explain.interface import Explanation
from kaboost.models.features.columns import WIDTHS, Columns
from kaboost.models.types import Vec


class Reason(NamedTuple):
    """Why one score is what it is: base + all contributions + all label lags + mixing.

    The first three add up to the linear part, the weighted sum of what the structures of trees, the
    linear learners and the last label say. Of trees the shares are the Shapley values, by the path
    that an event takes; of lines they are what each column adds.
    """

    score: float
    base: float  # the linear part of an event of which nothing is known
    contributions: Mapping[str, float]  # by feature
    label_lags: Mapping[str, float]  # by decayed mean of the labels of late, at its rate
    mixing: float  # what mixing, clipping and calibration add to the linear part
    recent_label_parts: Mapping[str, float]  # of a category's contribution: by its mean label


class Share(NamedTuple):
    """How much one feature or label lag matters by and large."""

    name: str
    kind: str  # feature or label lag
    share: float  # of the variance that all cuts explain
    recent_label_part: float | None = None  # of a category's share: by its mean label


def reasons(encoder: Columns, rates: Sequence[float], found: Explanation) -> list[list[Reason]]:
    """Return the reasons of every event (B) and output (m) by the names of the features; label lags
    are named by their rates (5,).
    """
    B, m = found.scores.shape
    return [[_reason(encoder, rates, found, (r, c)) for c in range(m)] for r in range(B)]


def _reason(
    encoder: Columns, rates: Sequence[float], found: Explanation, place: tuple[int, int]
) -> Reason:
    score, base, mixing = (float(each[place]) for each in (found.scores, found.base, found.mixing))
    contributions, lags, parts = _named(encoder, rates, found.contributions[place])
    return Reason(score, base, contributions, lags, mixing, parts)


def shares(encoder: Columns, rates: Sequence[float], gains: Vec) -> list[Share]:
    """Return features and label lags in falling order of their gains (d + 5,)."""
    total = float(gains.sum())
    features, lags, parts = _named(encoder, rates, gains / total if total > 0.0 else gains)
    listed = [Share(name, "feature", share, parts.get(name)) for name, share in features.items()]
    listed += [Share(name, "label lag", share) for name, share in lags.items()]
    return sorted(listed, key=lambda one: -one.share)


Named = tuple[dict[str, float], dict[str, float], dict[str, float]]


def _named(encoder: Columns, rates: Sequence[float], values: Vec) -> Named:
    """Name the values (d + 5,) of columns: features, label lags, and the parts of categories that
    come by the mean label.
    """
    told = values.tolist()
    whole: dict[str, float] = {}
    parts: dict[str, float] = {}
    for name, kind in encoder.kinds.items():
        first = encoder.places[name]
        whole[name] = sum(told[first : first + WIDTHS[kind]])
        if kind == "category":
            parts[name] = told[first]
    lags = (f"label lag {rate:g}" for rate in rates)
    return whole, dict(zip(lags, told[encoder.width :], strict=True)), parts
