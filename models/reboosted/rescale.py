"""Moves of columns' offsets and factors: all numbers of the state that are keys of these columns.

Cuts, edges and samples stay where they were, as far as float32 can say it in the new scale. What
float32 did not tell apart from the new offset becomes the offset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaboost.models.reboosted.add_features import CHILD_MASK, FEATURE_SHIFT
from kaboost.models.reboosted.feature_scale import CLOSE, DUE, FeatureScale, next_scale
from kaboost.models.reboosted.linear import LinearFilters, reset_column
from kaboost.models.reboosted.state import LABEL_MEANS, Keys
from kaboost.models.reboosted.trees.binning import MAX_NUMBER, MISSING_KEY, to_key, to_keys
from kaboost.models.types import Ints, Vec

SINGLE_ROUNDING = 2.0**-23  # share of a number within which float32 may have rounded it
MOST_KEY, LEAST_KEY = to_key(MAX_NUMBER), to_key(-MAX_NUMBER)  # beyond: no numbers


def move_columns(booster: Any) -> None:
    """Move the columns that are due, of `ReboostedTrees` or trees of classes."""
    old = booster.features
    columns = np.flatnonzero(old.counts[DUE])
    if not len(columns):
        return
    new = next_scale(old)
    bins, d = booster.trees.bins, int(booster.shape[0])
    for keys in (bins.edges, bins.new_edges):
        keys[columns] = _moved(old, new, keys[columns], columns[:, None])
    for keys in (bins.lowest, bins.highest):
        keys[columns] = _moved(old, new, keys[columns], columns)
    for keys in (bins.sample, bins.recent):
        keys[:, columns] = _moved(old, new, keys[:, columns], columns[None, :])
    for nodes in (
        *(trees.nodes for trees in booster.trees.structures),
        *(build.served_nodes for build in booster.builds),
    ):
        _move_cuts(old, new, nodes, d)
    for j in columns.tolist():
        _move_column(old, new, booster.linear, j)
    old.offset[...], old.factor[...], old.counts[DUE] = new.offset, new.factor, 0


def real_values(scale: FeatureScale, keys: NDArray[Any], columns: Ints) -> Vec:
    """Return the numbers that keys of columns, of the same shape or broadcast to it, stand for."""
    bits = np.where(keys >= 0, keys, keys ^ MISSING_KEY).astype(np.int32)
    singles = bits.view(np.float32).astype(np.float64)
    return np.asarray(singles / scale.factor[columns] + scale.offset[columns])


def _moved(old: FeatureScale, new: FeatureScale, keys: Keys, columns: Ints) -> Keys:
    """Return keys of columns in the new scale; those that are no numbers stay."""
    number = (keys <= MOST_KEY) & (keys >= LEAST_KEY)
    x = real_values(old, np.where(number, keys, 0), columns)
    off = x - new.offset[columns]
    off[abs(off) <= SINGLE_ROUNDING * abs(x - old.offset[columns])] = 0.0
    scaled = np.ascontiguousarray(off * new.factor[columns])  # another order is another kernel
    moved = to_keys(np.atleast_2d(scaled)).reshape(keys.shape)
    return np.where(number, moved, keys)


def _move_cuts(old: FeatureScale, new: FeatureScale, nodes: Ints, d0: int) -> None:
    """Move the cuts of nodes by moved columns."""
    columns = (nodes >> FEATURE_SHIFT & CHILD_MASK) % (d0 + LABEL_MEANS)
    is_leaf = (nodes & CHILD_MASK) == np.arange(nodes.shape[-1])
    due = np.append(old.counts[DUE] > 0, np.zeros(LABEL_MEANS, np.bool_))
    places = np.nonzero(due[columns] & ~is_leaf)
    cuts = nodes[places]
    keys = _moved(old, new, (cuts >> 32).astype(np.int32), columns[places])
    nodes[places] = (keys.astype(np.int64) << 32) | (cuts & 0xFFFFFFFF)


def _move_column(old: FeatureScale, new: FeatureScale, filters: LinearFilters, j: int) -> None:
    """Move mean and variance of column j; reset what was learned of it, if float32 did not tell its
    values apart.
    """
    mean = filters.mean[j] / old.factor[j] + old.offset[j]
    off = mean - new.offset[j]
    rescaled = new.factor[j] != old.factor[j]
    if rescaled or abs(off) <= CLOSE * abs(mean - old.offset[j]):
        reset_column(filters, j)
    else:
        filters.mean[j] = off * new.factor[j]
