"""More features for trees that have learned: every array of the state laid out anew.

Features of an event stand first and the label lags last, so lags move up, and so do the copies of
all features that send missing values left. Events of the window had none of the new features: they
are missing there. Nothing that was learned is lost, but for the oldest events of a window that has
become shorter.
"""

from __future__ import annotations

import numpy as np

from kaboost.models.reboosted.state import (
    LAGS,
    MISSING,
    Bins,
    Pace,
    Plan,
    Reboosted,
    Setup,
    Trees,
    Window,
    Work,
    bank,
    works,
)
from kaboost.models.reboosted.trees.binning import LARGEST
from kaboost.models.types import Ints

FEATURE, CHILD = 16, 0xFFFF  # where a node has its feature, and the mask of its child


def widened(old: Reboosted, setup: Setup, d0: int) -> tuple[Reboosted, tuple[Work, ...]]:
    """Return trees over d0 features, more than before, that know what the old ones do, which are at
    rest; and their works.

    Raises
    ------
    ModelError
        The memory bound holds no window of so many features.
    """
    before = old.window.codes.shape[1] - LAGS
    fresh = bank(setup, d0, 0)
    places = np.r_[0:before, d0 : d0 + LAGS]  # of the old columns among the new
    made = Reboosted(
        plan=_plan(old.plan, fresh.plan),
        trees=tuple(_trees(one, before, d0) for one in old.trees),
        y0=old.y0,
        lags=old.lags,
        window=_window(old, fresh.window, places),
        bins=_bins(old, fresh.bins, places),
        pace=_pace(old.pace, fresh.pace, places),
    )
    return made, works(setup, made.plan, d0)


def _plan(old: Plan, fresh: Plan) -> Plan:
    return old._replace(window=fresh.window, features=fresh.features)


def _trees(old: Trees, before: int, d0: int) -> Trees:
    """Return the trees with the numbers that features have from now on; a leaf keeps its own."""
    d, more = before + LAGS, d0 - before
    feature, child = (old.nodes >> FEATURE) & CHILD, old.nodes & CHILD
    left = feature >= d  # missing values go left
    plain = np.where(left, feature - d, feature)
    moved = np.where(plain >= before, plain + more, plain) + np.where(left, d + more, 0)
    leaf = child == np.arange(old.nodes.shape[1])
    moved = np.where(leaf, feature, moved)
    return old._replace(nodes=(old.nodes >> 32 << 32) | (moved << FEATURE) | child)


def _window(old: Reboosted, fresh: Window, places: Ints) -> Window:
    """Return the window with as many of the last events as it has room for."""
    t, before, after = int(old.pace.time), len(old.window.labels), len(fresh.labels)
    events = np.arange(max(0, t - min(before, after)), t)
    source, goal = events % before, events % after
    fresh.codes[:] = MISSING
    fresh.codes[goal[:, None], places] = old.window.codes[source]
    fresh.labels[goal], fresh.weights[goal] = old.window.labels[source], old.window.weights[source]
    fresh.prefix[:, goal] = old.window.prefix[:, source]
    return fresh


def _bins(old: Reboosted, fresh: Bins, places: Ints) -> Bins:
    bins, t = old.bins, int(old.pace.time)
    for name in ("edges", "counts", "lowest", "highest", "lost", "fresh", "fresh_counts", "recode"):
        getattr(fresh, name)[places] = getattr(bins, name)
    new = np.setdiff1d(np.arange(len(fresh.counts)), places)
    fresh.recode[new, MISSING] = MISSING
    fresh.lost[new] = t > 0
    # As many rows as before, since no window is shorter; after a shrink they reach back further
    # than the window, and bins follow a drift the more slowly.
    fresh.sample[:] = LARGEST
    fresh.sample[:, places] = bins.sample
    return fresh._replace(stride=bins.stride, due=bins.due, joined=bins.joined, at=bins.at)


def _pace(old: Pace, fresh: Pace, places: Ints) -> Pace:
    fresh.gains[:, places] = old.gains
    return old._replace(gains=fresh.gains)
