"""Bins that follow the features: keys and codes of numbers, an even sample of the window, edges at
its quantiles, and new codes for old ones.

A key is an int32 that orders as the float32 it stands for; what is missing has the largest. While
the sample holds every event, edges are made from all there was. Later an edge that is still good is
kept, so that the codes of the window stay exact where features do not drift; where they do, an old
bin goes whole to the new one that holds the middle of it, and no raw rows need to be kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.reboosted.state import CODES, LABEL_MEANS, MISSING, MOST_CUTS, Keys
from kaboost.models.types import UINT, Ints, Mat, Vec

MISSING_KEY = 2147483647  # the key of what is missing
MAX_NUMBER = 3e38  # numbers beyond count as this
IDLE, REQUESTED, CUTTING, CODING = 0, 1, 2, 3
CUTTING_SLICE_NS = 600_000.0  # ns of making edges in one event
READ_NS, SORT_NS, FIT_NS, CUT_NS = (
    5.0,
    12.0,
    800.0,
    2000.0,
)  # ns: a row, a number, an old edge, a feature
RECODED_PER_EVENT, RECODE_NS = 1 << 20, 0.3  # codes that are replaced in one event, and ns of one
RUN_STRIDE = 16  # keys that are looked at together, where most are missing
FIRST_BINS_EVENTS = 100  # events before the first bins
REBIN_EVERY = 100_000  # events from one making of bins to the next, once they are as many
NEW_FEATURE_ROWS = 64  # sampled rows after which a feature that has come up late gets bins
NEW_FEATURE_DIVISOR = (
    16  # but no more often than with a sixteenth more events: re-coding them costs
)


def to_keys(X: Mat) -> Keys:
    """Return the keys (B, d) of numbers X (B, d).

    Examples
    --------
    >>> keys(np.array([[-1.0, 0.0, 1.0, np.nan]])).tolist()
    [[-1065353217, 0, 1065353216, 2147483647]]
    """
    found = np.empty(X.shape, np.int32)
    _fill_keys(X, found)
    return found


@kernel
def _fill_keys(X: Mat, found: Keys) -> None:
    # In one pass: numpy's way, through seven arrays of the batch, was a tenth of learning.
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            found[i, j] = to_key(X[i, j]) if X[i, j] == X[i, j] else MISSING_KEY


@kernel
def to_key(x: float) -> int:
    """Return the key of one number, not missing."""
    single = np.float32(min(max(x, -MAX_NUMBER), MAX_NUMBER)) + np.float32(0.0)  # no -0.0
    bits = int(np.float32(single).view(np.int32))
    return bits if bits >= 0 else bits ^ MISSING_KEY


@kernel
def from_key(k: int) -> float:
    """Return the number of a key."""
    return float(np.int32(k if k >= 0 else k ^ MISSING_KEY).view(np.float32)) * 1.0


@kernel
def column_runs(k: Any, runs: Any) -> None:
    """Fill runs (d + 4,), uint64, with where runs of keys k (d,) that are there begin and end.

    The lags come after all features and are always there: one more run, from d on.
    """
    d, stride = UINT(k.shape[0]), UINT(RUN_STRIDE)
    n, j = UINT(0), UINT(0)
    while j < d:
        if j + stride <= d:
            all_ = k[j]
            for i in range(j, j + stride):
                all_ &= k[
                    i
                ]  # missing is all bits but the first; no key is all bits: there is no -0.0
            if all_ == MISSING_KEY:
                j += stride
                continue
        stop = min(j + stride, d)
        while j < stop:
            if k[j] != MISSING_KEY:
                runs[n] = j
                while j < d and k[j] != MISSING_KEY:
                    j += UINT(1)
                runs[n + UINT(1)] = j
                n += UINT(2)
            j += UINT(1)
    runs[n], runs[n + UINT(1)], runs[n + UINT(2)] = d, d + UINT(LABEL_MEANS), d + UINT(LABEL_MEANS)


@kernel
def count_present(runs: Any, d: int) -> int:
    """Return how many of d columns are in the runs."""
    count, i = 0, 0
    while runs[i] < UINT(d):
        count += int(runs[i + 1] - runs[i])
        i += 2
    return count


@kernel
def from_keys(k: Any, runs: Any, values: Vec) -> None:
    """Fill values (d,) with the numbers of keys k (d,) where the runs are."""
    i = 0
    while runs[i] < UINT(values.shape[0]):
        for j in range(runs[i], runs[i + 1]):
            values[j] = from_key(k[j])
        i += 2


@kernel
def middle_key(a: int, b: int) -> int:
    """Return the key half-way from a to b > a: at least a, less than b."""
    middle = to_key(0.5 * from_key(a) + 0.5 * from_key(b))
    return middle if a <= middle < b else a


@kernel
def encode(edges: Any, x: Any, runs: Any, codes: Any) -> None:
    """Fill codes (d,) with the number of edges (d, 64) below each key x (d,) where the runs are,
    and with that of what is missing elsewhere.
    """
    end, i = UINT(0), 0
    while runs[i] < UINT(codes.shape[0]):
        for j in range(end, runs[i]):
            codes[j] = MISSING
        end = runs[i + 1]
        for j in range(runs[i], end):
            k = x[j]
            c = 0
            c += 32 * (edges[j, c + 31] < k)
            c += 16 * (edges[j, c + 15] < k)
            c += 8 * (edges[j, c + 7] < k)
            c += 4 * (edges[j, c + 3] < k)
            c += 2 * (edges[j, c + 1] < k)
            c += edges[j, c] < k
            codes[j] = c
        i += 2


@inlined
def observe_row(bins: Any, t: int, x: Any, runs: Any) -> None:
    """Keep the keys x (d,) of event t for later edges: every so many events, and the extremes."""
    d = bins.lowest.shape[0]
    new, end, i = 0, UINT(0), 0
    while runs[i] < UINT(d):
        for j in range(end, runs[i]):
            bins.has_missing[j] = 1
        end = runs[i + 1]
        for j in range(runs[i], end):
            new += bins.lowest[j] == MISSING_KEY
            bins.lowest[j] = min(bins.lowest[j], x[j])
            bins.highest[j] = max(bins.highest[j], x[j])
        i += 2
    if new > 0 and t >= FIRST_BINS_EVENTS:
        _observe_new_feature(bins, t)
    if t % bins.stride[()] == 0:
        row = _sample_row(bins, t)
        for j in range(d):
            bins.sample[row, j] = x[j]


@kernel
def _observe_new_feature(bins: Any, t: int) -> None:
    """Have bins made soon: a feature has come up that had been missing in all events before t."""
    bins.new_feature_at[()] = t
    if bins.progress[0] == IDLE:  # else they are being made: `_install` sees to it
        bins.rebin_at[()] = min(int(bins.rebin_at[()]), t + _new_feature_delay(bins, t))


@kernel
def _new_feature_delay(bins: Any, t: int) -> int:
    """Return the events until a feature that comes up at t is in enough rows of the sample."""
    return max(NEW_FEATURE_ROWS * int(bins.stride[()]), t // NEW_FEATURE_DIVISOR)


@inlined
def thin_sample(bins: Any, t: int, R: int) -> None:
    """Keep every second event of a full sample that does not yet reach over the window."""
    stride, S = int(bins.stride[()]), bins.sample.shape[0]
    if t == S * stride and S * stride < R:
        bins.stride[()] = 2 * stride


@kernel
def _sample_row(bins: Any, t: int) -> int:
    """Return the row of the sample (S, d) that event t, a multiple of the stride, goes to.

    It is the number n of the event in the sample with its bits turned round by as many as the
    stride has been doubled. So the events that stay when it doubles stay in their rows, and those
    to come take the rows of those that go: nothing is moved. (Where S is no power of 2 the sample
    is the window, and the stride 1.)
    """
    stride, S = int(bins.stride[()]), bins.sample.shape[0]
    turned = t // stride % S * stride
    return int(turned % S + turned // S)


@kernel
def update_bins(bins: Any, codes: Any, t: int, busy: Ints) -> float:
    """Do one event's part of making bins anew, if they are due: t events stand in codes (R, d).
    Return the ns it took.

    Nothing is begun until no tree is being grown, busy (K,) being 0, and none is begun before it is
    done.
    """
    if bins.progress[0] == IDLE and t >= bins.rebin_at[()]:
        bins.progress[0] = REQUESTED
    if bins.progress[0] == REQUESTED and not busy.any():
        bins.progress[0], bins.progress[1] = CUTTING, 0
    if bins.progress[0] == CUTTING:
        return float(_make_edges(bins, t))
    return float(_recode_window(bins, codes, t)) if bins.progress[0] == CODING else 0.0


@kernel
def _make_edges(bins: Any, t: int) -> float:
    """Make edges for some of the features: for many, where few events have them. Return the ns it
    took.
    """
    d, j, room = bins.counts.shape[0], int(bins.progress[1]), CUTTING_SLICE_NS
    rows = sample_rows(bins, t)
    while room > 0.0 and j < d:
        n = collect_column(bins, j, t, rows)
        _sort(bins.column, bins.spare, bins.digit_counts, n)
        _quantiles(bins, j, n)
        _map_codes(bins, j, n)
        room -= READ_NS * rows + SORT_NS * n + FIT_NS * int(bins.counts[j]) + CUT_NS
        j += 1
    bins.progress[1] = j
    if j == d:
        bins.progress[0], bins.progress[2] = CODING, 0
    return CUTTING_SLICE_NS - room


@kernel
def sample_rows(bins: Any, t: int) -> int:
    """Return up to where the sample has rows after t events."""
    S = bins.sample.shape[0]
    return int(min(t, S) if bins.stride[()] == 1 else S)


@kernel
def collect_column(bins: Any, j: int, t: int, rows: int) -> int:
    """Put the keys of feature j that are not missing into `column`; return how many."""
    stride, S = int(bins.stride[()]), bins.sample.shape[0]
    n, held, apart, doubled = 0, min((t + stride - 1) // stride, S), S // stride, 0
    while 1 << doubled < stride:
        doubled += 1
    for i in range(rows):
        k = bins.sample[i, j]
        if (
            k != MISSING_KEY and (i >> doubled) + (i & (stride - 1)) * apart < held
        ):  # `_sample_row` back
            bins.column[n] = k
            n += 1
    return n


@kernel
def _sort(column: Any, spare: Any, digits: Any, n: int) -> None:
    """Sort column (n,) byte by byte, the lowest first; an even number of passes ends in place."""
    for place in range(4):
        source, goal = (column, spare) if place % 2 == 0 else (spare, column)
        for v in range(257):
            digits[v] = 0
        for i in range(n):
            digits[(((int(source[i]) + 2147483648) >> (8 * place)) & 255) + 1] += 1
        for v in range(256):
            digits[v + 1] += digits[v]
        for i in range(n):
            v = ((int(source[i]) + 2147483648) >> (8 * place)) & 255
            goal[digits[v]] = source[i]
            digits[v] += 1


@kernel
def _rank(column: Any, n: int, k: int) -> int:
    """Return how many of the sorted keys column (n,) are at most k."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if column[middle] <= k:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _distinct(column: Any, n: int) -> int:
    count = 1 if n > 0 else 0
    for i in range(1, n):
        count += column[i] != column[i - 1]
    return count


@kernel
def _quantiles(bins: Any, j: int, n: int) -> None:
    """Fill fresh[j] with edges between the sorted keys column (n,), each parting about as many."""
    column, fresh = bins.column, bins.new_edges
    cuts, last = 0, 0  # keys at most the last edge
    few = _distinct(column, n) <= MOST_CUTS
    whole = bins.stride[()] == 1  # the sample is the window: nothing is gained by old edges
    for i in range(1, n):
        if column[i] == column[i - 1] or cuts == MOST_CUTS:
            continue
        goal = (n - last) / (MOST_CUTS + 1.0 - cuts)
        if few or i >= last + goal:
            slack = 0.0 if few else (-1.0 if whole else 0.5 * goal)
            fresh[j, cuts] = _nearest_old_edge(
                bins, j, n, (i, middle_key(column[i - 1], column[i]), slack)
            )
            cuts += cuts == 0 or fresh[j, cuts] > fresh[j, cuts - 1]
            last = i
    cuts = _split_extremes(bins, j, n, cuts)
    cuts = _keep_old_edges(bins, j, cuts)
    for b in range(cuts, CODES):
        fresh[j, b] = MISSING_KEY
    bins.new_counts[j] = cuts


@kernel
def _nearest_old_edge(bins: Any, j: int, n: int, wanted: Any) -> int:
    """Return the old edge nearest to the wanted one by rank, if it is near enough, else that."""
    rank, edge, slack = wanted
    best, off = int(edge), float(slack) + 1e-9
    for b in range(int(bins.counts[j]) if off > 0.0 else 0):
        gap = abs(_rank(bins.column, n, bins.edges[j, b]) - rank)
        if gap < off:
            best, off = int(bins.edges[j, b]), float(gap)
    return best


@kernel
def _insert(bins: Any, j: int, cuts: int, edge: int) -> int:
    """Add an edge where there is room and it is new; return how many there are."""
    fresh = bins.new_edges
    b = cuts
    while b > 0 and fresh[j, b - 1] > edge:
        b -= 1
    if cuts == MOST_CUTS or (b > 0 and fresh[j, b - 1] == edge):
        return cuts
    for c in range(cuts, b, -1):
        fresh[j, c] = fresh[j, c - 1]
    fresh[j, b] = edge
    return cuts + 1


@kernel
def _split_extremes(bins: Any, j: int, n: int, cuts: int) -> int:
    """Part rare values at the ends, seen once but not in the sample, from the rest."""
    if n > 0 and bins.highest[j] > bins.column[n - 1]:
        edge = middle_key(bins.column[n - 1], bins.highest[j])
        cuts = _insert(bins, j, cuts, edge)
    if n > 0 and bins.lowest[j] < bins.column[0]:
        cuts = _insert(bins, j, cuts, middle_key(bins.lowest[j], bins.column[0]))
    return cuts


@kernel
def _keep_old_edges(bins: Any, j: int, cuts: int) -> int:
    """Keep old edges of features with few values: a rare value may be missing in the sample."""
    old = int(bins.counts[j])
    if cuts + old <= MOST_CUTS:
        for b in range(old):
            cuts = _insert(bins, j, cuts, bins.edges[j, b])
    return cuts


@kernel
def _map_codes(bins: Any, j: int, n: int) -> None:
    """Fill recode[j] with the new code of every old one: that of the middle key of its bin."""
    low = 0
    for c in range(int(bins.counts[j]) + 1):
        high = _rank(bins.column, n, bins.edges[j, c]) if c < bins.counts[j] else n
        k = bins.edges[j, c]
        if high > low:
            k = bins.column[(low + high) // 2]
        elif c == bins.counts[j]:
            k = bins.highest[j]
        new = 0
        for b in range(int(bins.new_counts[j])):
            new += bins.new_edges[j, b] < k
        bins.new_codes[j, c] = new
        low = high
    bins.new_codes[j, MISSING] = MISSING


@kernel
def _recode_window(bins: Any, codes: Any, t: int) -> float:
    """Re-code part of the window, oldest first; the new edges count once it is all done. Return the
    ns it took.
    """
    R, d = codes.shape
    S = bins.sample.shape[0]
    exact = bins.stride[()] == 1 and t <= S
    first = max(int(bins.progress[2]), t - R)
    last = min(t, first + RECODED_PER_EVENT // d // (32 if exact else 1) + 1)
    for i in range(first, last):
        if exact:
            _recode_exactly(bins, codes[i % R], bins.sample[i])
        else:
            row = codes[i % R]
            for j in range(d):
                row[j] = bins.new_codes[j, row[j] & 63]
    bins.progress[2] = last
    if last == t:
        _install(bins, t)
    return float((last - first) * d * RECODE_NS * (32.0 if exact else 1.0))


@kernel
def _recode_exactly(bins: Any, row: Any, x: Any) -> None:
    for j in range(row.shape[0]):
        k = x[j]
        c = 0
        for b in range(int(bins.new_counts[j])):
            c += bins.new_edges[j, b] < k
        row[j] = MISSING if k == MISSING_KEY else c


@kernel
def _install(bins: Any, t: int) -> None:
    for j in range(bins.counts.shape[0]):
        bins.counts[j] = bins.new_counts[j]
        for b in range(CODES):
            bins.edges[j, b] = bins.new_edges[j, b]
    bins.progress[0] = IDLE
    due, joined = int(bins.rebin_at[()]), int(bins.new_feature_at[()])
    if joined >= due:
        bins.rebin_at[()] = max(joined + _new_feature_delay(bins, joined), t + 1)
    elif joined > 0:
        bins.rebin_at[()] = max(min(2 * due, due + REBIN_EVERY, due + 3 * (due - joined)), t + 1)
    else:
        bins.rebin_at[()] = min(2 * due, due + REBIN_EVERY)
