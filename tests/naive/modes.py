"""Section 7: what a learner is asked for, and its edge (9.1)."""

from __future__ import annotations

import math

from tests.naive.draws import s

SQUARE, LINEAR, LOGISTIC = 0, 1, 2


def slope(h, target, weight, mode):
    """weight times the derivative of the fed loss in h (m,)."""
    if mode == SQUARE:
        return [weight * (a - b) for a, b in zip(h, target, strict=True)]
    if mode == LINEAR:
        return [weight * g for g in target]
    return [-weight * u * s(-u * a) for a, u in zip(h, target, strict=True)]


def edge_terms(h, task, mode, bound, w):
    """(what there was to explain, what was missed) of one learner for one event."""
    target, weight = task
    if mode == SQUARE:
        error = sum((a - b) ** 2 for a, b in zip(target, h, strict=True))
        return w * sum(a * a for a in target), w * error
    if mode == LINEAR:
        total = w * bound * math.sqrt(sum(g * g for g in target))
        return total, total + w * sum(g * a for g, a in zip(target, h, strict=True))
    wrong = (h[0] >= 0) != (target[0] > 0)
    if len(h) > 1:
        wrong = h.index(max(h)) != target.index(max(target))
    return weight, weight * (1.5 if wrong else 0.5)
