"""One best-first regression tree on codes, by trying every cut of every leaf on the rows."""

import numpy as np

MISSING = 63


def score(g, h, lam):
    """Gain of a leaf of these gradients and hessians."""
    return g.sum() ** 2 / (h.sum() + lam)


def sides(codes, cut):
    """Which rows go left: feature, largest code that does, whether missing does."""
    column, b, missing_left = cut
    c = codes[:, column]
    return np.where(c == MISSING, missing_left, c <= b)


def best_cut(codes, g, h, rows, how):
    """The cut of largest gain among the rows of a leaf, and the gain; None where there is none."""
    lam, least = how
    best, cut, first = 1e-12, None, 0
    for column in range(codes.shape[1]):
        gone = (codes[rows, column] == MISSING).any()
        for b in np.unique(codes[rows, column])[:MISSING]:
            if b == MISSING:
                continue
            for missing_left in (False, True) if gone else (False,):
                goes = sides(codes[rows], (column, b, missing_left))
                left, right = rows[goes], rows[~goes]
                if len(left) == 0 or len(right) == 0:
                    continue
                if min(h[left].sum(), h[right].sum()) < least:
                    continue
                gain = score(g[left], h[left], lam) + score(g[right], h[right], lam)
                gain -= score(g[rows], h[rows], lam)
                place = 64 * missing_left + 63 - b  # of equal gains the largest of these is taken
                if gain > best * (1.0 + 1e-9) or (gain > best * (1.0 - 1e-9) and place > first):
                    best, cut, first = gain, (column, b, missing_left), place
    return best, cut


def grow(codes, g, h, leaves, depth, how, eta):
    """The value for every row (n,): -eta G / (H + lam) of its leaf."""
    open_ = [(np.arange(len(g)), 0)]
    while len(open_) < leaves:
        found = [
            best_cut(codes, g, h, rows, how) if level < depth else (0.0, None)
            for rows, level in open_
        ]
        k = int(np.argmax([gain if cut else -1.0 for gain, cut in found]))
        if found[k][1] is None:
            break
        rows, level = open_.pop(k)
        goes = sides(codes[rows], found[k][1])
        open_ += [(rows[goes], level + 1), (rows[~goes], level + 1)]
    values = np.zeros(len(g))
    for rows, _ in open_:
        values[rows] = -eta * g[rows].sum() / (h[rows].sum() + how[0])
    return values
