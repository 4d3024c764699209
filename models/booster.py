"""Booster: bank, rule and loss put together, and the functions that learn and predict with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.batch_loops import (
    allocate,
    fill_losses,
    fill_prefixes,
    learn_events,
    learn_events_sequentially,
    link_many,
    predict_events,
    predict_scores,
)
from kaboost.models.evaluation.progress import Progress
from kaboost.models.kernels.numeric import finite
from kaboost.models.types import (
    WEIGHT_LIMIT,
    Bank,
    Ints,
    Loss,
    Mat,
    Mat3,
    ModelError,
    Rule,
    Vec,
    as_float64,
)
from kaboost.models.verbs import (
    bank_scratch_rows,
    encode_labels,
    rule_scratch_size,
    sequential,
    to_prediction,
)


class Booster(NamedTuple):
    """N weak learners, the rule that combines them, the loss they minimise, and their progress: a
    tree of arrays.
    """

    bank: Bank
    rule: Rule
    loss: Loss
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


@singledispatch
def learn_many(booster: Any, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    """Learn events one by one in order and return the scores made before each was learned.

    Parameters
    ----------
    booster
        What `build` returned; its arrays change in place.
    X
        Finite numbers, (B, d).
    y
        Labels, (B,): numbers; 0/1 or -1/1 for binary losses; class indices for softmax. (B, m) for
        m numbers.
    w
        Importances >= 0, (B,), 1 by default, clipped to 1e15. An event of weight 0 is predicted
        and not learned.

    Returns
    -------
    Mat
        Scores (B, m).

    Raises
    ------
    ModelError
        The booster is read-only, or an array has a wrong shape, a value that is not finite, or a
        label that the loss cannot learn.

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
            f"y, w: {len(Y)} labels and {W.shape} weights for {len(X)} events; give as many of each"
        )
    if not (W >= 0.0).all() or not (math.inf > W).all():
        raise ModelError("w: an importance is negative or not finite; give numbers >= 0")
    W = np.minimum(W, WEIGHT_LIMIT)
    scores = np.empty((len(X), booster.outputs))
    bank, rule = booster.bank, booster.rule
    scratch = allocate(bank, rule, booster.outputs, booster.learners)
    learn = learn_events_sequentially if sequential(rule) else learn_events
    learn(bank, rule, booster.loss, booster.progress, (X, Y, W), scratch, scores)
    return scores


@singledispatch
def capture_many(booster: Any, X: Mat) -> tuple[Mat, Mat]:
    """Predict events whose labels come later: return scores (B, m) and what `learn_captured` needs,
    (B, S); the booster does not change.
    """
    scores: Mat = score_many(booster, X)
    return scores, np.empty((len(scores), 0))


@singledispatch
def learn_captured(booster: Any, X: ArrayLike, captured: Mat, y: ArrayLike, w: ArrayLike) -> Mat:
    """Learn events that were predicted by `capture_many`, in the order of their labels.

    A booster that stacks its learners weighs them by their scores of that time, and a booster with
    label means uses those of that time: what is learned of a late label is how good a prediction
    was without the labels that came meanwhile.

    Parameters
    ----------
    booster
        What `build` returned; its arrays change in place.
    X
        The features as they were predicted, (B, d).
    captured
        What `capture_many` returned, (B, S).
    y, w
        As for `learn_many`.

    Returns
    -------
    Mat
        Scores (B, m): those made at the prediction if the booster captures them.
    """
    return learn_many(booster, X, y, w)


def predict_many(booster: Any, X: ArrayLike) -> Mat:
    """Return the scores (B, m) of X (B, d); the booster does not change, and may be read-only.

    Raises
    ------
    ModelError
        X has another shape, or a value that is not finite.
    """
    return score_many(booster, features(booster, X))


@singledispatch
def score_many(booster: Any, X: Mat) -> Mat:
    """Return the scores (B, m) of X (B, d), finite C-contiguous float64, without checking it."""
    scores = np.empty((X.shape[0], booster.outputs))
    sizes = (booster.learners, bank_scratch_rows(booster.bank), rule_scratch_size(booster.rule))
    predict_events(booster.bank, booster.rule, X, sizes, scores)
    return scores


@singledispatch
def prefixes_many(booster: Any, X: ArrayLike) -> Mat3:
    """Return the score of every prefix of the ensemble for X (B, d): partial sums (B, N+1, m)."""
    X = features(booster, X)
    m, N = booster.outputs, booster.learners
    sums = np.empty((len(X), N + 1, m))
    scratch = allocate(booster.bank, booster.rule, m, N)
    fill_prefixes(booster.bank, booster.rule, X, scratch, sums)
    return sums


@singledispatch
def predictions(booster: Any, scores: Mat) -> Mat:
    """Return the predictions of scores (B, m): values (B, m), the probability of the positive class
    (B, 1), or probabilities (B, C).
    """
    linked = np.empty_like(scores)
    if to_prediction.dispatch(type(booster.rule)) is to_prediction.dispatch(object):
        link_many(booster.loss, scores, linked)  # without the rule: passing it takes 5 us
    else:
        predict_scores(booster.rule, booster.loss, scores, linked)
    return linked


@singledispatch
def losses(booster: Any, scores: Mat, y: ArrayLike) -> Vec:
    """Return the losses (B,) of scores (B, m) for labels y (B,)."""
    result = np.empty(len(scores))
    labels = encode_labels(booster.loss, as_float64("y", y), scores.shape[1])
    fill_losses(booster.rule, booster.loss, scores, labels, result)
    return result


@singledispatch
def add_features(booster: Any, full: Mapping[str, Any], d: int) -> Any:
    """Return the booster widened to d features; the old one must not be used any more.

    Parameters
    ----------
    booster
        A booster of fewer features.
    full
        Its filled-in specification.
    d
        The new number of features.

    Raises
    ------
    ModelError
        The weak learners cannot be widened, or memory does not suffice; then nothing changed.
    """
    raise ModelError(
        f"bank.kind: {full['bank']['kind']} cannot take features that come up later; name every "
        "feature and its kind, or take bank reboosted_trees"
    )


@singledispatch
def with_class(booster: Any, max_classes: int) -> Any:
    """Return the booster with a class more, which has learned that no event so far was of it; the
    old one must not be used any more. `max_classes` is how many there may be.

    Raises
    ------
    ModelError
        The booster cannot learn classes as they come.
    """
    raise ModelError("task.labels: auto needs a model that learns classes as they come")


@singledispatch
def with_shares(booster: Any, full: Mapping[str, Any], shares: int) -> Any:
    """Return the booster with memory planned for so many classes; the old one must not be used any
    more.

    Raises
    ------
    ModelError
        When memory does not suffice; then nothing changed.
    """
    raise ModelError("task.labels: auto needs a model that learns classes as they come")


@singledispatch
def warm_growth(booster: Any) -> None:
    """Compile what `add_features` takes; nothing changes."""


@singledispatch
def mark_categorical(booster: Any, columns: Ints) -> None:
    """Mark the columns that hold codes of categories; only boosters with linear learners need it.

    Codes are -1 for a new value, then 0, 1, ... in order of first sight.
    """


@singledispatch
def quiesce(booster: Any) -> None:
    """Bring the arrays to the state that does not depend on background work, before they are saved
    or compared. Predictions and learning stay the same.
    """


@singledispatch
def features(booster: Any, X: ArrayLike) -> Mat:
    """Return X (B, d) as C-contiguous float64.

    Raises
    ------
    ModelError
        X has another shape, or a value that is not finite.
    """
    rows = as_float64("X", X)
    d = int(booster.shape[0])
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ModelError(f"X: has shape {rows.shape}; give (events, {d}) numbers")
    if not finite(rows):
        raise ModelError(
            "X: holds a value that is not finite; replace it, or encode features with Model"
        )
    return rows
