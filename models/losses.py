"""Losses: pure functions of a score and a label. Any may carry `l2`, the term r |score|^2 of the
SGB papers.

A loss registers value, gradient, link, tally and start, and `assess`, which does value and gradient
for all prefixes of one event at once. Formulas and constants: specification, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from models.numeric import exp_negative, fill, log1p_unit, log1pexp, sigmoid
from models.types import LABEL_LIMIT, Mat, ModelError, Param, Part, Vec
from models.verbs import (
    assess,
    encode_labels,
    gradient,
    link,
    smoothness,
    start,
    tally,
    value,
)


class Squared(NamedTuple):
    """1/2 |s - z|^2 for a number (or a vector) z; smooth everywhere, beta = 1, lambda = 1."""

    l2: float


@value.register
def _(loss: Squared, s: Vec, y: Vec) -> float:
    total = 0.0
    for c in range(s.shape[0]):
        total += 0.5 * (s[c] - y[c]) * (s[c] - y[c]) + loss.l2 * s[c] * s[c]
    return total


@gradient.register
def _(loss: Squared, s: Vec, y: Vec, g: Vec) -> None:
    for c in range(s.shape[0]):
        g[c] = (s[c] - y[c]) + 2.0 * loss.l2 * s[c]


@assess.register
def _(loss: Squared, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    fill(L, 0.0)
    for c in range(F.shape[0]):
        for i in range(F.shape[1]):
            s = F[c, i]
            G[c, i] = (s - y[c]) + 2.0 * loss.l2 * s
            L[i] += 0.5 * (s - y[c]) * (s - y[c]) + loss.l2 * s * s


@link.register
def _(loss: Squared, s: Vec, p: Vec) -> None:
    p[:] = s


@tally.register
def _(loss: Squared, y: Vec, w: float, total: float, counts: Vec) -> None:
    for c in range(counts.shape[0]):  # a running mean: sums of large labels would overflow
        z = min(max(y[c], -LABEL_LIMIT), LABEL_LIMIT)
        counts[c] += w / total * (z - counts[c])


@start.register
def _(loss: Squared, total: float, counts: Vec, y0: Vec) -> None:
    for c in range(y0.shape[0]):
        y0[c] = counts[c]


@encode_labels.register
def _(loss: Squared, y: Vec, m: int) -> Mat:
    Y = _columns(y)
    if Y.shape[1] != m:
        raise ModelError(
            f"y: has {Y.shape[1]} columns for m = {m} outputs; give one number per output"
        )
    return _finite(Y)


@smoothness.register
def _(loss: Squared) -> float:
    return 1.0 + 2.0 * loss.l2


class Logistic(NamedTuple):
    """ln(1 + e^(-u s)) for a label u in {-1, +1}; smooth everywhere, beta = 1/4."""

    l2: float


@value.register
def _(loss: Logistic, s: Vec, y: Vec) -> float:
    return log1pexp(-y[0] * s[0]) + float(loss.l2 * s[0] * s[0])


@gradient.register
def _(loss: Logistic, s: Vec, y: Vec, g: Vec) -> None:
    g[0] = -y[0] * sigmoid(-y[0] * s[0]) + 2.0 * loss.l2 * s[0]


@assess.register
def _(loss: Logistic, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    u = y[0]
    for i in range(F.shape[1]):
        s = F[0, i]
        a = -u * s
        t = exp_negative(-abs(a))  # one exponential serves value and gradient
        slope = (1.0 if a >= 0.0 else t) / (1.0 + t)
        G[0, i] = -u * slope + 2.0 * loss.l2 * s
        L[i] = (a if a > 0.0 else 0.0) + log1p_unit(t) + loss.l2 * s * s


@link.register
def _(loss: Logistic, s: Vec, p: Vec) -> None:
    p[0] = sigmoid(s[0])


@tally.register
def _(loss: Logistic, y: Vec, w: float, total: float, counts: Vec) -> None:
    if y[0] > 0.0:
        counts[0] += w


@start.register
def _(loss: Logistic, total: float, counts: Vec, y0: Vec) -> None:
    y0[0] = math.log((counts[0] + 0.5) / (total - counts[0] + 0.5)) if total > 0.0 else 0.0


@encode_labels.register
def _(loss: Logistic, y: Vec, m: int) -> Mat:
    Y = _columns(y)
    known = (Y == 0.0) | (Y == 1.0) if not (Y == -1.0).any() else abs(Y) == 1.0
    if Y.shape[1] != 1 or not known.all():
        raise ModelError("y: binary labels are 0 and 1, or -1 and 1; map yours before learning")
    return np.where(Y > 0.0, 1.0, -1.0)


@smoothness.register
def _(loss: Logistic) -> float:
    return 0.25 + 2.0 * loss.l2


class Softmax(NamedTuple):
    """logsumexp(s) - s_k for the class index k; smooth everywhere, beta = 1/2, blind to a common
    shift.
    """

    l2: float


@value.register
def _(loss: Softmax, s: Vec, y: Vec) -> float:
    top = s[0]
    for c in range(1, s.shape[0]):
        top = max(top, s[c])
    total = 0.0
    square = 0.0
    for c in range(s.shape[0]):
        total += exp_negative(s[c] - top)
        square += s[c] * s[c]
    return float(top + math.log(total) - s[int(y[0])] + loss.l2 * square)


@gradient.register
def _(loss: Softmax, s: Vec, y: Vec, g: Vec) -> None:
    link(loss, s, g)
    g[int(y[0])] -= 1.0
    for c in range(s.shape[0]):
        g[c] += 2.0 * loss.l2 * s[c]


@assess.register
def _(loss: Softmax, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    m = F.shape[0]
    k = int(y[0])
    for i in range(F.shape[1]):
        top = F[0, i]
        for c in range(1, m):
            top = max(top, F[c, i])
        total = 0.0
        square = 0.0
        for c in range(m):
            G[c, i] = exp_negative(F[c, i] - top)
            total += G[c, i]
            square += F[c, i] * F[c, i]
        for c in range(m):
            G[c, i] = G[c, i] / total - (1.0 if c == k else 0.0) + 2.0 * loss.l2 * F[c, i]
        L[i] = top + math.log(total) - F[k, i] + loss.l2 * square


@link.register
def _(loss: Softmax, s: Vec, p: Vec) -> None:
    top = s[0]
    for c in range(1, s.shape[0]):
        top = max(top, s[c])
    total = 0.0
    for c in range(s.shape[0]):
        p[c] = exp_negative(s[c] - top)
        total += p[c]
    for c in range(s.shape[0]):
        p[c] /= total


@tally.register
def _(loss: Softmax, y: Vec, w: float, total: float, counts: Vec) -> None:
    counts[int(y[0])] += w


@start.register
def _(loss: Softmax, total: float, counts: Vec, y0: Vec) -> None:
    m = y0.shape[0]
    for c in range(m):
        y0[c] = math.log((counts[c] + 0.5) / (total + 0.5 * m)) if total > 0.0 else 0.0


@encode_labels.register
def _(loss: Softmax, y: Vec, m: int) -> Mat:
    Y = _columns(y)
    if Y.shape[1] != 1 or not ((Y >= 0.0) & (m > Y) & (np.floor(Y) == Y)).all():
        raise ModelError(f"y: class labels are indices 0 to {m - 1}; map yours before learning")
    return Y


@smoothness.register
def _(loss: Softmax) -> float:
    return 0.5 + 2.0 * loss.l2


def _columns(y: Vec) -> Mat:
    return y[:, None] if y.ndim == 1 else y


def _finite(Y: Mat) -> Mat:
    if not np.isfinite(Y).all():
        raise ModelError("y: holds a value that is not finite; leave such events out")
    return Y


def _needs_classes(context: Mapping[str, Any]) -> str | None:
    if context["m"] < 2:
        return "softmax needs one output per class, at least 2; take logistic for two classes"
    return None


def _needs_one_output(context: Mapping[str, Any]) -> str | None:
    if context["m"] != 1:
        return f"logistic is binary: one output, not {context['m']}; take softmax for more classes"
    return None


L2 = Param("l2", 0.0, "weight r of the term r |score|^2", low=0.0, high=1e6)
SECTION = "specification, section 1"
LOSSES = {
    part.kind: part
    for part in (
        Part("squared", "1/2 (score - z)^2", SECTION, (L2,), Squared),
        Part("logistic", "ln(1 + e^(-u score))", SECTION, (L2,), Logistic, _needs_one_output),
        Part("softmax", "logsumexp(score) - score_k", SECTION, (L2,), Softmax, _needs_classes),
    )
}
