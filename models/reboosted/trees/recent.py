"""The keys of the last events: whether bins tell them apart, and edges that do.

Edges come from an even sample of the window, so values of a new range are few in it for long. Where
most of the last values share one bin, half of the edges come from them instead; the other half
keeps the old range apart.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import (
    CHECK_EVENTS,
    CROWDED_SHARE,
    MIN_CROWD,
    RECENT_SHARE,
)
from kaboost.models.reboosted.state import CODES, MISSING, Bins, Codes
from kaboost.models.reboosted.trees.binning import MISSING_KEY


@kernel
def new_code(bins: Bins, j: int, key: int) -> int:
    """Return the code of a key of feature j under the edges to come."""
    code = 0
    for b in range(int(bins.new_counts[j])):
        code += bins.new_edges[j, b] < key
    return MISSING if key == MISSING_KEY else code


@kernel
def is_crowded(bins: Bins, codes: Codes, j: int, t: int) -> bool:
    """Return whether one bin of feature j holds most of the last values though they differ, after t
    events in codes (R, d).
    """
    R, counts, present, scanned = codes.shape[0], bins.digit_counts, 0, CHECK_EVENTS // 8
    for c in range(CODES):
        counts[c] = 0
    for i in range(t - CHECK_EVENTS, t):
        counts[codes[i % R, j]] += 1
        if i == t - CHECK_EVENTS + scanned and counts[MISSING] > scanned:
            return False  # a feature that few events have costs no more
    present, fullest = CHECK_EVENTS - int(counts[MISSING]), 0
    for c in range(MISSING):
        fullest = c if counts[c] > counts[fullest] else fullest
    least = max(CROWDED_SHARE * present, float(MIN_CROWD))
    if counts[fullest] <= least:
        return False
    low = bins.edges[j, fullest - 1] if fullest > 0 else -MISSING_KEY
    high = bins.edges[j, fullest] if fullest < bins.counts[j] else MISSING_KEY - 1
    return _differing(bins, j, t, CHECK_EVENTS, low, high) > least


@kernel
def _differing(bins: Bins, j: int, t: int, n: int, low: int, high: int) -> int:
    """Return how many of the last n keys of feature j in (low, high] are not the most frequent of
    them, if one is more frequent than all others together; else about all.
    """
    Q, votes, candidate, total = bins.recent.shape[0], 0, MISSING_KEY, 0
    for i in range(t - n, t):
        k = bins.recent[i % Q, j]
        if low < k <= high:
            candidate = int(k) if votes == 0 else candidate
            votes += 1 if k == candidate else -1
            total += 1
    for i in range(t - n, t):
        total -= bins.recent[i % Q, j] == candidate
    return total


@kernel
def crowds_new_edges(bins: Bins, j: int, t: int) -> bool:
    """Return whether one bin between the edges to come holds more than half as much as is crowded
    of all recent values, though they differ.
    """
    n, counts = min(t, bins.recent.shape[0]), bins.digit_counts
    for c in range(CODES):
        counts[c] = 0
    for i in range(t - n, t):
        counts[new_code(bins, j, int(bins.recent[i % bins.recent.shape[0], j]))] += 1
    least = max(0.5 * CROWDED_SHARE * (n - counts[MISSING]), float(MIN_CROWD))
    for c in range(int(bins.new_counts[j]) + 1):
        low = bins.new_edges[j, c - 1] if c > 0 else -MISSING_KEY
        high = bins.new_edges[j, c] if c < bins.new_counts[j] else MISSING_KEY - 1
        if counts[c] > least and _differing(bins, j, t, n, low, high) > least:
            return True
    return False


@kernel
def mix_recent(bins: Bins, j: int, t: int, n: int) -> int:
    """Thin the n sorted keys in bins.column, and append recent keys of feature j, repeated, so that
    these get their share of the edges; return how many keys there are.
    """
    column, Q = bins.column, bins.recent.shape[0]
    S = column.shape[0]
    kept = min(n, int((1.0 - RECENT_SHARE) * S))
    for i in range(kept):
        column[i] = column[(2 * i + 1) * n // (2 * kept)]
    first, present = t - min(t, Q if bins.progress[0].moved == 0 else CHECK_EVENTS), 0
    for i in range(first, t):
        present += bins.recent[i % Q, j] != MISSING_KEY
    if present == 0:
        return kept
    copies = max(kept // present, 1)
    for i in range(first, t):
        k = bins.recent[i % Q, j]
        for _ in range(copies if k != MISSING_KEY else 0):
            if kept < S:
                column[kept] = k
                kept += 1
    return kept
