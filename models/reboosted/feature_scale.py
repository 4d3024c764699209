"""Offset and factor of every column: rows are float32, and must tell apart what float64 does.

Identifiers, seconds since 1970 and sums of money vary by far less than they are large. Where most
of a column's consecutive values differ by less than `CLOSE` of their distance from its offset, the
last value becomes the offset; where most are beyond float32's range, a power of 2 the factor. All
other columns keep offset 0 and factor 1, which change no number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import MIN_MOVE_GAP, MOVE_GAP_DIVISOR
from kaboost.models.reboosted.state import Keys
from kaboost.models.reboosted.trees.binning import fill_keys
from kaboost.models.types import Ints, Mat, Vec
from kaboost.models.verbs import learning_only

BLOCK = 8  # values of a column that are judged together
MIN_CLOSE, MIN_EXTREME = 5, 3  # of these: the offset, the factor moves
CLOSE = 2.0**-15  # of the distance from the offset: about 500 float32 numbers lie between
ROUNDING = 2.0**-50  # a smaller share of a value is rounding
TINY, HUGE = 1e-30, 1e30  # sizes that a column's values are kept between
TARGET_EXPONENT = 80  # of 2, of an extreme value once its column's factor has moved
EVERY_EVENT_BEFORE, OBSERVE_EVERY = 64, 4  # events; later only one in so many is observed
SEEN, NEAR, EXTREME, DUE = range(4)  # rows of `FeatureScale.counts`
OFFSET_DUE, FACTOR_DUE = 1, 2
MOVE_AT, GAP = 0, 1  # rows of `FeatureScale.moves`


class FeatureScale(NamedTuple):
    """Trees and linear learners see (x - offset) * factor of every column x."""

    offset: Vec  # (d,)
    factor: Vec  # (d,) powers of 2
    last: Vec  # (d,) last value observed
    extreme: Vec  # (d,) last extreme distance from the offset
    counts: Ints  # (4, d) of the block: values, close ones, extreme ones; which move is due
    moves: Ints  # (2, d) event from which on a column may move again; events until then, next time


@learning_only.register
def _(scale: FeatureScale) -> tuple[str, ...]:
    return ("last", "extreme", "counts", "moves")


def feature_scale(d: int) -> FeatureScale:
    """Return the scale of d columns before any event."""
    moves = np.zeros((2, d), np.int64)
    moves[GAP] = MIN_MOVE_GAP
    return FeatureScale(
        offset=np.zeros(d),
        factor=np.ones(d),
        last=np.zeros(d),
        extreme=np.zeros(d),
        counts=np.zeros((4, d), np.int64),
        moves=moves,
    )


def with_features(old: FeatureScale, d: int) -> FeatureScale:
    """Return the scale of d columns, no fewer than before."""
    made = feature_scale(d)
    for before, after in zip(old, made, strict=True):
        after[..., : before.shape[-1]] = before
    return made


def scaled_keys(scale: FeatureScale, X: Mat) -> Keys:
    """Return the keys (B, d) of X (B, d)."""
    keys = np.empty(X.shape, np.int32)
    fill_keys(X, scale.offset, scale.factor, keys)
    return keys


@kernel
def observe_rows(scale: FeatureScale, X: Mat, W: Vec, first: int, last: int, t: int) -> int:
    """Observe rows [first, last) of X (B, d), of importances W (B,), after t events; stop where
    moves are due. Return the number of the row after the last one observed.
    """
    for k in range(first, last):
        if W[k] > 0.0:
            often = t < EVERY_EVENT_BEFORE or t % OBSERVE_EVERY == 0
            t += 1
            if often and _observe(scale, X[k]) and _judge(scale, t):
                return k + 1
    return last


@kernel
def _observe(scale: FeatureScale, x: Vec) -> bool:
    """Count a row x (d,); return whether a column's block is full."""
    offset, factor, last = scale.offset, scale.factor, scale.last
    seen, near, extreme = scale.counts[SEEN], scale.counts[NEAR], scale.counts[EXTREME]
    full = False
    for j in range(x.shape[0]):
        value, distance = x[j], abs(x[j] - offset[j])
        if distance < math.inf:  # neither missing nor infinite
            step, size = abs(value - last[j]), distance * factor[j]
            near[j] += ROUNDING * abs(value) < step < CLOSE * distance
            if size > HUGE or (size < TINY and distance > 0.0):
                extreme[j] += 1
                scale.extreme[j] = distance
            last[j] = value
            seen[j] += 1
            full = full or seen[j] == BLOCK
    return full


@kernel
def _judge(scale: FeatureScale, t: int) -> bool:
    """Begin the next block of columns whose block is full after t events; return whether one has to
    move.
    """
    counts, moves, due = scale.counts, scale.moves, False
    for j in range(counts.shape[1]):
        if counts[SEEN, j] == BLOCK:
            moved = counts[NEAR, j] >= MIN_CLOSE or counts[EXTREME, j] >= MIN_EXTREME
            if moved and t >= moves[MOVE_AT, j]:
                counts[DUE, j] = OFFSET_DUE if counts[NEAR, j] >= MIN_CLOSE else FACTOR_DUE
                due = True
                gap = int(moves[GAP, j])
                soon = t - moves[MOVE_AT, j] < gap
                gap = min(2 * gap, t // MOVE_GAP_DIVISOR) if soon else gap // 2
                moves[GAP, j] = max(gap, MIN_MOVE_GAP)
                moves[MOVE_AT, j] = t + moves[GAP, j]
            counts[SEEN, j], counts[NEAR, j], counts[EXTREME, j] = 0, 0, 0
    return due


def next_scale(scale: FeatureScale) -> FeatureScale:
    """Return the scale after all moves that are due, over new arrays of offsets and factors."""
    due = scale.counts[DUE]
    offset, moved = np.where(due == OFFSET_DUE, scale.last, scale.offset), due == FACTOR_DUE
    exponent = np.frexp(np.where(moved, scale.extreme, 1.0))[1].astype(np.int64)
    target = np.where(exponent < 0, -TARGET_EXPONENT, TARGET_EXPONENT)
    power = np.clip(target - exponent, -1000, 1000)
    return scale._replace(offset=offset, factor=np.where(moved, np.ldexp(1.0, power), scale.factor))
