"""Checks and encodings of labels, and the running mean that y0 uses: shared by losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import LABEL_LIMIT, Mat, ModelError, Param, Vec

L2 = Param("l2", 0.0, "weight r of the term r |score|^2", low=0.0, high=1e6)


def as_columns(y: Vec) -> Mat:
    """Return labels (B,) or (B, k) as (B, k)."""
    return y[:, None] if y.ndim == 1 else y


def number_labels(y: Vec, m: int) -> Mat:
    """Return numeric labels as (B, m); refuse other shapes and values that are not finite."""
    Y = as_columns(y)
    if Y.shape[1] != m:
        raise ModelError(
            f"y: has {Y.shape[1]} columns for m = {m} outputs; give one number per output"
        )
    if not np.isfinite(Y).all():
        raise ModelError("y: holds a value that is not finite; leave such events out")
    return Y


def margin_labels(y: Vec, m: int) -> Mat:
    """Return binary labels, 0 and 1 or -1 and 1, as -1.0 and 1.0, (B, 1)."""
    Y = as_columns(y)
    if Y.shape[1] != 1:
        raise ModelError(f"y: has {Y.shape[1]} columns; a binary label is one number, 0 or 1")
    known = (Y == 0.0) | (Y == 1.0) if not (Y == -1.0).any() else abs(Y) == 1.0
    if not known.all():
        raise ModelError(
            f"y: {Y[~known][0]:g} does not fit: binary labels are 0 and 1, or -1 and 1 throughout; "
            "map yours before learning"
        )
    return np.where(Y > 0.0, 1.0, -1.0)


def needs_one_output(context: Mapping[str, Any]) -> str | None:
    """Refuse a binary loss for several outputs."""
    if context["m"] == 1:
        return None
    kind = context["loss"]["kind"]
    return f"{kind} is binary: one output, not {context['m']}; take softmax for more classes"


@kernel
def update_mean(y: Vec, w: float, total: float, counts: Vec) -> None:
    """Update the running mean counts (m,) by labels y (m,) of weight w; `total` includes w."""
    for c in range(counts.shape[0]):  # sums of large labels would overflow
        z = min(max(y[c], -LABEL_LIMIT), LABEL_LIMIT)
        counts[c] += w / total * (z - counts[c])


@kernel
def copy_scores(s: Vec, p: Vec) -> None:
    """Copy s to p: the inverse link of losses whose score is the prediction."""
    for c in range(s.shape[0]):
        p[c] = s[c]
