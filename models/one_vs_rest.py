"""One versus rest: a binary booster for every class, over the same features, so that binary rules
and losses serve several classes (specification, section 0, Prefixes and probabilities).

Where classes are learned as they come, one more booster learns every event as one of the rest: it
is that of each class without a label so far. A new class begins with its copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    warm_growth,
    with_class,
    with_shares,
)
from kaboost.models.evaluation.progress import Progress
from kaboost.models.explain.interface import Explanation, deviations, explain_many
from kaboost.models.losses import Softmax, has_probability
from kaboost.models.reboosted.booster import normalised
from kaboost.models.state import tree
from kaboost.models.types import Ints, Loss, Mat, Mat3, ModelError, Vec, as_float64
from kaboost.models.verbs import encode_labels

ONE_VS_REST, SHARED_TREES = WRAPPERS = ("one_vs_rest", "shared_trees")
SHARED_FIELDS = ("events", "weight_sum")  # the same for every class
SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)  # of a label in the log-loss


class OneVsRest(NamedTuple):
    """C boosters of one specification, with separate generators, counters and coefficients.

    All functions of a Booster take it.
    """

    classes: tuple[Any, ...]  # Booster or ReboostedTrees
    loss: Loss  # of every booster
    shape: Ints  # (2,) d and C; where classes are learned, (3,) with how many share the memory
    unseen: tuple[Any, ...] = ()  # the booster of every class that is still to come

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
        return int(self.boosters[0].learners)

    @property
    def boosters(self) -> tuple[Any, ...]:
        """Those of the classes, and that of classes to come."""
        return self.classes + self.unseen

    @property
    def shares(self) -> int:
        """How many boosters share the memory."""
        return int(self.shape[-1])

    @property
    def progress(self) -> Progress:
        """Progress summed over classes: losses are sums of the binary losses, edges are pooled."""
        first, counted = self.boosters[0].progress, self.classes or self.unseen
        return Progress(
            *(
                getattr(first, field)
                if field in SHARED_FIELDS
                else np.sum([getattr(binary.progress, field) for binary in counted], axis=0)
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


def open_one_vs_rest(boosters: Sequence[Any], d: int, shares: int, *, full: bool) -> OneVsRest:
    """Return the wrapper of boosters over d features where classes are learned as they come.

    Parameters
    ----------
    boosters
        Those of the classes so far and, unless there are as many as there may be (`full`), one for
        every class to come.
    d, shares
        Features, and how many boosters share the memory.
    full
        Whether no class can come.
    """
    count = len(boosters) - (not full)
    shape = np.array([d, count, shares], np.int64)
    return OneVsRest(tuple(boosters[:count]), boosters[0].loss, shape, tuple(boosters[count:]))


@with_class.register
def _(booster: OneVsRest, max_classes: int) -> OneVsRest:
    (template,) = booster.unseen
    if len(booster.classes) + 1 == max_classes:
        classes, unseen = (*booster.classes, template), ()
    else:
        quiesce(template)
        classes, unseen = (*booster.classes, tree.copied(template)), booster.unseen
    shape = np.array([booster.shape[0], len(classes), booster.shares], np.int64)
    return booster._replace(classes=classes, unseen=unseen, shape=shape)


@with_shares.register
def _(booster: OneVsRest, full: Mapping[str, Any], shares: int) -> OneVsRest:
    d, shared = int(booster.shape[0]), {**full, "classes": shares}
    shape = np.array([*booster.shape[:-1], shares], np.int64)
    if add_features.dispatch(type(booster.boosters[0])) is add_features.dispatch(object):
        return booster._replace(shape=shape)  # no window
    return _replaced(booster, lambda binary: add_features(binary, shared, d), shape)


def _replaced(booster: OneVsRest, change: Callable[[Any], Any], shape: Ints) -> OneVsRest:
    return booster._replace(
        classes=tuple(map(change, booster.classes)),
        unseen=tuple(map(change, booster.unseen)),
        shape=shape,
    )


def known_scores(booster: Any, scores: Mat) -> Mat:
    """Return scores (B, C) of the classes now from those that `capture_many` returned.

    A class that was still to come then has the score of all such classes.
    """
    places = np.minimum(np.arange(booster.outputs), scores.shape[1] - 1)
    return np.ascontiguousarray(scores[:, places])


def binary_task(word: Any, task: str | None) -> str:
    """Return the task of the boosters of `multiclass: word`.

    Raises
    ------
    ModelError
        For an unknown wrapper, and for a task that is not multiclass.
    """
    if word not in WRAPPERS:
        names = " or ".join(WRAPPERS)
        raise ModelError(f"multiclass: {word!r} is not known; write {names}, or leave it out")
    if task not in (None, "multiclass"):
        raise ModelError(f"multiclass: {word} does not support a {task} task; leave it out")
    return "binary"


@features.register
def _(booster: OneVsRest, X: ArrayLike) -> Mat:
    return features(booster.boosters[0], X)


@learn_many.register
def _(booster: OneVsRest, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    rows = features(booster, X)
    labels = _labels(booster, y)
    scores = [
        learn_many(binary, rows, (labels == k).astype(np.float64), w)
        for k, binary in enumerate(booster.boosters)
    ]
    return np.concatenate(scores, axis=1)[:, : booster.outputs]


@score_many.register
def _(booster: OneVsRest, X: Mat) -> Mat:
    scored = booster.classes or booster.unseen
    return np.concatenate([score_many(binary, X) for binary in scored], axis=1)[
        :, : booster.outputs
    ]


# Scores are (B, C+1) where a class may come: its score is the last one.
@capture_many.register
def _(booster: OneVsRest, X: Mat) -> tuple[Mat, Mat]:
    parts = [capture_many(binary, X) for binary in booster.boosters]
    scores, captured = zip(*parts, strict=True)
    return np.concatenate(scores, axis=1), np.concatenate(captured, axis=1)


@learn_captured.register
def _(booster: OneVsRest, X: ArrayLike, captured: Mat, y: ArrayLike, w: ArrayLike) -> Mat:
    rows, labels = features(booster, X), _labels(booster, y)
    scores = [
        learn_captured(binary, rows, part, (labels == k).astype(np.float64), w)
        for k, (binary, part) in enumerate(
            zip(booster.boosters, _parts(booster, captured), strict=True)
        )
    ]
    return np.concatenate(scores, axis=1)[:, : booster.outputs]


def _parts(booster: OneVsRest, captured: Mat) -> list[Mat]:
    """Return the part (B, S) of every booster of captured parts, as wide for every one; the last
    one stands for all classes that were still to come.
    """
    _, one = capture_many(booster.boosters[0], np.empty((0, int(booster.shape[0]))))
    S, last = one.shape[1], captured.shape[1] // max(one.shape[1], 1) - 1
    firsts = [S * min(k, last) for k in range(len(booster.boosters))]
    return [np.ascontiguousarray(captured[:, first : first + S]) for first in firsts]


@prefixes_many.register
def _(booster: OneVsRest, X: ArrayLike) -> Mat3:
    sums = [prefixes_many(binary, X) for binary in booster.classes or booster.unseen]
    return np.concatenate(sums, axis=2)[:, :, : booster.outputs]


@add_features.register
def _(booster: OneVsRest, full: Mapping[str, Any], d: int) -> OneVsRest:
    shared = {**full, "classes": booster.shares}
    shape = np.array([d, *booster.shape[1:]], np.int64)
    return _replaced(booster, lambda binary: add_features(binary, shared, d), shape)


@warm_growth.register
def _(booster: OneVsRest) -> None:
    warm_growth(booster.boosters[0])
    predictions(booster.boosters[0], np.empty((0, 1)))  # before the first class nothing is


@quiesce.register
def _(booster: OneVsRest) -> None:
    for binary in booster.boosters:
        quiesce(binary)


@mark_categorical.register
def _(booster: OneVsRest, columns: Ints) -> None:
    for binary in booster.boosters:
        mark_categorical(binary, columns)


@predictions.register
def _(booster: OneVsRest, scores: Mat) -> Mat:
    # The probabilities of all classes, normalised; uniform where all are 0. A loss without
    # probabilities gives 1 to the class of the largest score.
    if not booster.classes:
        return np.empty((len(scores), 0))
    if not has_probability(booster.loss):
        return np.asarray(np.eye(booster.outputs)[scores.argmax(axis=1)])
    linked = np.concatenate(
        [predictions(binary, scores[:, k : k + 1]) for k, binary in enumerate(booster.classes)],
        axis=1,
    )
    return normalised(linked, scores)


@losses.register
def _(booster: OneVsRest, scores: Mat, y: ArrayLike) -> Vec:
    # The log-loss of the normalised probabilities, which compares across models; without
    # probabilities the sum of the binary losses.
    if not booster.classes:
        return np.zeros(len(scores))
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
    by_class = [explain_many(binary, X) for binary in booster.classes or booster.unseen]
    fields = zip(*by_class, strict=True)
    C = booster.outputs
    return Explanation(*(np.concatenate(values, axis=1)[:, :C] for values in fields))


@deviations.register
def _(booster: OneVsRest) -> Mat:
    counted = booster.classes or booster.unseen
    return np.concatenate([deviations(binary) for binary in counted])


def _labels(booster: OneVsRest, y: ArrayLike) -> Vec:
    """Return the class indices (B,) of labels y (B,)."""
    C = max(booster.outputs, 1)  # before the first class only events of weight 0 are learned
    return encode_labels(Softmax(0.0), as_float64("y", y), C)[:, 0]
