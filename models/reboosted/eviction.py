"""Columns of features that no longer matter: which they are, and beginning them again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kaboost.models.reboosted.add_features import CHILD_MASK, FEATURE_SHIFT
from kaboost.models.reboosted.booster import ReboostedTrees
from kaboost.models.reboosted.config import Sizes
from kaboost.models.reboosted.feature_scale import feature_scale
from kaboost.models.reboosted.imputation import MIN_SEEN, NO_VALUE
from kaboost.models.reboosted.initial import bank
from kaboost.models.reboosted.linear import linear_filters
from kaboost.models.reboosted.state import LABEL_MEANS, MISSING, Reboosted
from kaboost.models.reboosted.trees.binning import MISSING_KEY
from kaboost.models.types import Ints


def used_columns(booster: ReboostedTrees) -> NDArray[np.bool_]:
    """Return which columns (d,) matter: a tree splits on them, or an event of the window has a
    value there.
    """
    trees = booster.trees
    d0 = trees.window.codes.shape[1] - LABEL_MEANS
    used = (trees.window.codes[:, :d0] != MISSING).any(axis=0)
    for structure in trees.structures:
        nodes = structure.nodes
        feature, child = (nodes >> FEATURE_SHIFT) & CHILD_MASK, nodes & CHILD_MASK
        split = feature[child != np.arange(nodes.shape[1])]
        column = split % (d0 + LABEL_MEANS)  # a second copy of all features sends missing left
        used[column[column < d0]] = True
    return np.asarray(used)


def reset_columns(booster: ReboostedTrees, sizes: Sizes, columns: Ints) -> None:
    """Begin unused columns again, as if all events so far had no value there. No tree may be
    growing.
    """
    d = len(booster.linear.mean)
    _reset_trees(booster.trees, bank(sizes, d, 0), columns)
    filters, fresh = booster.linear, linear_filters(d)
    blocks = (filters.weights.shape[1] - 2 * d - 1) // d
    of_categories = 2 * d + 1 + (columns[:, None] * blocks + np.arange(blocks)).ravel()
    inputs = np.r_[columns, columns + d, of_categories]
    filters.weights[:, inputs] = fresh.weights[:, inputs]
    filters.variances[:, inputs] = fresh.variances[:, inputs]
    filters.energy[:, columns] = 0.0
    for name in ("mean", "variance", "counts", "scaled", "categorical"):
        getattr(filters, name)[columns] = 0.0
    for ours, new in zip(booster.features, feature_scale(d), strict=True):
        ours[..., columns] = new[..., columns]
    imputation = booster.imputation
    imputation.rows[:, columns], imputation.seen[:, columns] = np.nan, 0.0
    imputation.seen[NO_VALUE, columns] = MIN_SEEN if imputation.sampled > 0.0 else 0.0


def _reset_trees(trees: Reboosted, fresh: Reboosted, columns: Ints) -> None:
    """Begin the bins of columns again."""
    bins = trees.bins
    for name in (
        "edges", "counts", "lowest", "highest", "new_edges", "new_counts", "new_codes", "moved",
        "check_at", "check_gap",
    ):  # fmt: skip
        getattr(bins, name)[columns] = getattr(fresh.bins, name)[columns]
    bins.new_codes[columns, MISSING] = MISSING
    bins.has_missing[columns] = int(trees.schedule.time) > 0
    bins.sample[:, columns] = MISSING_KEY
    bins.recent[:, columns] = fresh.bins.recent[:, columns]
    trees.schedule.feature_gains[:, columns] = fresh.schedule.feature_gains[:, columns]
