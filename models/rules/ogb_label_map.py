"""The affine map of labels to [-1, 1] that Online Gradient Boosting needs, fitted to the first 500
labels (specification, 7.8).

A rule with `labels: mapped` keeps its sums and sigma in mapped units and gives scores in the units
of the labels. During the first 500 labels it predicts their running mean and learns nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import fill
from kaboost.models.types import LABEL_LIMIT, Loss, Mat, Vec
from kaboost.models.verbs import value_gradient_prefixes

FIRST_LABELS = 500


class LabelMap(NamedTuple):
    """State of the map: y becomes (y - centre) / spread, clipped to [-1, 1]; or stays as it is."""

    mapped: bool
    first: Mat  # (m, 500) the first labels, each output sorted
    seen: Vec  # () how many of them
    total: Vec  # () their weight
    centre: Vec  # (m,) their running mean; their median once the map is fixed
    spread: Vec  # (m,) 0 until the map is fixed; then 2 max |y - median|
    outside: Vec  # () how many later labels were clipped


def label_map(mapped: bool, m: int) -> LabelMap:
    """Return the map of m outputs before any label."""
    first = np.zeros((m, FIRST_LABELS if mapped else 0))
    seen, total, outside = np.zeros(()), np.zeros(()), np.zeros(())
    return LabelMap(mapped, first, seen, total, np.zeros(m), np.zeros(m), outside)


@kernel
def is_warming_up(labels: LabelMap) -> bool:
    """Return whether the map is not fixed yet."""
    return bool(labels.mapped and labels.seen[()] < FIRST_LABELS)


@kernel
def zero_predictions(labels: LabelMap, h: Mat) -> None:
    """Set the weak predictions h (m, N) to 0 during the warm-up."""
    if is_warming_up(labels):
        for c in range(h.shape[0]):
            fill(h[c], 0.0)


@kernel
def zero_targets(labels: LabelMap, T: Mat, W: Vec) -> None:
    """Set targets T (m, N) and weights W (N,) to 0 during the warm-up."""
    if is_warming_up(labels):
        fill(W, 0.0)
        for c in range(T.shape[0]):
            fill(T[c], 0.0)


@kernel
def to_label_units(labels: LabelMap, F: Mat, kept: Mat) -> None:
    """Copy the sums F (m, N+1) to `kept` and convert F to the units of the labels."""
    if labels.mapped:
        for c in range(F.shape[0]):
            for i in range(F.shape[1]):
                kept[c, i] = F[c, i]
                F[c, i] = labels.centre[c] + labels.spread[c] * F[c, i]


@kernel
def to_mapped_units(
    labels: LabelMap, loss: Loss, z: Vec, F: Mat, G: Mat, kept: Mat, L: Vec
) -> None:
    """Convert the label z (m,), the sums F (m, N+1) and their gradients G to mapped units."""
    if labels.mapped and not is_warming_up(labels):
        for c in range(F.shape[0]):
            for i in range(F.shape[1]):
                F[c, i] = kept[c, i]
        labels.outside[()] += 1.0 if map_label(labels, z) > 0 else 0.0
        value_gradient_prefixes(loss, F, z, G, L)


@kernel
def map_label(labels: LabelMap, z: Vec) -> int:
    """Map the label z (m,) in place; return how many of its numbers were clipped."""
    outside = 0
    for c in range(z.shape[0]):
        label = min(max(z[c], -LABEL_LIMIT), LABEL_LIMIT)
        z[c] = (label - labels.centre[c]) / labels.spread[c]
        outside += abs(z[c]) > 1.0
        z[c] = min(max(z[c], -1.0), 1.0)
    return outside


@kernel
def collect_label(labels: LabelMap, y: Vec, w: float) -> None:
    """Add one of the first labels, y (m,) of weight w > 0; the last one fixes the map."""
    n = int(labels.seen[()])
    labels.seen[()] += 1.0
    labels.total[()] += w
    for c in range(y.shape[0]):
        label = min(max(y[c], -LABEL_LIMIT), LABEL_LIMIT)
        labels.centre[c] += w / labels.total[()] * (label - labels.centre[c])
        insert_sorted(labels.first[c], n, label)
        if n + 1 == FIRST_LABELS:
            fix_map(labels, c)


@kernel
def insert_sorted(row: Vec, n: int, label: float) -> None:
    """Insert a label into the n sorted ones at the front of the row."""
    place = n
    while place > 0 and row[place - 1] > label:
        row[place] = row[place - 1]
        place -= 1
    row[place] = label


@kernel
def fix_map(labels: LabelMap, c: int) -> None:
    """Fix the map of output c from its first labels; labels that are all equal are only shifted."""
    row = labels.first[c]
    median = 0.5 * (row[FIRST_LABELS // 2 - 1] + row[FIRST_LABELS // 2])
    reach = 2.0 * max(row[FIRST_LABELS - 1] - median, median - row[0])
    labels.centre[c] = median
    labels.spread[c] = reach if reach > 0.0 else 1.0
