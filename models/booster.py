"""Booster: bank, rule and loss put together, and the batch loops that learn and predict
(specification, section 0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.evaluation.progress import Progress, measure, observe
from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.kernels.numeric import fill, finite
from kaboost.models.types import (
    TARGET_LIMIT,
    WEIGHT_LIMIT,
    Ints,
    Mat,
    Mat3,
    ModelError,
    SingleScratch,
    Vec,
    as_float64,
)
from kaboost.models.verbs import (
    bank_scratch_rows,
    combine,
    combine_served,
    encode_labels,
    inverse_link,
    learn,
    learn_sequentially,
    observe_average,
    observe_features,
    predict,
    predict_served,
    prediction_bound,
    prefix_losses,
    rule_scratch_size,
    sequential,
    served_loss,
    targets,
    to_prediction,
    update_rule,
    update_shared,
)


class Booster(NamedTuple):
    """N weak learners, the rule that combines them, the loss they lower, and what was seen: a tree
    of arrays.
    """

    bank: Any
    rule: Any
    loss: Any
    progress: Progress
    shape: Ints  # (2,) d and m

    @property
    def outputs(self) -> int:
        """The number of outputs, m."""
        return int(self.shape[1])

    @property
    def learners(self) -> int:
        """The number of weak learners, N."""
        return int(self.progress.edge_total.shape[0])


class Scratch(NamedTuple):
    """What the batch loop writes while it looks at one event; made once a batch."""

    h: Mat  # (m, N)
    F: Mat  # (m, N+1)
    G: Mat  # (m, N+1)
    L: Vec  # (N+1,)
    T: Mat  # (m, N)
    W: Vec  # (N,)
    sound: Vec  # (N,) 1 where h is finite
    bank_scratch: Mat  # (rooms(bank), N)
    rule_scratch: Vec  # (desks(rule),)
    single: SingleScratch


@singledispatch
def learn_many(booster: Any, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    """Learn events one by one in order and return the scores made before each was learned.

    Parameters
    ----------
    booster : what `build` made; its arrays move.
    X : (B, d) finite numbers.
    y : (B,) numbers; 0/1 or -1/1 for binary losses; class indices for softmax; (B, m) for m
        numbers.
    w : (B,) importances >= 0, 1 where left out, counted as at most 1e15. An event of weight 0 is
        predicted, and nothing moves.

    Returns
    -------
    scores : (B, m) float64.

    Raises
    ------
    ModelError
        The booster is read-only, or an array has a wrong shape, a value that is not finite, or a
        label that the loss does not know.

    Examples
    --------
    >>> import kaboost
    >>> spec = {"bank": {"kind": "linear", "n": 3}, "loss": "squared"}
    >>> booster = kaboost.build(spec, d=1)
    >>> kaboost.learn_many(booster, [[1.0], [1.0]], [2.0, 2.0])[0].tolist()
    [0.0]
    """
    if not booster.progress.events.flags.writeable:
        raise ModelError("booster: its arrays are read-only (a snapshot); load a checkpoint")
    X = features(booster, X)
    Y = encode_labels(booster.loss, as_float64("y", y), booster.outputs)
    W = np.ones(len(X)) if w is None else as_float64("w", w)
    if len(Y) != len(X) or W.shape != (len(X),):
        raise ModelError(
            f"y, w: {len(Y)} labels and {W.shape} weights for {len(X)} events; give one of each"
        )
    if not (W >= 0.0).all() or not (math.inf > W).all():
        raise ModelError("w: an importance is negative or not finite; give numbers >= 0")
    W = np.minimum(W, WEIGHT_LIMIT)
    scores = np.empty((len(X), booster.outputs))
    learn = _learn_in_turn if sequential(booster.rule) else _learn
    learn(
        booster.bank,
        booster.rule,
        booster.loss,
        booster.progress,
        (X, Y, W),
        _scratch(booster),
        scores,
    )
    return scores


def predict_many(booster: Any, X: ArrayLike) -> Mat:
    """Return the scores (B, m) of X (B, d); the booster does not change, and may be read-only."""
    return score_many(booster, features(booster, X))


@singledispatch
def score_many(booster: Any, X: Mat) -> Mat:
    """Do what `predict_many` does for X (B, d) that is known to be finite float64 in rows."""
    scores = np.empty((X.shape[0], booster.outputs))
    sizes = (booster.learners, bank_scratch_rows(booster.bank), rule_scratch_size(booster.rule))
    _predict(booster.bank, booster.rule, X, sizes, scores)
    return scores


@singledispatch
def prefixes_many(booster: Any, X: ArrayLike) -> Mat3:
    """Return what every prefix of the ensemble says of X (B, d): partial sums (B, N+1, m)."""
    X = features(booster, X)
    m, N = booster.outputs, booster.learners
    sums = np.empty((len(X), N + 1, m))
    _prefixes(booster.bank, booster.rule, X, _scratch(booster), sums)
    return sums


@singledispatch
def predictions(booster: Any, scores: Mat) -> Mat:
    """Return what scores (B, m) stand for: values, P(positive) (B, 1), or probabilities (B, C)."""
    linked = np.empty_like(scores)
    if to_prediction.dispatch(type(booster.rule)) is to_prediction.dispatch(object):
        link_many(booster.loss, scores, linked)  # handing a rule over takes 5 us
    else:
        _say(booster.rule, booster.loss, scores, linked)
    return linked


@singledispatch
def losses(booster: Any, scores: Mat, y: ArrayLike) -> Vec:
    """Return the loss (B,) of scores (B, m) for labels y (B,)."""
    found = np.empty(len(scores))
    labels = encode_labels(booster.loss, as_float64("y", y), scores.shape[1])
    _losses(booster.rule, booster.loss, scores, labels, found)
    return found


@singledispatch
def add_features(booster: Any, full: Mapping[str, Any], d: int) -> Any:
    """Return a booster over d features, more than before, that has learned what this one has;
    `full` is its specification. This one is of no use any more.

    Raises
    ------
    ModelError
        The weak learners cannot be widened, or there is no memory for so many features; then
        nothing moved.
    """
    raise ModelError(
        f"bank.kind: {full['bank']['kind']} cannot take features that come up later; name every "
        "feature and its kind, or take bank reboosted_trees"
    )


@singledispatch
def mark_categorical(booster: Any, columns: Ints) -> None:
    """Tell a booster in which columns numbers stand for names: -1 for a new one, then 0, 1, ... in
    order of first sight. Only those that add columns up have a use for it.
    """


@singledispatch
def quiesce(booster: Any) -> None:
    """Bring the arrays of a booster to where they stand whoever did its work, and whenever: before
    they are saved or compared. It answers and learns the same with or without.
    """


@singledispatch
def features(booster: Any, X: ArrayLike) -> Mat:
    """Return X as kernels want it, (B, d) float64 in rows; ModelError when it does not fit."""
    rows = as_float64("X", X)
    d = int(booster.shape[0])
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ModelError(f"X: has shape {rows.shape}; give (events, {d}) numbers")
    if not finite(rows):
        raise ModelError(
            "X: holds a value that is not finite; replace it, or encode features with Model"
        )
    return rows


def _scratch(booster: Booster) -> Scratch:
    m, N, rows = booster.outputs, booster.learners, bank_scratch_rows(booster.bank)
    return Scratch(
        h=np.empty((m, N)),
        F=np.empty((m, N + 1)),
        G=np.empty((m, N + 1)),
        L=np.empty(N + 1),
        T=np.empty((m, N)),
        W=np.empty(N),
        sound=np.empty(N),
        bank_scratch=np.empty((rows, N)),
        rule_scratch=np.empty(rule_scratch_size(booster.rule)),
        single=SingleScratch(np.empty((m, 1)), np.empty((m, 1)), np.empty(1), np.empty((rows, 1))),
    )


@kernel
def _learn(
    bank: Any, rule: Any, loss: Any, seen: Progress, events: Any, a: Scratch, scores: Mat
) -> None:
    X, Y, weights = events
    for k in range(X.shape[0]):
        x, y, w = X[k], Y[k], weights[k]
        if w > 0.0:
            observe_average(bank, rule, loss, x, y, w, seen, a, scores[k])
        predict(bank, x, a.h, a.bank_scratch)
        bad = sanitise(a.h, a.sound)
        combine(rule, a.h, a.F, scores[k], a.rule_scratch)
        if w > 0.0:
            prefix_losses(rule, loss, a.F, y, a.G, a.L)
            observe(seen, lost(rule, loss, scores[k], y, a), a.L, w)
            fill(a.W, w)
            targets(rule, loss, y, a.h, a.F, a.G, a.T, a.W, a.rule_scratch)
            if bad + count_large_targets(a.T) > 0:
                clip_targets(seen, a.T, a.W, bad, a.sound)
            measure(seen, a.h, a.T, a.W, rule.mode, prediction_bound(rule), w)
            learn(bank, x, a.h, a.T, a.W, rule.mode, a.bank_scratch)
            update_rule(rule, loss, y, a.h, a.F, a.G, w, a.rule_scratch)


@inlined
def lost(rule: Any, loss: Any, s: Vec, y: Vec, a: Scratch) -> float:
    """Return the loss of the served score s (m,), which `prefix_losses` knows where s is the last
    prefix.
    """
    last = a.L.shape[0] - 1
    known = True
    for c in range(s.shape[0]):
        known = known and s[c] == a.F[c, last]
    return a.L[last] if known else served_loss(rule, loss, s, y)  # type: ignore[no-any-return]


@kernel
def _learn_in_turn(
    bank: Any, rule: Any, loss: Any, seen: Progress, events: Any, a: Scratch, scores: Mat
) -> None:
    # docs/adr/0010: rules that look at a learner's answer after it learned.
    X, Y, weights = events
    for k in range(X.shape[0]):
        x, y, w = X[k], Y[k], weights[k]
        predict(bank, x, a.h, a.bank_scratch)
        bad = sanitise(a.h, a.sound)
        combine(rule, a.h, a.F, scores[k], a.rule_scratch)
        if w > 0.0:
            prefix_losses(rule, loss, a.F, y, a.G, a.L)
            observe(seen, served_loss(rule, loss, scores[k], y), a.L, w)
            update_shared(bank, x)
            learn_sequentially(rule, bank, y, x, w, a.T, a.W, a.single)
            if bad + count_large_targets(a.T) > 0:
                clip_targets(seen, a.T, a.W, bad, a.sound)
            measure(seen, a.h, a.T, a.W, rule.mode, 1.0, w)


@kernel
def _predict(bank: Any, rule: Any, X: Mat, sizes: Any, scores: Mat) -> None:
    # Its own scratch, made once a batch: a single row is answered 5 us sooner than from Python's.
    m, (N, rows, places) = scores.shape[1], sizes
    h, F, sound, bank_scratch = (
        np.empty((m, N)),
        np.empty((m, N + 1)),
        np.empty(N),
        np.empty((rows, N)),
    )
    rule_scratch = np.empty(places)
    for k in range(X.shape[0]):
        predict_served(bank, X[k], h, bank_scratch)
        sanitise(h, sound)
        observe_features(rule, X[k], rule_scratch)
        combine_served(rule, h, F, scores[k], rule_scratch)


@kernel
def _prefixes(bank: Any, rule: Any, X: Mat, a: Scratch, sums: Mat3) -> None:
    yhat = np.empty(a.h.shape[0])
    for k in range(X.shape[0]):
        predict_served(bank, X[k], a.h, a.bank_scratch)
        sanitise(a.h, a.sound)
        observe_features(rule, X[k], a.rule_scratch)
        combine_served(rule, a.h, a.F, yhat, a.rule_scratch)
        for c in range(a.F.shape[0]):
            for i in range(a.F.shape[1]):
                sums[k, i, c] = a.F[c, i]


@kernel
def link_many(loss: Any, scores: Mat, linked: Mat) -> None:
    """Fill linked (B, m) with what scores (B, m) stand for by the loss alone."""
    for k in range(scores.shape[0]):
        inverse_link(loss, scores[k], linked[k])


@kernel
def _say(rule: Any, loss: Any, scores: Mat, linked: Mat) -> None:
    for k in range(scores.shape[0]):
        to_prediction(rule, loss, scores[k], linked[k])


@kernel
def _losses(rule: Any, loss: Any, scores: Mat, Y: Mat, found: Vec) -> None:
    for k in range(scores.shape[0]):
        found[k] = served_loss(rule, loss, scores[k], Y[k])


@kernel
def sanitise(h: Mat, sound: Vec) -> int:
    """Put 0 where h (m, N) is not finite, and where that is anywhere 0 into sound (N,) for those
    learners, 1 for the others; return how many values it were.

    A poisoned learner must not spoil the partial sums of those after it.
    """
    m, N = h.shape
    bad = 0
    for c in range(m):
        for i in range(N):
            bad += not abs(h[c, i]) < math.inf
    if bad > 0:
        fill(sound, 1.0)
        for c in range(m):
            for i in range(N):
                if not abs(h[c, i]) < math.inf:
                    h[c, i] = 0.0
                    sound[i] = 0.0
    return bad


@kernel
def count_large_targets(T: Mat) -> int:
    """Return how many targets are beyond +-1e6 or not finite."""
    m, N = T.shape
    found = 0
    for c in range(m):
        for i in range(N):
            found += not abs(T[c, i]) <= TARGET_LIMIT
    return found


@kernel
def clip_targets(seen: Progress, T: Mat, W: Vec, bad: int, sound: Vec) -> None:
    """Clip targets T (m, N) to +-1e6 and give weight 0 to a learner whose h or target is not
    finite; count both. `bad` and `sound` are as `sanitise` left them.
    """
    m, N = T.shape
    if bad == 0:
        fill(sound, 1.0)
    for c in range(m):
        for i in range(N):
            if not abs(T[c, i]) < math.inf:
                T[c, i] = 0.0
                sound[i] = 0.0
            elif abs(T[c, i]) > TARGET_LIMIT:
                T[c, i] = TARGET_LIMIT if T[c, i] > 0.0 else -TARGET_LIMIT
                seen.clipped[()] += 1
    for i in range(N):
        if sound[i] == 0.0:
            W[i] = 0.0
            seen.skipped[()] += 1
