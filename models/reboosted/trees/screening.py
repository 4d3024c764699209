"""Screening: which features a tree sees; specification of reboosted trees, 1."""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import State, uniform
from kaboost.models.reboosted.config import (
    BISECTIONS,
    GAIN_COVERED,
    MIN_FEATURES,
    RANDOM_FEATURE_RATE,
)
from kaboost.models.reboosted.state import CODES, Bins, TreeBuild
from kaboost.models.reboosted.trees.cost import FEW_CODES_BINS
from kaboost.models.reboosted.trees.histogram import FEW_CODES
from kaboost.models.types import Vec


@kernel
def choose_columns(gains: Vec, generator: State, bins: Bins, build: TreeBuild) -> int:
    """Fill build.columns with the features that a tree sees, of those with gains (F,); return how
    many.

    Every 16th tree sees all. Others take features in falling order of gain until 95 % of the sum is
    covered, six at least, and each of the rest with probability .1.
    """
    cursor, total, columns = build.cursor[0], 0.0, 0
    for j in range(gains.shape[0]):
        total += gains[j]
    all_features = cursor.all_features > 0 or not total > 0.0
    if not all_features:
        mark_top_features(gains, GAIN_COVERED * total, build.split_gain)
    cursor.bins_scanned = 0
    for j in range(gains.shape[0]):
        drawn = not all_features and uniform(generator) < RANDOM_FEATURE_RATE
        if (all_features or drawn or build.split_gain[j] > 0.0) and _varies(bins, j):
            _add_column(bins, build, j, columns)
            columns += 1
    return columns


@kernel
def _add_column(bins: Bins, build: TreeBuild, j: int, column: int) -> None:
    """Add feature j as the next column of histograms, with as many bins as it needs."""
    cursor = build.cursor[0]
    codes, most = int(bins.counts[j]) + 1, int(cursor.bins)
    build.columns[column] = j
    build.half_bins[column] = most < CODES and codes > most - 1
    width = codes + 1 if codes <= FEW_CODES else most
    build.first_bins[column + 1] = int(build.first_bins[column]) + width
    cursor.bins_scanned += FEW_CODES_BINS + 2 * codes if codes <= FEW_CODES else most


@kernel
def mark_top_features(gains: Vec, goal: float, marks: Vec) -> None:
    """Put 1 in marks (F,) for the features of largest gain that have `goal` of it together, and 0
    for others: MIN_FEATURES at least, ties go to the first.

    The smallest gain of these is found by bisection: taking the largest again and again took 11 ms
    for 7,000 features.
    """
    low, high = _gain_bounds(gains, goal)
    count, covered = 0, 0.0
    for j in range(gains.shape[0]):
        top = gains[j] >= high
        marks[j] = 1.0 if top else 0.0
        count += top
        covered += gains[j] if top else 0.0
    for j in range(gains.shape[0]):  # those between are as good as equal
        if low <= gains[j] < high and (covered < goal or count < MIN_FEATURES):
            marks[j] = 1.0
            count += 1
            covered += gains[j]


@kernel
def _gain_bounds(gains: Vec, goal: float) -> tuple[float, float]:
    """Return a gain whose features suffice, and one just above it whose features do not."""
    low, high = 0.0, 0.0
    for j in range(gains.shape[0]):
        high = max(high, gains[j])
    high *= 2.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        count, covered = 0, 0.0
        for j in range(gains.shape[0]):
            top = gains[j] >= middle
            count += top
            covered += gains[j] if top else 0.0
        if covered >= goal and count >= MIN_FEATURES:
            low = middle
        else:
            high = middle
    return low, high


@kernel
def _varies(bins: Bins, j: int) -> bool:
    return bool(
        bins.counts[j] > 0 or (bins.has_missing[j] > 0 and bins.lowest[j] <= bins.highest[j])
    )
