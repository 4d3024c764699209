"""More features, or other sizes, for trees that have learned: every array is laid out again.

Features of an event stand first and the label means last, so these move up, and so do the copies of
all features that send missing values left. In the window the new features are missing. Nothing that
was learned is lost, except the oldest events of a window that has become shorter. Of structures
that have become smaller the last trees go, and those with more leaves than there may be.
"""

from __future__ import annotations

import numpy as np

from kaboost.models.reboosted.config import Sizes
from kaboost.models.reboosted.initial import bank, tree_builds
from kaboost.models.reboosted.state import (
    LABEL_MEANS,
    MISSING,
    Bins,
    Reboosted,
    Schedule,
    TreeBuild,
    Trees,
    Window,
)
from kaboost.models.reboosted.trees.binning import MISSING_KEY
from kaboost.models.types import Ints

FEATURE_SHIFT, CHILD_MASK = 16, 0xFFFF  # of a node
_BY_FEATURE = (  # fields of bins
    "edges", "counts", "lowest", "highest", "has_missing", "new_edges", "new_counts", "new_codes",
    "moved", "check_at", "check_gap",
)  # fmt: skip


def with_features(old: Reboosted, sizes: Sizes, d0: int) -> tuple[Reboosted, tuple[TreeBuild, ...]]:
    """Return trees over d0 features, no fewer than before, that have learned what the old ones
    have, and their builds. No old tree may be growing.

    Raises
    ------
    ModelError
        The memory bound holds no window of so many features.
    """
    before = old.window.codes.shape[1] - LABEL_MEANS
    fresh = bank(sizes, d0, 0)
    places = np.r_[0:before, d0 : d0 + LABEL_MEANS]  # of the old columns among the new
    made = Reboosted(
        params=fresh.params,
        structures=tuple(
            _fitted(_trees(one, before, d0), new)
            for one, new in zip(old.structures, fresh.structures, strict=True)
        ),
        base_score=old.base_score,
        label_means=old.label_means,
        window=_window(old, fresh.window, places),
        bins=_bins(old, fresh.bins, places),
        schedule=_schedule(old.schedule, fresh, places),
    )
    return made, tree_builds(sizes, made.params, d0)


def _trees(old: Trees, before: int, d0: int) -> Trees:
    """Return the trees with the new numbers of features; a leaf keeps its number."""
    d, more = before + LABEL_MEANS, d0 - before
    feature, child = (old.nodes >> FEATURE_SHIFT) & CHILD_MASK, old.nodes & CHILD_MASK
    left = feature >= d  # missing values go left
    column = np.where(left, feature - d, feature)
    moved = np.where(column >= before, column + more, column) + np.where(left, d + more, 0)
    leaf = child == np.arange(old.nodes.shape[1])
    moved = np.where(leaf, feature, moved)
    return old._replace(nodes=(old.nodes >> 32 << 32) | (moved << FEATURE_SHIFT) | child)


def _fitted(old: Trees, fresh: Trees) -> Trees:
    """Return as many of the trees as there may be, and empty ones up to that number."""
    nodes, child = old.nodes, old.nodes & CHILD_MASK
    leaves = (child == np.arange(nodes.shape[1])).sum(axis=1)
    kept = np.flatnonzero(leaves[: len(fresh.nodes)] <= fresh.rows.shape[1])
    width = min(nodes.shape[1], fresh.nodes.shape[1])
    rows = min(old.rows.shape[1], fresh.rows.shape[1])
    fresh.nodes[kept, :width] = nodes[kept, :width]
    fresh.rows[kept, :rows] = old.rows[kept, :rows]
    return fresh


def _window(old: Reboosted, fresh: Window, places: Ints) -> Window:
    """Return the window with as many of the last events as fit."""
    t, before, after = int(old.schedule.time), len(old.window.labels), len(fresh.labels)
    events = np.arange(max(0, t - min(before, after)), t)
    source, target = events % before, events % after
    fresh.codes[:] = MISSING
    fresh.codes[target[:, None], places] = old.window.codes[source]
    fresh.labels[target], fresh.weights[target] = (
        old.window.labels[source],
        old.window.weights[source],
    )
    fresh.prefix[:, target] = old.window.prefix[:, source]
    return fresh


def _bins(old: Reboosted, fresh: Bins, places: Ints) -> Bins:
    bins, t = old.bins, int(old.schedule.time)
    for name in _BY_FEATURE:
        getattr(fresh, name)[places] = getattr(bins, name)
    new = np.setdiff1d(np.arange(len(fresh.counts)), places)
    fresh.new_codes[new, MISSING] = MISSING
    fresh.has_missing[new] = t > 0
    # As many rows as before, since no window is shorter; after a shrink they reach back further
    # than the window, and bins follow a drift more slowly.
    fresh.sample[:] = MISSING_KEY
    fresh.sample[:, places] = bins.sample
    fresh.recent[:, places] = bins.recent
    return fresh._replace(
        stride=bins.stride,
        rebin_at=bins.rebin_at,
        new_feature_at=bins.new_feature_at,
        progress=bins.progress,
    )


def _schedule(old: Schedule, fresh: Reboosted, places: Ints) -> Schedule:
    gains = fresh.schedule.feature_gains
    gains[:, places] = old.feature_gains
    counts = [len(one.nodes) for one in fresh.structures]
    cursor = np.where(old.cursor < counts, old.cursor, 0)  # a sweep begins where its trees are gone
    return old._replace(feature_gains=gains, cursor=cursor)
