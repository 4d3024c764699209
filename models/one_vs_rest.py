"""One versus rest: a binary booster for every class, over the same features, so that binary rules
and losses serve several classes (specification, section 0, Prefixes and probabilities).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

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
)
from kaboost.models.evaluation.progress import Progress
from kaboost.models.explain.interface import Explanation, explain_many, gains
from kaboost.models.losses import Softmax, has_probability
from kaboost.models.types import Ints, Mat, Mat3, ModelError, Vec, as_float64
from kaboost.models.verbs import encode_labels

ONE_VS_REST = "one_vs_rest"
SHARED_FIELDS = ("events", "weight_sum")  # the same for every class
SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)  # of a label in the log-loss


class OneVsRest(NamedTuple):
    """C boosters of one specification, with separate generators, counters and coefficients.

    All functions of a Booster take it.
    """

    classes: tuple[Any, ...]  # Booster or ReboostedTrees
    loss: Any  # of every booster
    shape: Ints  # (2,) d and C

    @property
    def outputs(self) -> int:
        """The number of classes, C."""
        return len(self.classes)

    @property
    def rule(self) -> None:
        """None: every class has its own rule."""
        return None

    @property
    def learners(self) -> int:
        """The number of weak learners of a class, N."""
        return int(self.classes[0].learners)

    @property
    def progress(self) -> Progress:
        """Progress summed over classes: losses are sums of the binary losses, edges are pooled."""
        first = self.classes[0].progress
        return Progress(
            *(
                getattr(first, field)
                if field in SHARED_FIELDS
                else np.sum([getattr(binary.progress, field) for binary in self.classes], axis=0)
                for field in Progress._fields
            )
        )


def one_vs_rest(boosters: Sequence[Any], d: int) -> OneVsRest:
    """Return the wrapper of C binary boosters over d features.

    Raises
    ------
    ModelError
        For fewer than two classes.
    """
    if len(boosters) < 2:
        raise ModelError(
            f"m: {ONE_VS_REST} needs two classes or more, not {len(boosters)}; leave multiclass out"
        )
    return OneVsRest(tuple(boosters), boosters[0].loss, np.array([d, len(boosters)], np.int64))


def binary_task(word: Any, task: str | None) -> str:
    """Return the task of the boosters of `multiclass: word`.

    Raises
    ------
    ModelError
        For an unknown wrapper, and for a task that is not multiclass.
    """
    if word != ONE_VS_REST:
        raise ModelError(f"multiclass: {word!r} is not known; write {ONE_VS_REST}, or leave it out")
    if task not in (None, "multiclass"):
        raise ModelError(f"multiclass: {ONE_VS_REST} does not support a {task} task; leave it out")
    return "binary"


@features.register
def _(booster: OneVsRest, X: ArrayLike) -> Mat:
    return features(booster.classes[0], X)


@learn_many.register
def _(booster: OneVsRest, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    rows = features(booster, X)
    labels = _labels(booster, y)
    return np.concatenate(
        [
            learn_many(binary, rows, (labels == k).astype(np.float64), w)
            for k, binary in enumerate(booster.classes)
        ],
        axis=1,
    )


@score_many.register
def _(booster: OneVsRest, X: Mat) -> Mat:
    return np.concatenate([score_many(binary, X) for binary in booster.classes], axis=1)


@capture_many.register
def _(booster: OneVsRest, X: Mat) -> tuple[Mat, Mat]:
    parts = [capture_many(binary, X) for binary in booster.classes]
    scores, captured = zip(*parts, strict=True)
    return np.concatenate(scores, axis=1), np.concatenate(captured, axis=1)


@learn_captured.register
def _(booster: OneVsRest, X: ArrayLike, captured: Mat, y: ArrayLike, w: ArrayLike) -> Mat:
    rows, labels, C = features(booster, X), _labels(booster, y), booster.outputs
    parts = np.split(captured, C, axis=1)  # as wide for every class
    return np.concatenate(
        [
            learn_captured(
                binary, rows, np.ascontiguousarray(parts[k]), (labels == k).astype(np.float64), w
            )
            for k, binary in enumerate(booster.classes)
        ],
        axis=1,
    )


@prefixes_many.register
def _(booster: OneVsRest, X: ArrayLike) -> Mat3:
    return np.concatenate([prefixes_many(binary, X) for binary in booster.classes], axis=2)


@add_features.register
def _(booster: OneVsRest, full: Mapping[str, Any], d: int) -> OneVsRest:
    shared = {**full, "classes": booster.outputs}
    classes = tuple(add_features(binary, shared, d) for binary in booster.classes)
    return booster._replace(classes=classes, shape=np.array([d, len(classes)], np.int64))


@quiesce.register
def _(booster: OneVsRest) -> None:
    for binary in booster.classes:
        quiesce(binary)


@mark_categorical.register
def _(booster: OneVsRest, columns: Ints) -> None:
    for binary in booster.classes:
        mark_categorical(binary, columns)


@predictions.register
def _(booster: OneVsRest, scores: Mat) -> Mat:
    # The probabilities of all classes, normalised; uniform where all are 0. A loss without
    # probabilities gives 1 to the class of the largest score.
    if not has_probability(booster.loss):
        return np.asarray(np.eye(booster.outputs)[scores.argmax(axis=1)])
    linked = np.concatenate(
        [predictions(binary, scores[:, k : k + 1]) for k, binary in enumerate(booster.classes)],
        axis=1,
    )
    linked[linked.sum(axis=1) == 0.0] = 1.0
    linked /= linked.sum(axis=1, keepdims=True)
    events, best = np.arange(len(scores)), scores.argmax(axis=1)
    tied = (linked[events, best] == linked.max(axis=1)) & (linked.argmax(axis=1) != best)
    # Probabilities can saturate while scores still differ: the largest score wins.
    linked[events[tied], best[tied]] = np.nextafter(linked[events[tied], best[tied]], 2.0)
    return linked


@losses.register
def _(booster: OneVsRest, scores: Mat, y: ArrayLike) -> Vec:
    # The log-loss of the normalised probabilities, which compares across models; without
    # probabilities the sum of the binary losses.
    labels = _labels(booster, y)
    if has_probability(booster.loss):
        of_label = predictions(booster, scores)[np.arange(len(scores)), labels.astype(np.int64)]
        return np.asarray(-np.log(np.maximum(of_label, SMALLEST_PROBABILITY)))
    bare = [binary._replace(loss=booster.loss) for binary in booster.classes]
    return np.asarray(
        sum(losses(binary, scores[:, k : k + 1], labels == k) for k, binary in enumerate(bare))
    )


@explain_many.register
def _(booster: OneVsRest, X: ArrayLike) -> Explanation:
    by_class = [explain_many(binary, X) for binary in booster.classes]
    fields = zip(*by_class, strict=True)
    return Explanation(*(np.concatenate(values, axis=1) for values in fields))


@gains.register
def _(booster: OneVsRest) -> Vec:
    return np.asarray(np.sum([gains(binary) for binary in booster.classes], axis=0))


def _labels(booster: OneVsRest, y: ArrayLike) -> Vec:
    """Return the class indices (B,) of labels y (B,)."""
    return encode_labels(Softmax(0.0), as_float64("y", y), booster.outputs)[:, 0]
