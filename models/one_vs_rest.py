"""One booster for each class against all others, over the same features: several classes for rules
and losses of two (specification, section 0, Prefixes and probabilities).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.booster import (
    add_features,
    features,
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
SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)  # probability under which no label counts


class OneVsRest(NamedTuple):
    """C boosters of one specification, each with its own generator, counters and coefficients; a
    Booster to whoever learns, predicts or saves.
    """

    classes: tuple[Any, ...]  # Boosters, or what learns and predicts as one
    loss: Any  # of every booster
    shape: Ints  # (2,) d and C

    @property
    def outputs(self) -> int:
        """The number of classes, C."""
        return len(self.classes)

    @property
    def rule(self) -> None:
        """None: there is one for each class."""
        return None

    @property
    def learners(self) -> int:
        """The number of weak learners of each class, N."""
        return int(self.classes[0].learners)

    @property
    def progress(self) -> Progress:
        """What was seen: the sums over classes, so that a loss is the sum of the binary ones and an
        edge the pooled one.
        """
        first = self.classes[0].progress
        return Progress(
            *(
                getattr(first, field)
                if field in SHARED_FIELDS
                else np.sum([getattr(one.progress, field) for one in self.classes], axis=0)
                for field in Progress._fields
            )
        )


def one_vs_rest(boosters: Sequence[Any], d: int) -> OneVsRest:
    """Return the wrapper of one fresh booster for each class."""
    if len(boosters) < 2:
        raise ModelError(
            f"m: {ONE_VS_REST} needs two classes or more, not {len(boosters)}; leave multiclass out"
        )
    return OneVsRest(tuple(boosters), boosters[0].loss, np.array([d, len(boosters)], np.int64))


def binary_task(word: Any, task: str | None) -> str:
    """Return the task of every class's booster; ModelError where the wrapper does not fit."""
    if word != ONE_VS_REST:
        raise ModelError(f"multiclass: {word!r} is not known; write {ONE_VS_REST}, or leave it out")
    if task not in (None, "multiclass"):
        raise ModelError(f"multiclass: {ONE_VS_REST} does not answer a {task} task; leave it out")
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
            learn_many(one, rows, (labels == k).astype(np.float64), w)
            for k, one in enumerate(booster.classes)
        ],
        axis=1,
    )


@score_many.register
def _(booster: OneVsRest, X: Mat) -> Mat:
    return np.concatenate([score_many(one, X) for one in booster.classes], axis=1)


@prefixes_many.register
def _(booster: OneVsRest, X: ArrayLike) -> Mat3:
    return np.concatenate([prefixes_many(one, X) for one in booster.classes], axis=2)


@add_features.register
def _(booster: OneVsRest, full: Mapping[str, Any], d: int) -> OneVsRest:
    shared = {**full, "classes": booster.outputs}
    classes = tuple(add_features(one, shared, d) for one in booster.classes)
    return booster._replace(classes=classes, shape=np.array([d, len(classes)], np.int64))


@quiesce.register
def _(booster: OneVsRest) -> None:
    for one in booster.classes:
        quiesce(one)


@mark_categorical.register
def _(booster: OneVsRest, columns: Ints) -> None:
    for one in booster.classes:
        mark_categorical(one, columns)


@predictions.register
def _(booster: OneVsRest, scores: Mat) -> Mat:
    # The probabilities of all classes, normalised; uniform where all are 0. A loss without
    # probability answers with 1 for the class of the largest score.
    if not has_probability(booster.loss):
        return np.asarray(np.eye(booster.outputs)[scores.argmax(axis=1)])
    said = [predictions(one, scores[:, k : k + 1]) for k, one in enumerate(booster.classes)]
    linked = np.concatenate(said, axis=1)
    linked[linked.sum(axis=1) == 0.0] = 1.0
    linked /= linked.sum(axis=1, keepdims=True)
    events, best = np.arange(len(scores)), scores.argmax(axis=1)
    tied = (linked[events, best] == linked.max(axis=1)) & (linked.argmax(axis=1) != best)
    # Probabilities can be as large as they get while scores still differ: the larger score leads.
    linked[events[tied], best[tied]] = np.nextafter(linked[events[tied], best[tied]], 2.0)
    return linked


@losses.register
def _(booster: OneVsRest, scores: Mat, y: ArrayLike) -> Vec:
    # The log-loss of the normalised probabilities, which other models can be held against; without
    # probabilities the sum of the binary losses.
    labels = _labels(booster, y)
    if has_probability(booster.loss):
        said = predictions(booster, scores)[np.arange(len(scores)), labels.astype(np.int64)]
        return np.asarray(-np.log(np.maximum(said, SMALLEST_PROBABILITY)))
    bare = [one._replace(loss=booster.loss) for one in booster.classes]
    return np.asarray(
        sum(losses(one, scores[:, k : k + 1], labels == k) for k, one in enumerate(bare))
    )


@explain_many.register
def _(booster: OneVsRest, X: ArrayLike) -> Explanation:
    found = [explain_many(one, X) for one in booster.classes]
    return Explanation(*(np.concatenate(each, axis=1) for each in zip(*found, strict=True)))


@gains.register
def _(booster: OneVsRest) -> Vec:
    return np.asarray(np.sum([gains(one) for one in booster.classes], axis=0))


def _labels(booster: OneVsRest, y: ArrayLike) -> Vec:
    """Return class indices (B,), checked."""
    return encode_labels(Softmax(0.0), as_float64("y", y), booster.outputs)[:, 0]
