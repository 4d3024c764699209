"""Bins that follow the features: new edges from time to time, and new codes for the window's.

Where a feature drifts, an old bin goes whole to the new one that holds its middle, so that no raw
rows need to be kept. The work is spread over events; specification of reboosted trees, 2.7.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import REBIN_EVERY
from kaboost.models.reboosted.state import (
    CODES,
    CODING,
    CUTTING,
    IDLE,
    LABEL_MEANS,
    REQUESTED,
    Bins,
    Codes,
    Keys,
)
from kaboost.models.reboosted.trees.cost import (
    CUT_NS,
    CUTTING_SLICE_NS,
    EXACT_RECODE_FACTOR,
    FIT_NS,
    READ_NS,
    RECODE_NS,
    RECODED_PER_EVENT,
    SORT_NS,
)
from kaboost.models.reboosted.trees.edges import keep_edges, make_edges, map_codes, sort_column
from kaboost.models.reboosted.trees.recent import crowds_new_edges, is_crowded, mix_recent, new_code
from kaboost.models.reboosted.trees.sample import collect_column, new_feature_delay, sample_rows
from kaboost.models.types import Ints


@kernel
def update_bins(bins: Bins, codes: Codes, t: int, status: Ints) -> float:
    """Do one event's part of making bins, if they are due: t events stand in codes (R, d). Return
    the ns it took.

    It does not start before all status (K,) are 0, and no tree is started before it is done.
    """
    progress = bins.progress[0]
    if progress.step <= REQUESTED and t >= bins.rebin_at[()]:
        progress.step, progress.moved = REQUESTED, 0
    if progress.step == REQUESTED and not status.any():
        progress.step, progress.feature = CUTTING, 0
    if progress.step == CUTTING:
        return float(_cut_features(bins, codes, t))
    return float(_recode_window(bins, codes, t)) if progress.step == CODING else 0.0


@kernel
def _cut_features(bins: Bins, codes: Codes, t: int) -> float:
    """Make edges for some of the features; return the ns it took.

    One event makes those of many features where few events have them.
    """
    progress = bins.progress[0]
    d, j, left_ns = bins.counts.shape[0], int(progress.feature), CUTTING_SLICE_NS
    rows, only_moved = sample_rows(bins, t), progress.moved > 0
    while left_ns > 0.0 and j < d:
        if only_moved and bins.moved[j] == 0 and j < d - LABEL_MEANS:
            bins.moved[j] = is_crowded(bins, codes, j, t)
        left_ns -= _cut_feature(bins, j, t, rows)
        j += 1
    progress.feature = j
    if j == d:
        progress.step, progress.event = CODING, 0
    return CUTTING_SLICE_NS - left_ns


@kernel
def _cut_feature(bins: Bins, j: int, t: int, rows: int) -> float:
    """Make edges of feature j, where they are due; return the ns it took.

    Those of the sample alone serve unless recent values would share one bin.
    """
    only_moved, left = bins.progress[0].moved > 0, j < bins.counts.shape[0] - LABEL_MEANS
    if only_moved and bins.moved[j] == 0:
        keep_edges(bins, j)
        return CUT_NS
    n = collect_column(bins, j, t, rows)
    ns = READ_NS * rows + SORT_NS * n + FIT_NS * int(bins.counts[j]) + CUT_NS
    bins.moved[j] = 1 if only_moved else 0
    if not only_moved:
        make_edges(bins, j, n)
        bins.moved[j] = 1 if left and crowds_new_edges(bins, j, t) else 0
    if bins.moved[j] > 0:
        sort_column(bins, n)
        make_edges(bins, j, mix_recent(bins, j, t, n))
        collect_column(bins, j, t, rows)
        sort_column(bins, n)
        ns *= 2.0
    map_codes(bins, j, n)
    return ns


@kernel
def _recode_window(bins: Bins, codes: Codes, t: int) -> float:
    """Re-code part of the window, oldest event first; the new edges hold once it is all done.
    Return the ns it took.
    """
    progress, (R, d) = bins.progress[0], codes.shape
    exact = bins.stride[()] == 1 and t <= bins.sample.shape[0]
    factor = EXACT_RECODE_FACTOR if exact else 1
    first = max(int(progress.event), t - R)
    last = min(t, first + RECODED_PER_EVENT // d // factor + 1)
    for i in range(first, last):
        if exact:
            _recode_exactly(bins, codes[i % R], bins.sample[i])
        else:
            row = codes[i % R]
            for j in range(d):
                row[j] = bins.new_codes[j, row[j] & 63]
            if i >= t - bins.recent.shape[0]:
                _recode_moved(bins, row, bins.recent[i % bins.recent.shape[0]])
    progress.event = last
    if last == t:
        _install(bins, t)
    return float((last - first) * d * RECODE_NS * float(factor))


@kernel
def _recode_moved(bins: Bins, codes: Codes, keys: Keys) -> None:
    """Fill the codes (d,) of features that moved from their keys (d,)."""
    for j in range(codes.shape[0]):
        if bins.moved[j] > 0:
            codes[j] = new_code(bins, j, keys[j])


@kernel
def _recode_exactly(bins: Bins, codes: Codes, keys: Keys) -> None:
    """Fill the codes (d,) of an event from its keys (d,)."""
    for j in range(codes.shape[0]):
        codes[j] = new_code(bins, j, keys[j])


@kernel
def _install(bins: Bins, t: int) -> None:
    """Replace the edges, and set when they are made next."""
    for j in range(bins.counts.shape[0]):
        bins.counts[j], bins.moved[j] = bins.new_counts[j], 0
        for b in range(CODES):
            bins.edges[j, b] = bins.new_edges[j, b]
    only_moved, bins.progress[0].moved = bins.progress[0].moved > 0, 0
    bins.progress[0].step = IDLE
    if only_moved:
        return
    due, new_at = int(bins.rebin_at[()]), int(bins.new_feature_at[()])
    if new_at >= due:
        bins.rebin_at[()] = max(new_at + new_feature_delay(bins, new_at), t + 1)
    elif new_at > 0:
        bins.rebin_at[()] = max(min(2 * due, due + REBIN_EVERY, due + 3 * (due - new_at)), t + 1)
    else:
        bins.rebin_at[()] = min(2 * due, due + REBIN_EVERY)
