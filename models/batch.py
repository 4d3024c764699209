"""Offline comparators: `fit` trains the rules `gb` and `ogb_batch` on a whole sample, learner by
learner (specification, 3.6 and 8.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.banks.hedge import LIMIT, Hedge
from kaboost.models.booster import Booster, features
from kaboost.models.build import build
from kaboost.models.kernels.jit import kernel
from kaboost.models.losses import TASK_LOSSES
from kaboost.models.one_vs_rest import OneVsRest
from kaboost.models.reboosted.booster import ReboostedTrees
from kaboost.models.reboosted.classes.ensemble import ClassTrees
from kaboost.models.rules.ball_projection import project_column
from kaboost.models.rules.gb import Gb
from kaboost.models.rules.ogb_batch import Batch
from kaboost.models.types import (
    LINEAR,
    SQUARE,
    TARGET_LIMIT,
    WEIGHT_LIMIT,
    Bank,
    Loss,
    Mat,
    ModelError,
    Rule,
    SingleScratch,
    Vec,
    as_float64,
)
from kaboost.models.verbs import (
    bank_scratch_rows,
    encode_labels,
    gradient,
    init_score,
    learn_one,
    predict_one,
    update_init,
    update_shared,
)

TOLERANCE = 1e-3  # a learner is trained until an epoch lowers its loss by less than this part
MAX_EPOCHS = 1000  # of one learner


class Sample(NamedTuple):
    """The sample to learn: features (B, d), encoded labels (B, k), importances (B,)."""

    X: Mat
    Y: Mat
    W: Vec


def fit(
    spec: Mapping[str, Any],
    X: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    m: int | None = None,
) -> Booster:
    """Return a booster of the rule `gb` or `ogb_batch` that has learned a whole sample.

    Its progress stays at 0: no event was predicted before it was learned.

    Parameters
    ----------
    spec
        Rule, bank, loss and seed, as for `build`.
    X
        Finite numbers, (B, d).
    y
        Labels as for `learn_many`, (B,), or numbers, (B, m).
    w
        Importances >= 0, (B,); 1 by default.
    m
        Number of outputs; by default the columns of y, or its classes.

    Raises
    ------
    ModelError
        The rule learns event by event, or an array has a wrong shape or value.

    Examples
    --------
    >>> import kaboost
    >>> spec = {"rule": {"kind": "gb", "eta": 1.0}, "bank": {"kind": "linear", "n": 2},
    ...         "loss": "squared"}
    >>> booster = kaboost.fit(spec, [[0.0], [1.0]], [1.0, 3.0])
    >>> kaboost.predict_many(booster, [[0.5]]).round(1).tolist()
    [[2.0]]
    """
    rows, labels = as_float64("X", X), as_float64("y", y)
    if rows.ndim != 2 or len(rows) == 0:
        raise ModelError(f"X: has shape {rows.shape}; give (events, features) numbers")
    if m is None:
        m = labels.shape[1] if labels.ndim == 2 else _classes(spec, labels)
    booster = build(spec, rows.shape[1], m)
    if isinstance(booster, ReboostedTrees | ClassTrees):
        raise ModelError("bank: reboosted_trees learns event by event; call learn_many")
    if isinstance(booster, OneVsRest):
        raise ModelError("multiclass: fit trains one booster; take loss softmax, or learn_many")
    W = np.ones(len(rows)) if w is None else np.minimum(as_float64("w", w), WEIGHT_LIMIT)
    sample = Sample(features(booster, rows), encode_labels(booster.loss, labels, m), W)
    if len(sample.Y) != len(rows) or W.shape != (len(rows),) or not (W >= 0.0).all():
        raise ModelError(
            f"y, w: {len(labels)} labels and {W.shape} weights for {len(rows)} events; "
            "give as many of each, no weight below 0"
        )
    train(booster.rule, booster, sample)
    return booster


@singledispatch
def train(rule: Rule, booster: Booster, sample: Sample) -> None:
    """Train every learner of the booster on the sample, by the rule's algorithm.

    Raises
    ------
    ModelError
        The rule learns event by event.
    """
    raise ModelError("rule: it learns event by event; call learn_many, or take gb")


@train.register
def _(rule: Gb, booster: Booster, sample: Sample) -> None:
    loss, bank = booster.loss, booster.bank
    if rule.best:
        _init_scores(loss, sample, rule.y0)
    P = np.tile(rule.y0, (len(sample.X), 1))
    G, h, single = np.empty_like(P), np.empty_like(P), single_scratch(booster)
    for i in range(booster.learners):
        _gradients(loss, P, sample.Y, G)
        fit_epochs(bank, i, sample, G, (SQUARE, np.inf), single)
        _predict_learner(bank, i, sample.X, h, single)
        P -= rule.eta * h


@train.register
def _(rule: Batch, booster: Booster, sample: Sample) -> None:
    loss, bank = booster.loss, booster.bank
    P = np.zeros((len(sample.X), booster.outputs))
    G, h, single = np.empty_like(P), np.empty_like(P), single_scratch(booster)
    for i in range(booster.learners):
        _gradients(loss, P, sample.Y, G)
        minimise_linear(bank, i, sample, G / rule.L, rule.D, single)
        _predict_learner(bank, i, sample.X, h, single)
        outwards = float((sample.W[:, None] * G * P).sum()) > 0.0
        rule.sigma[i] = 1.0 if rule.shrinks and outwards else 0.0
        _move_scores(P, h, (rule.sigma[i] * rule.eta, rule.eta * rule.scale, rule.D, rule.B))


@singledispatch
def minimise_linear(
    bank: Bank, i: int, sample: Sample, gradients: Mat, D: float, single: SingleScratch
) -> None:
    """Train learner i to minimise the sum of w <gradient, h(x)> with |h| <= D.

    `gradients` is (B, m). Most banks learn in epochs.
    """
    fit_epochs(bank, i, sample, gradients, (LINEAR, D), single)


@minimise_linear.register
def _(bank: Hedge, i: int, sample: Sample, gradients: Mat, D: float, single: SingleScratch) -> None:
    losses = np.einsum("k,kj,kc->cj", sample.W, sample.X, gradients)
    bank.C[:, :, i] = 0.0
    for c, row in enumerate(losses):
        j = int(np.argmax(abs(row)))
        bank.C[c, j, i] = LIMIT if row[j] > 0.0 else -LIMIT  # all weight on one function


def fit_epochs(
    bank: Bank,
    i: int,
    sample: Sample,
    targets: Mat,
    mode_and_bound: tuple[int, float],
    single: SingleScratch,
) -> int:
    """Train learner i on targets (B, m) in epochs, until one lowers the training loss by less than
    0.1 percent; return how many it took.

    `mode_and_bound` holds the mode and the length D that predictions are clipped to.
    """
    last = np.inf
    for epoch in range(1, MAX_EPOCHS + 1):
        loss = _epoch(bank, i, sample, targets, mode_and_bound, single)
        if not last - loss > TOLERANCE * abs(last) and last < np.inf:
            return epoch
        last = loss
    return MAX_EPOCHS


@kernel
def _epoch(
    bank: Bank,
    i: int,
    sample: Sample,
    targets: Mat,
    mode_and_bound: tuple[int, float],
    single: SingleScratch,
) -> float:
    mode, D = mode_and_bound
    loss = 0.0
    for k in range(targets.shape[0]):
        if sample.W[k] > 0.0:
            update_shared(bank, sample.X[k])
            single.weight[0] = sample.W[k]
            for c in range(targets.shape[1]):
                single.target[c, 0] = targets[k, c]
            learn_one(bank, i, sample.X[k], mode, single)
            project_column(single.h, 0, D)
            for c in range(targets.shape[1]):
                h, target = single.h[c, 0], targets[k, c]
                squared = 0.5 * (h - target) * (h - target)
                loss += sample.W[k] * (squared if mode == SQUARE else target * h)
    return loss


@kernel
def _predict_learner(bank: Bank, i: int, X: Mat, h: Mat, single: SingleScratch) -> None:
    """Fill h (B, m) with the predictions of learner i, 0 where not finite."""
    for k in range(X.shape[0]):
        predict_one(bank, i, X[k], single)
        for c in range(h.shape[1]):
            h[k, c] = single.h[c, 0] if abs(single.h[c, 0]) < math.inf else 0.0


@kernel
def _gradients(loss: Loss, P: Mat, Y: Mat, G: Mat) -> None:
    """Fill G (B, m) with the gradients at scores P (B, m)."""
    for k in range(P.shape[0]):
        gradient(loss, P[k], Y[k], G[k])
        for c in range(P.shape[1]):
            G[k, c] = min(max(G[k, c], -TARGET_LIMIT), TARGET_LIMIT)


@kernel
def _move_scores(P: Mat, h: Mat, params: tuple[float, float, float, float]) -> None:
    """Move the scores P (B, m) by proj_B((1 - sigma eta) P + eta s h), h clipped to D."""
    shrink, step, D, B = params
    for k in range(P.shape[0]):
        row, prediction = P[k].reshape((P.shape[1], 1)), h[k].reshape((P.shape[1], 1))
        project_column(prediction, 0, D)
        for c in range(row.shape[0]):
            row[c, 0] = (1.0 - shrink) * row[c, 0] + step * prediction[c, 0]
        project_column(row, 0, B)


@kernel
def _init_scores(loss: Loss, sample: Sample, y0: Vec) -> None:
    """Fill y0 (m,) with the initial score for these labels (specification, 2.1)."""
    counts, total = np.zeros(y0.shape[0]), 0.0
    for k in range(sample.Y.shape[0]):
        if sample.W[k] > 0.0:
            total += sample.W[k]
            update_init(loss, sample.Y[k], sample.W[k], total, counts)
    init_score(loss, total, counts, y0)


def _classes(spec: Mapping[str, Any], labels: Vec) -> int:
    loss = spec.get("loss")
    kind = loss.get("kind") if isinstance(loss, Mapping) else loss
    return int(labels.max(initial=1.0)) + 1 if kind in TASK_LOSSES["multiclass"] else 1


def single_scratch(booster: Booster) -> SingleScratch:
    """Return the scratch for one learner of the booster."""
    m = booster.outputs
    return SingleScratch(
        np.empty((m, 1)),
        np.empty((m, 1)),
        np.empty(1),
        np.empty((bank_scratch_rows(booster.bank), 1)),
    )
