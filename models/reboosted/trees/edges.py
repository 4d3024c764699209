"""Edges of one feature's bins, at quantiles of its sample.

While the sample holds every event, edges are made from it alone. Later an old edge that is still
good is kept, so that the codes of the window stay exact where features do not drift.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import CODES, MISSING, MOST_CUTS, Bins, Keys
from kaboost.models.reboosted.trees.binning import MISSING_KEY, middle_key
from kaboost.models.types import Ints


@kernel
def make_edges(bins: Bins, j: int, n: int) -> None:
    """Fill new_edges of feature j from the n keys in bins.column; sort these."""
    sort_column(bins, n)
    cuts = _split_extremes(bins, j, n, _quantiles(bins, j, n))
    cuts = _keep_old_edges(bins, j, cuts)
    for b in range(cuts, CODES):
        bins.new_edges[j, b] = MISSING_KEY
    bins.new_counts[j] = cuts


@kernel
def sort_column(bins: Bins, n: int) -> None:
    """Sort the n keys in bins.column."""
    _sort(bins.column, bins.spare, bins.digit_counts, n)


@kernel
def keep_edges(bins: Bins, j: int) -> None:
    """Fill new_edges and new_codes of feature j with what they are."""
    bins.new_counts[j] = bins.counts[j]
    for b in range(CODES):
        bins.new_edges[j, b] = bins.edges[j, b]
        bins.new_codes[j, b] = b


@kernel
def _sort(column: Keys, spare: Keys, counts: Ints, n: int) -> None:
    """Sort column (n,) byte by byte, the lowest first; an even number of passes ends in place."""
    for place in range(4):
        source, target = (column, spare) if place % 2 == 0 else (spare, column)
        for v in range(257):
            counts[v] = 0
        for i in range(n):
            counts[(((int(source[i]) + 2147483648) >> (8 * place)) & 255) + 1] += 1
        for v in range(256):
            counts[v + 1] += counts[v]
        for i in range(n):
            v = ((int(source[i]) + 2147483648) >> (8 * place)) & 255
            target[counts[v]] = source[i]
            counts[v] += 1


@kernel
def _rank(column: Keys, n: int, k: int) -> int:
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
def _distinct(column: Keys, n: int) -> int:
    count = 1 if n > 0 else 0
    for i in range(1, n):
        count += column[i] != column[i - 1]
    return count


@kernel
def _quantiles(bins: Bins, j: int, n: int) -> int:
    """Fill new_edges[j] with edges between the sorted keys column (n,), each separating about as
    many; return how many.
    """
    column, edges = bins.column, bins.new_edges
    cuts, last = 0, 0  # keys at most the last edge
    few = _distinct(column, n) <= MOST_CUTS
    whole = bins.stride[()] == 1  # the sample is the window: old edges have no advantage
    for i in range(1, n):
        if column[i] == column[i - 1] or cuts == MOST_CUTS:
            continue
        step = (n - last) / (MOST_CUTS + 1.0 - cuts)
        if few or i >= last + step:
            slack = 0.0 if few else (-1.0 if whole else 0.5 * step)
            edge = middle_key(column[i - 1], column[i])
            edges[j, cuts] = _nearest_old_edge(bins, j, n, i, edge, slack)
            cuts += cuts == 0 or edges[j, cuts] > edges[j, cuts - 1]
            last = i
    return cuts


@kernel
def _nearest_old_edge(bins: Bins, j: int, n: int, rank: int, edge: int, slack: float) -> int:
    """Return the old edge nearest to a rank, if it is within the slack, else the new edge."""
    best, distance = int(edge), float(slack) + 1e-9
    for b in range(int(bins.counts[j]) if distance > 0.0 else 0):
        gap = abs(_rank(bins.column, n, bins.edges[j, b]) - rank)
        if gap < distance:
            best, distance = int(bins.edges[j, b]), float(gap)
    return best


@kernel
def _insert(bins: Bins, j: int, cuts: int, edge: int) -> int:
    """Add an edge if there is room and it is new; return how many there are."""
    edges, b = bins.new_edges, cuts
    while b > 0 and edges[j, b - 1] > edge:
        b -= 1
    if cuts == MOST_CUTS or (b > 0 and edges[j, b - 1] == edge):
        return cuts
    for c in range(cuts, b, -1):
        edges[j, c] = edges[j, c - 1]
    edges[j, b] = edge
    return cuts + 1


@kernel
def _split_extremes(bins: Bins, j: int, n: int, cuts: int) -> int:
    """Separate rare extremes that were seen, but are not in the sample, from the rest."""
    if n > 0 and bins.highest[j] > bins.column[n - 1]:
        edge = middle_key(bins.column[n - 1], bins.highest[j])
        cuts = _insert(bins, j, cuts, edge)
    if n > 0 and bins.lowest[j] < bins.column[0]:
        cuts = _insert(bins, j, cuts, middle_key(bins.lowest[j], bins.column[0]))
    return cuts


@kernel
def _keep_old_edges(bins: Bins, j: int, cuts: int) -> int:
    """Keep old edges of features with few values: the sample may lack a rare value."""
    old = int(bins.counts[j])
    if cuts + old <= MOST_CUTS:
        for b in range(old):
            cuts = _insert(bins, j, cuts, bins.edges[j, b])
    return cuts


@kernel
def map_codes(bins: Bins, j: int, n: int) -> None:
    """Fill new_codes[j] with the new code of every old one: that of the middle of the sorted keys
    of its bin in bins.column (n,).
    """
    low = 0
    for c in range(int(bins.counts[j]) + 1):
        high = _rank(bins.column, n, bins.edges[j, c]) if c < bins.counts[j] else n
        k = bins.edges[j, c]
        if high > low:
            k = bins.column[(low + high) // 2]
        elif c == bins.counts[j]:
            k = bins.highest[j]
        code = 0
        for b in range(int(bins.new_counts[j])):
            code += bins.new_edges[j, b] < k
        bins.new_codes[j, c] = code
        low = high
    bins.new_codes[j, MISSING] = MISSING
