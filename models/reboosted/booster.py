"""Reboosted trees as a Booster: K structures, stacked and calibrated online.

Registers the verbs of `kaboost.models.booster` that learn, predict, and add features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.batch_loops import link_many
from kaboost.models.booster import (
    add_features,
    capture_many,
    features,
    learn_captured,
    learn_many,
    losses,
    mark_categorical,
    predictions,
    prefixes_many,
    quiesce,
    score_many,
    warm_growth,
)
from kaboost.models.kernels.jit import kernel, unregistered
from kaboost.models.losses import Huber
from kaboost.models.reboosted.add_features import with_features as with_more_features
from kaboost.models.reboosted.background import NO_STOP
from kaboost.models.reboosted.component import sizes_of
from kaboost.models.reboosted.ensemble import ReboostedTrees as ReboostedTrees
from kaboost.models.reboosted.ensemble import reboosted_trees as reboosted_trees
from kaboost.models.reboosted.ensemble import resized_progress, served_model, served_trees
from kaboost.models.reboosted.feature_scale import observe_rows, scaled_keys
from kaboost.models.reboosted.feature_scale import with_features as with_more_scales
from kaboost.models.reboosted.first_labels import (
    first_label_count,
    restart_from_first_labels,
    set_first_factor,
)
from kaboost.models.reboosted.imputation import (
    SAMPLED,
    average,
    fill_likely,
    find_unknown,
    observe_until_unknown,
)
from kaboost.models.reboosted.imputation import with_features as with_more_imputation
from kaboost.models.reboosted.late_mixture import learn_late, score_late
from kaboost.models.reboosted.learn import grow_in_background, learn_batch, learn_scratch
from kaboost.models.reboosted.linear import with_features as with_more_columns
from kaboost.models.reboosted.lookahead import Batch
from kaboost.models.reboosted.memory import affordable_window
from kaboost.models.reboosted.predict import predict_rows, prefix_rows
from kaboost.models.reboosted.rescale import move_columns
from kaboost.models.reboosted.scratch import allocate_predict, score_count
from kaboost.models.reboosted.state import (
    BACKGROUND,
    IDLE,
    LOG_ODDS,
    READY,
    UNASSIGNED,
    Keys,
    Reboosted,
    TreeBuild,
)
from kaboost.models.reboosted.trees.commit import commit_tree
from kaboost.models.reboosted.trees.cost import SLICE_NS
from kaboost.models.reboosted.trees.rebinning import update_bins
from kaboost.models.types import WEIGHT_LIMIT, Ints, Loss, Mat, Mat3, ModelError, Vec, as_float64
from kaboost.models.verbs import encode_labels, value

MAX_LABEL = 1e30  # a larger label, times the labels' factor, counts as this


def to_rows(booster: ReboostedTrees, X: ArrayLike) -> Keys:
    """Return X (B, d) as keys; nan is missing, infinities count as the largest numbers."""
    return scaled_keys(booster.features, checked_rows(booster, X))


def checked_rows(booster: Any, X: ArrayLike) -> Mat:
    """Return X (B, d) as float64.

    Raises
    ------
    ModelError
        X has another shape than the booster's.
    """
    rows = as_float64("X", X)
    d = int(booster.shape[0])
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ModelError(f"X: has shape {rows.shape}; give (events, {d}) numbers")
    return rows


@features.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat:
    return checked_rows(booster, X)


@learn_many.register
def _(booster: ReboostedTrees, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    if not booster.progress.events.flags.writeable:
        raise ModelError("booster: its arrays are read-only (a snapshot); load a checkpoint")
    events = checked_events(booster, X, _labels(booster, y), w)
    return _learn(booster, events, np.empty((len(events.X), 0)))


class Events(NamedTuple):
    """Events to learn, in order."""

    X: Mat  # (n, d)
    labels: Mat  # (n, 1)
    weights: Vec  # (n,)


def _learn(booster: ReboostedTrees, events: Events, captured: Mat) -> Mat:
    """Learn the events, in parts: after some of them, what all later ones need changes."""
    scores, first, n = np.empty((len(events.X), 1)), 0, len(events.X)
    set_first_factor(booster, events.labels, events.weights)
    if n == 0 and not captured.shape[1]:  # so that nothing compiles at the first unknown value
        score_events(booster, events.X, _none(0))
    while first < n or first == n == 0:
        labelled = first_label_count(booster.trees, events.weights[first:])
        end, t = first + labelled if labelled else n, int(booster.trees.schedule.time)
        last = observe_rows(booster.features, events.X, events.weights, first, end, t)
        learn_known_and_unknown(booster, events, captured, scores, slice(first, last))
        if labelled and last == end:
            restart_from_first_labels(booster)
        move_columns(booster)
        if n == 0:
            break
        first = last
    return scores


def learn_known_and_unknown(
    booster: Any, events: Events, captured: Mat, scores: Mat, part: slice
) -> None:
    """Learn a part of the events; those with an unknown value are answered as in `score_many`."""
    imputation, categorical = booster.imputation, booster.linear.categorical
    first, end, scored = part.start, part.stop, False
    X, W, answer = events.X[:end], events.weights, _none(0)
    while True:
        place = (first, int(booster.trees.schedule.time), scored)
        last = observe_until_unknown(imputation, categorical, X, W, place)
        learn_part(booster, events, captured, scores, slice(first, last))
        if len(answer):
            scores[first] = answer[0]
        if last == end:
            return
        if not captured.size:
            answer = score_events(booster, X[last : last + 1], _none(1))
        first, scored = last, True


def _none(n: int) -> Mat:
    """Return what `_score` fills of n events where nothing is captured."""
    return np.empty((n, 0))


@singledispatch
def learn_part(booster: Any, events: Events, captured: Mat, scores: Mat, part: slice) -> None:
    """Learn a part of the events in the current scale of features and labels."""
    raise unregistered("learn_part", booster)


@learn_part.register
def _(booster: ReboostedTrees, events: Events, captured: Mat, scores: Mat, part: slice) -> None:
    factor, filled = float(booster.labels.factor), scores[part]
    keys = scaled_keys(booster.features, events.X[part])
    labels = np.clip(events.labels[part] * factor, -MAX_LABEL, MAX_LABEL)
    learning = booster
    if factor != 1.0:
        captured = captured * factor
        if isinstance(booster.loss, Huber):  # of the others none knows a unit
            learning = booster._replace(loss=booster.loss._replace(k=booster.loss.k * factor))
    learn_batch(learning, Batch(keys, labels, events.weights[part], captured[part]), filled)
    filled /= factor


def _labels(booster: ReboostedTrees, y: ArrayLike) -> Mat:
    return encode_labels(booster.loss, as_float64("y", y), 1)


def checked_events(booster: Any, X: ArrayLike, Y: Mat, w: ArrayLike | None) -> Events:
    """Return events with encoded labels Y (B, 1).

    Raises
    ------
    ModelError
        An array has a wrong shape or value.
    """
    rows = checked_rows(booster, X)
    W = np.ones(len(rows)) if w is None else as_float64("w", w)
    if len(Y) != len(rows) or W.shape != (len(rows),):
        raise ModelError(
            f"y, w: {len(Y)} labels and {W.shape} weights for {len(rows)} events; give one of each"
        )
    if not (W >= 0.0).all() or not (math.inf > W).all():
        raise ModelError("w: an importance is negative or not finite; give numbers >= 0")
    return Events(rows, Y, np.minimum(W, WEIGHT_LIMIT))


@quiesce.register
def _(booster: ReboostedTrees) -> None:
    schedule = booster.trees.schedule
    for k in np.flatnonzero(schedule.status == BACKGROUND):
        grow_in_background(booster, learn_scratch(booster), int(k), NO_STOP)
        schedule.status[k] = READY
    if schedule.spent_ns.flags.writeable:
        schedule.spent_ns[...] = 0.0


@add_features.register
def _(booster: ReboostedTrees, full: Mapping[str, Any], d: int) -> ReboostedTrees:
    sizes = sizes_of(full)
    affordable_window(sizes, d)  # raises before anything changes
    _finish_builds(booster)
    trees, builds = with_more_features(booster.trees, sizes, d)
    linear = with_more_columns(booster.linear, d)
    shape = np.array([d, 1], np.int64)
    return booster._replace(
        trees=trees,
        builds=builds,
        linear=linear,
        shape=shape,
        progress=resized_progress(booster.progress, trees),
        features=with_more_scales(booster.features, d),
        imputation=with_more_imputation(booster.imputation, d),
    )


@warm_growth.register
def _(booster: ReboostedTrees) -> None:
    _commit_builds(booster.trees, booster.builds, 0)


@mark_categorical.register
def _(booster: ReboostedTrees, columns: Ints) -> None:
    booster.linear.categorical[columns] = 1.0


@score_many.register
def _(booster: ReboostedTrees, X: Mat) -> Mat:
    late = bool(booster.late.events > 0.0)
    return score_events(booster, X, np.empty((len(X), _captured_width(booster) if late else 0)))


def likely_rows(booster: Any, X: Mat) -> Iterator[tuple[int, Mat]]:
    """Yield the number of every row of X (B, d) that has an unknown value, and 64 rows (64, d) with
    likely values in their place.
    """
    unknown, categorical = np.empty(len(X), np.bool_), booster.linear.categorical
    find_unknown(booster.imputation, categorical, X, unknown)
    if len(X) == 0 or booster.imputation.sampled < SAMPLED:  # so that nothing compiles later
        d = X.shape[1]
        fill_likely(booster.imputation, categorical, np.zeros(d), np.empty((0, d)))
    for k in np.flatnonzero(unknown).tolist():
        likely = np.empty((SAMPLED, X.shape[1]))
        fill_likely(booster.imputation, categorical, X[k], likely)
        yield k, likely


def _captured_width(booster: ReboostedTrees) -> int:
    return booster.trees.label_means.size + score_count(booster.trees) + 3


@singledispatch
def score_events(booster: Any, X: Mat, captured: Mat) -> Mat:
    """Return the scores (B, m) of X (B, d), and fill captured (B, n) if it has columns."""
    raise unregistered("score_events", booster)


@score_events.register
def _(booster: ReboostedTrees, X: Mat, captured: Mat) -> Mat:
    scores = _score_as_known(booster, X, captured)
    for k, likely in likely_rows(booster, X):
        answers = _score_as_known(booster, likely, np.zeros((len(likely), captured.shape[1])))
        scores[k, 0] = average(answers[:, 0], int(booster.trees.params.link))
    if captured.shape[1]:
        captured[:, -2] = scores[:, 0]
    return scores


def _score_as_known(booster: ReboostedTrees, X: Mat, captured: Mat) -> Mat:
    scores = np.empty((len(X), 1))
    arrays = allocate_predict(booster.trees, booster.stack, int(booster.shape[0]))
    predict_rows(served_model(booster), to_rows(booster, X), arrays, scores, captured)
    scores /= booster.labels.factor
    captured /= booster.labels.factor
    late, first = booster.late, booster.trees.label_means.size
    warms = (
        captured.shape[1] > 0 and len(X) == 0
    )  # so that nothing compiles at the first late label
    if late.events > 0.0 or warms:
        score_late(late, captured, first, np.empty_like(late.losses), scores)
        captured[:, -2] = scores[:, 0]
    return scores


@capture_many.register
def _(booster: ReboostedTrees, X: Mat) -> tuple[Mat, Mat]:
    captured = np.empty((len(X), _captured_width(booster)))
    captured[:, -1] = booster.trees.schedule.time
    return score_events(booster, X, captured), captured


@learn_captured.register
def _(booster: ReboostedTrees, X: ArrayLike, captured: Mat, y: ArrayLike, w: ArrayLike) -> Mat:
    events = checked_events(booster, X, _labels(booster, y), w)
    if int(booster.trees.params.link) == LOG_ODDS:
        means = booster.trees.label_means.size
        learn_late(booster.late, captured, means, events.labels[:, 0].copy(), events.weights)
    return _learn(booster, events, captured)


@prefixes_many.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat3:
    rows = to_rows(booster, X)
    sums = np.empty((len(rows), booster.learners + 1, len(booster.trees.structures)))
    prefix_rows(served_trees(booster.trees), rows, learn_scratch(booster), sums)
    sums += booster.labels.offset
    sums /= booster.labels.factor
    return sums


@predictions.register
def _(booster: ReboostedTrees, scores: Mat) -> Mat:
    scores = np.ascontiguousarray(scores)  # a class's column would be another kernel to compile
    linked = np.empty_like(scores)
    link_many(booster.loss, scores, linked)
    return linked


def normalised(linked: Mat, scores: Mat) -> Mat:
    """Return positive numbers (B, C) of classes so that they sum to 1, in place; uniform where all
    are 0. The largest is that of the largest of scores (B, C).
    """
    linked[linked.sum(axis=1) == 0.0] = 1.0
    linked /= linked.sum(axis=1, keepdims=True)
    events, best = np.arange(len(scores)), scores.argmax(axis=1)
    tied = (linked[events, best] == linked.max(axis=1)) & (linked.argmax(axis=1) != best)
    # Probabilities can saturate while scores still differ: the largest score wins.
    linked[events[tied], best[tied]] = np.nextafter(linked[events[tied], best[tied]], 2.0)
    return linked


@losses.register
def _(booster: ReboostedTrees, scores: Mat, y: ArrayLike) -> Vec:
    values = np.empty(len(scores))
    _losses(booster.loss, scores, encode_labels(booster.loss, as_float64("y", y), 1), values)
    return values


@kernel
def _losses(loss: Loss, scores: Mat, Y: Mat, values: Vec) -> None:
    for k in range(scores.shape[0]):
        values[k] = value(loss, scores[k], Y[k])


def _finish_builds(booster: ReboostedTrees) -> None:
    """Finish all trees and bins that are being made."""
    status = booster.trees.schedule.status
    for k in np.flatnonzero(status != UNASSIGNED):
        grow_in_background(booster, learn_scratch(booster), int(k), NO_STOP)
    _commit_builds(booster.trees, booster.builds, len(status))


@kernel
def _commit_builds(bank: Reboosted, builds: tuple[TreeBuild, ...], structures: int) -> None:
    """Commit the grown trees of the first structures, and finish the bins that are being made."""
    schedule, bins, t = bank.schedule, bank.bins, int(bank.schedule.time[()])
    for k in range(structures):
        while schedule.status[k] != UNASSIGNED:
            commit_tree(bank, builds[k], k, t, SLICE_NS)
    while structures > 0 and bins.progress[0].step != IDLE:
        update_bins(bins, bank.window.codes, t, schedule.status)
