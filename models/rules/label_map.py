"""The affine map of labels to [-1, 1] that Online Gradient Boosting wants, from the first 500 of
them (specification, 7.8).

A rule with `labels: mapped` keeps its sums and sigma in mapped units, and says its scores in the
units of the labels. While the first labels are seen it answers their running mean and learns
nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import fill
from kaboost.models.types import LABEL_LIMIT, Mat, Vec
from kaboost.models.verbs import value_gradient_prefixes

FIRST = 500


class LabelMap(NamedTuple):
    """A label y is learned as (y - centre) / spread, clipped to [-1, 1]; or as given."""

    mapped: bool
    first: Mat  # (m, 500) the first labels, each output sorted
    seen: Vec  # () of them
    total: Vec  # () their weight
    centre: Vec  # (m,) their running mean; their median once all are seen
    spread: Vec  # (m,) 0; then 2 max |y - median|
    outside: Vec  # () later labels that were clipped


def label_map(mapped: bool, m: int) -> LabelMap:
    """Return the map of m outputs before any label."""
    first = np.zeros((m, FIRST if mapped else 0))
    seen, total, outside = np.zeros(()), np.zeros(()), np.zeros(())
    return LabelMap(mapped, first, seen, total, np.zeros(m), np.zeros(m), outside)


@kernel
def silent(labels: LabelMap) -> bool:
    """Return whether the first labels are still being seen."""
    return bool(labels.mapped and labels.seen[()] < FIRST)


@kernel
def hush(labels: LabelMap, h: Mat) -> None:
    """Put 0 for what weak learners say while the map is not known."""
    if silent(labels):
        for c in range(h.shape[0]):
            fill(h[c], 0.0)


@kernel
def rest(labels: LabelMap, T: Mat, W: Vec) -> None:
    """Teach nothing while the map is not known."""
    if silent(labels):
        fill(W, 0.0)
        for c in range(T.shape[0]):
            fill(T[c], 0.0)


@kernel
def to_labels(labels: LabelMap, F: Mat, kept: Mat) -> None:
    """Copy the sums F (m, N+1) to `kept` and carry F over to the units of the labels."""
    if labels.mapped:
        for c in range(F.shape[0]):
            for i in range(F.shape[1]):
                kept[c, i] = F[c, i]
                F[c, i] = labels.centre[c] + labels.spread[c] * F[c, i]


@kernel
def to_sums(labels: LabelMap, loss: Any, z: Vec, F: Mat, G: Mat, kept: Mat, L: Vec) -> None:
    """Put the label z (m,), the sums F (m, N+1) and the gradients G at them in mapped units."""
    if labels.mapped and not silent(labels):
        for c in range(F.shape[0]):
            for i in range(F.shape[1]):
                F[c, i] = kept[c, i]
        labels.outside[()] += 1.0 if clip(labels, z) > 0 else 0.0
        value_gradient_prefixes(loss, F, z, G, L)


@kernel
def clip(labels: LabelMap, z: Vec) -> int:
    """Map the label z (m,) in place; return how many of its numbers were clipped."""
    outside = 0
    for c in range(z.shape[0]):
        label = min(max(z[c], -LABEL_LIMIT), LABEL_LIMIT)
        z[c] = (label - labels.centre[c]) / labels.spread[c]
        outside += abs(z[c]) > 1.0
        z[c] = min(max(z[c], -1.0), 1.0)
    return outside


@kernel
def collect(labels: LabelMap, y: Vec, w: float) -> None:
    """See one more of the first labels y (m,), of weight w > 0; after the last one the map stands
    still.
    """
    n = int(labels.seen[()])
    labels.seen[()] += 1.0
    labels.total[()] += w
    for c in range(y.shape[0]):
        label = min(max(y[c], -LABEL_LIMIT), LABEL_LIMIT)
        labels.centre[c] += w / labels.total[()] * (label - labels.centre[c])
        insert(labels.first[c], n, label)
        if n + 1 == FIRST:
            settle(labels, c)


@kernel
def insert(row: Vec, n: int, label: float) -> None:
    """Put one more label into the n sorted ones at the front of the row."""
    place = n
    while place > 0 and row[place - 1] > label:
        row[place] = row[place - 1]
        place -= 1
    row[place] = label


@kernel
def settle(labels: LabelMap, c: int) -> None:
    """Fix the map of output c from its first labels; equal ones are only shifted."""
    row = labels.first[c]
    median = 0.5 * (row[FIRST // 2 - 1] + row[FIRST // 2])
    reach = 2.0 * max(row[FIRST - 1] - median, median - row[0])
    labels.centre[c] = median
    labels.spread[c] = reach if reach > 0.0 else 1.0
