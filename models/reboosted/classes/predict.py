"""Predict events of several classes, and keep what learning needs when a label comes late."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.classes.ensemble import ClassTrees, ServedClasses
from kaboost.models.reboosted.classes.scores import (
    ClassScratch,
    class_lines,
    class_mixtures,
    class_scratch,
    tree_logits,
)
from kaboost.models.reboosted.classes.state import served_filters
from kaboost.models.reboosted.linear_inputs import InputRow, blank_row
from kaboost.models.reboosted.predict import fill_row, read_columns
from kaboost.models.reboosted.state import Keys
from kaboost.models.reboosted.trees.traverse import traverse
from kaboost.models.types import Ints, Mat, Mat3, Vec


class PredictScratch(NamedTuple):
    """Scratch to predict one event."""

    row: Keys
    leaves: Keys  # (K, N)
    starts: Ints  # (K,) zeros: predictions need no prefix
    inputs: InputRow
    b: ClassScratch


def predict_scratch(booster: ClassTrees) -> PredictScratch:
    """Return scratch to predict events."""
    bank, d0 = booster.trees, int(booster.shape[0])
    K, N = len(bank.structures), max(len(one.nodes) for one in bank.structures)
    row = max(2 * (d0 + bank.label_means.size), *(one.rows.shape[1] for one in bank.structures))
    return PredictScratch(
        np.zeros(row, np.int32),
        np.zeros((K, N), np.int32),
        np.zeros(K, np.int64),
        blank_row(d0),
        class_scratch(K, booster.columns, booster.stack),
    )


@kernel
def predict_rows(
    model: ServedClasses, keys: Keys, s: PredictScratch, scores: Mat, captured: Mat
) -> None:
    """Fill scores (n, C) for the keys (n, d0) of events, and captured (n, 5 + C (S + 2) + 1), if it
    has columns, with what learning needs later: label means; scores of the S learners of each
    class, and twice the score to serve, of which a late mixture may replace the last. The last
    column stays.
    """
    b = s.b
    for k in range(keys.shape[0]):
        _tree_scores(model, keys[k], s)
        read_columns(served_filters(model.linear, 0), keys[k], s.inputs)
        class_lines(model.linear, model.last, s.inputs, b)
        class_mixtures(model.stack, model.calibration, model.calibrated, b, scores[k])
        if captured.shape[1] > 0:
            _capture(model.label_means, b.scores, scores[k], captured[k])


@kernel
def _tree_scores(model: ServedClasses, keys: Keys, s: PredictScratch) -> None:
    fill_row(model.label_means, keys, s.row)
    for k in range(model.base_score.shape[0]):
        traverse(model.structures[k].nodes, model.depth[k], s.row, s.leaves[k])
    tree_logits(model.structures, model.base_score, s.leaves, s.starts, s.b)


@kernel
def _capture(label_means: Vec, scores: Mat, served: Vec, out: Vec) -> None:
    place, n = label_means.shape[0], scores.shape[1]
    for j in range(place):
        out[j] = label_means[j]
    for c in range(scores.shape[0]):
        for i in range(n):
            out[place + i] = scores[c, i]
        out[place + n], out[place + n + 1] = served[c], served[c]
        place += n + 2


@kernel
def prefix_rows(model: ServedClasses, keys: Keys, s: PredictScratch, sums: Mat3) -> None:
    """Fill sums (n, N+1, K C) with the logits of all prefixes of all structures."""
    C = model.base_score.shape[1]
    for r in range(keys.shape[0]):
        _tree_scores(model, keys[r], s)
        for k in range(model.base_score.shape[0]):
            rows = model.structures[k].rows
            for c in range(C):
                total = model.base_score[k, c]
                for i in range(sums.shape[1]):
                    sums[r, i, k * C + c] = total
                    if i < rows.shape[0]:
                        total += float(rows[i, s.leaves[k, i] & 0xFFFF, c])
