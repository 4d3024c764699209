"""Path-dependent Shapley values of exported trees, by all sets of features."""

from itertools import combinations
from math import factorial


def expected(tree, x, known, node=0):
    """What a tree says on average of an event of which only the features `known` are known."""
    left, right = tree["children_left"][node], tree["children_right"][node]
    if left < 0:
        return tree["values"][node]
    j = tree["features"][node]
    if j in known:
        missing = x[j] != x[j]
        goes = tree["missing_left"][node] if missing else x[j] <= tree["thresholds"][node]
        return expected(tree, x, known, left if goes else right)
    covers = tree["covers"]
    sides = [covers[side] * expected(tree, x, known, side) for side in (left, right)]
    return sum(sides) / (covers[left] + covers[right])


def shapley(tree, x):
    """What each feature of x adds: its mean marginal value over all orders of the features."""
    used = sorted(set(tree["features"]) - {-1})
    n, phi = len(used), [0.0] * len(x)
    for j in used:
        others = [k for k in used if k != j]
        for size in range(n):
            weight = factorial(size) * factorial(n - 1 - size) / factorial(n)
            for known in combinations(others, size):
                gain = expected(tree, x, {*known, j}) - expected(tree, x, set(known))
                phi[j] += weight * gain
    return phi
