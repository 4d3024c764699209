"""Single events checked by hand: learners with fixed predictions that hardly learn."""

from __future__ import annotations

import numpy as np

import kaboost
from kaboost.models.types import SingleScratch
from kaboost.models.verbs import combine, learn_sequentially, targets, update_rule


def made(rule, n=3, loss=None, m=1, **bank):
    """A booster over linear learners of a bias that hardly learn."""
    full = {"kind": "linear", "n": n, "step": "sgd", "lr": 1e-12, **bank}
    return kaboost.build({"rule": rule, "bank": full} | ({"loss": loss} if loss else {}), 1, m)


def at_once(booster, h, u, w=1.0):
    """Teach all learners that say h; return prefixes, score and weights."""
    h, N = np.array([h], float), len(h)
    F, G, T, W = np.empty((1, N + 1)), np.empty((1, N + 1)), np.empty((1, N)), np.full(N, w)
    s, y, none = np.empty(1), np.array([u]), np.empty(0)
    combine(booster.rule, h, F, s, none)
    targets(booster.rule, booster.loss, y, h, F, G, T, W, none)
    update_rule(booster.rule, booster.loss, y, h, F, G, w, none)
    return F[0], s[0], W


def in_turn(booster, h, u, w=1.0):
    """Teach learners that say h one after the other; return their weights."""
    N = len(h)
    booster.bank.w[0, 1] = h
    T, W = np.empty((1, N)), np.empty(N)
    single = SingleScratch(np.empty((1, 1)), np.empty((1, 1)), np.empty(1), np.empty((0, 1)))
    learn_sequentially(booster.rule, booster.bank, np.array([u]), np.zeros(1), w, T, W, single)
    return W
