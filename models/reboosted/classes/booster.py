"""Trees of several classes as a Booster: registers the verbs of `kaboost.models.booster` that learn
and predict.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.booster import (
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
)
from kaboost.models.losses import Softmax
from kaboost.models.reboosted.background import NO_STOP
from kaboost.models.reboosted.booster import (
    Events,
    checked_events,
    checked_rows,
    learn_known_and_unknown,
    learn_part,
    likely_rows,
    normalised,
    score_events,
)
from kaboost.models.reboosted.classes.ensemble import ClassTrees, served_classes
from kaboost.models.reboosted.classes.learn import grow_in_background, learn_batch, learn_scratch
from kaboost.models.reboosted.classes.predict import predict_rows, predict_scratch, prefix_rows
from kaboost.models.reboosted.feature_scale import observe_rows, scaled_keys
from kaboost.models.reboosted.imputation import average
from kaboost.models.reboosted.late_mixture import LateMixture, learn_late, score_late
from kaboost.models.reboosted.lookahead import Batch
from kaboost.models.reboosted.rescale import move_columns
from kaboost.models.reboosted.state import BACKGROUND, LOG_ODDS, READY
from kaboost.models.types import Ints, Mat, Mat3, ModelError, Vec, as_float64
from kaboost.models.verbs import encode_labels

SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)  # of a label in the log-loss


@features.register
def _(booster: ClassTrees, X: ArrayLike) -> Mat:
    return checked_rows(booster, X)


@learn_many.register
def _(booster: ClassTrees, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    if not booster.progress.events.flags.writeable:
        raise ModelError("booster: its arrays are read-only (a snapshot); load a checkpoint")
    events = _events(booster, X, y, w)
    return _learn(booster, events, np.empty((len(events.X), 0)))


def _events(booster: ClassTrees, X: ArrayLike, y: ArrayLike, w: ArrayLike | None) -> Events:
    """Return events whose labels are 2c - 1 for class c: so label means are means of c."""
    events = checked_events(booster, X, _labels(booster, y), w)
    return events._replace(labels=np.ascontiguousarray(2.0 * events.labels - 1.0))


def _labels(booster: ClassTrees, y: ArrayLike) -> Mat:
    """Return the class indices (B, 1) of labels y (B,)."""
    C = max(booster.outputs, 1)  # before the first class only events of weight 0 are learned
    return encode_labels(Softmax(0.0), as_float64("y", y), C)[:, :1]


def _learn(booster: ClassTrees, events: Events, captured: Mat) -> Mat:
    """Learn the events, in parts: after some of them, the scale of features changes."""
    scores, first, n = np.empty((len(events.X), booster.columns)), 0, len(events.X)
    if n == 0 and not captured.shape[1]:  # so that nothing compiles at the first unknown value
        score_events(booster, events.X, np.empty((0, 0)))
    while first < n or first == n == 0:
        t = int(booster.trees.schedule.time)
        last = observe_rows(booster.features, events.X, events.weights, first, n, t)
        learn_known_and_unknown(booster, events, captured, scores, slice(first, last))
        move_columns(booster)
        if n == 0:
            break
        first = last
    return np.ascontiguousarray(scores[:, : booster.outputs])


@learn_part.register
def _(booster: ClassTrees, events: Events, captured: Mat, scores: Mat, part: slice) -> None:
    keys = scaled_keys(booster.features, events.X[part])
    batch = Batch(keys, events.labels[part], events.weights[part], captured[part])
    learn_batch(booster, batch, scores[part])


@quiesce.register
def _(booster: ClassTrees) -> None:
    schedule = booster.trees.schedule
    for k in np.flatnonzero(schedule.status == BACKGROUND):
        grow_in_background(booster, learn_scratch(booster), int(k), NO_STOP)
        schedule.status[k] = READY
    if schedule.spent_ns.flags.writeable:
        schedule.spent_ns[...] = 0.0


@mark_categorical.register
def _(booster: ClassTrees, columns: Ints) -> None:
    booster.linear.categorical[columns] = 1.0


@score_many.register
def _(booster: ClassTrees, X: Mat) -> Mat:
    late = bool(booster.late.events[0] > 0.0)
    scores = score_events(booster, X, np.empty((len(X), _captured_width(booster) if late else 0)))
    return np.ascontiguousarray(scores[:, : booster.outputs])


def _captured_width(booster: ClassTrees) -> int:
    return booster.trees.label_means.size + booster.columns * _block_width(booster) + 1


def _block_width(booster: ClassTrees) -> int:
    """Return how many numbers are captured of one class."""
    return int(booster.late.losses.shape[1]) + 1


@score_events.register
def _(booster: ClassTrees, X: Mat, captured: Mat) -> Mat:
    scores = _score_as_known(booster, X, captured)
    for k, likely in likely_rows(booster, X):
        answers = _score_as_known(booster, likely, np.zeros((len(likely), captured.shape[1])))
        for c in range(booster.columns):
            scores[k, c] = average(np.ascontiguousarray(answers[:, c]), LOG_ODDS)
    if captured.shape[1]:
        captured[:, _served_places(booster)] = scores
    return scores


def _served_places(booster: ClassTrees) -> Ints:
    """Return the columns of captured events that hold the served scores of classes."""
    block = _block_width(booster)
    return booster.trees.label_means.size + block * np.arange(1, booster.columns + 1) - 1


def _score_as_known(booster: ClassTrees, X: Mat, captured: Mat) -> Mat:
    scores = np.empty((len(X), booster.columns))
    keys, s = scaled_keys(booster.features, checked_rows(booster, X)), predict_scratch(booster)
    predict_rows(served_classes(booster), keys, s, scores, captured)
    # With no event too, so that nothing compiles at the first late label.
    if captured.shape[1] and (booster.late.events[0] > 0.0 or len(X) == 0):
        for c in range(booster.columns):
            late, one = class_late(booster.late, c), np.empty((len(X), 1))
            score_late(
                late, _class_captured(booster, captured, c), 0, np.empty_like(late.losses), one
            )
            scores[:, c] = one[:, 0]
        captured[:, _served_places(booster)] = scores
    return scores


def class_late(late: LateMixture, c: int) -> LateMixture:
    """Return the late mixture of class c."""
    return late._replace(**{name: value[c, ...] for name, value in late._asdict().items()})


def _class_captured(booster: ClassTrees, captured: Mat, c: int) -> Mat:
    """Return what was captured of class c: scores (B, S), twice the served one, and the time."""
    first, block = booster.trees.label_means.size + c * _block_width(booster), _block_width(booster)
    return np.concatenate([captured[:, first : first + block], captured[:, -1:]], axis=1)


@capture_many.register
def _(booster: ClassTrees, X: Mat) -> tuple[Mat, Mat]:
    captured = np.empty((len(X), _captured_width(booster)))
    captured[:, -1] = booster.trees.schedule.time
    return score_events(booster, X, captured), captured


@learn_captured.register
def _(booster: ClassTrees, X: ArrayLike, captured: Mat, y: ArrayLike, w: ArrayLike) -> Mat:
    events, known = _events(booster, X, y, w), _with_later_classes(booster, captured)
    for c in range(booster.columns):
        of_class = np.where(events.labels[:, 0] == 2.0 * c - 1.0, 1.0, -1.0)
        parts = _class_captured(booster, known, c)
        learn_late(class_late(booster.late, c), parts, 0, of_class, events.weights)
    return _learn(booster, events, known)


def _with_later_classes(booster: ClassTrees, captured: Mat) -> Mat:
    """Return captured events with the blocks of classes added since: the last one stood for all."""
    means, block = booster.trees.label_means.size, _block_width(booster)
    last = (captured.shape[1] - means - 1) // block - 1
    places = [means + block * min(c, last) + np.arange(block) for c in range(booster.columns)]
    columns = np.concatenate([np.arange(means), *places, [captured.shape[1] - 1]])
    return np.ascontiguousarray(captured[:, columns])


@prefixes_many.register
def _(booster: ClassTrees, X: ArrayLike) -> Mat3:
    keys = scaled_keys(booster.features, checked_rows(booster, X))
    columns = booster.columns * len(booster.trees.structures)
    sums = np.empty((len(keys), booster.learners + 1, columns))
    prefix_rows(served_classes(booster), keys, predict_scratch(booster), sums)
    return sums


@predictions.register
def _(booster: ClassTrees, scores: Mat) -> Mat:
    # The probabilities of all classes, normalised.
    if not scores.shape[1]:
        return np.empty((len(scores), 0))
    return normalised(1.0 / (1.0 + np.exp(-np.asarray(scores))), scores)


@losses.register
def _(booster: ClassTrees, scores: Mat, y: ArrayLike) -> Vec:
    if not booster.outputs:
        return np.zeros(len(scores))
    labels = _labels(booster, y)[:, 0].astype(np.int64)
    of_label = predictions(booster, scores)[np.arange(len(scores)), labels]
    return np.asarray(-np.log(np.maximum(of_label, SMALLEST_PROBABILITY)))
