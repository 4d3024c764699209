"""Nets boosted on a stream, in sequence, and in groups: what SGB's Table 1 and Figure 2 compare.

Cost is in weak predictions: a prediction counts one unit, an update two (specification, 2.1). A
learner trained in sequence needs the predictions of all before it: T (N^2 / 2 + 2 N) units for
batches of T. `cached` counts each partial sum as computed once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kaboost
from kaboost.models.batch import Sample, fit_epochs, single_scratch
from kaboost.models.batch_loops import allocate, learn_events
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import SQUARE
from kaboost.models.verbs import encode_labels

TOLERANCE = 1e-3  # a group is trained until an epoch lowers its loss by less than this part
MOST_EPOCHS = 200  # of a group


class Task(NamedTuple):
    """Training and test rows, the loss, the bank of one learner, and what the test measures."""

    X: np.ndarray
    y: np.ndarray
    other: np.ndarray  # test rows
    labels: np.ndarray
    loss: Any
    bank: dict[str, Any]
    outputs: int  # m

    def test(self, scores: np.ndarray) -> float:
        """Return half the mean squared error, or the share of wrong classes, of scores (B, m)."""
        if self.outputs > 1:
            return float(np.mean(scores.argmax(axis=1) != self.labels))
        if self.loss == "squared":
            return float(0.5 * np.mean((scores[:, 0] - self.labels) ** 2))
        return float(np.mean((scores[:, 0] >= 0.0) != (self.labels > 0.0)))

    def gradients(self, P: np.ndarray) -> np.ndarray:
        """Return the gradients (B, m) at scores P (B, m)."""
        if self.outputs > 1:
            shares = np.exp(P - P.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            shares[np.arange(len(P)), self.y.astype(int)] -= 1.0
            return np.ascontiguousarray(shares)
        if self.loss == "squared":
            return P - self.y[:, None]
        u = np.where(self.y > 0, 1.0, -1.0)[:, None]
        return -u / (1.0 + np.exp(np.clip(u * P, -500, 500))) + 2.0 * self.loss["l2"] * P


class Curve:
    """Test losses against the cost in units."""

    def __init__(self) -> None:
        self.units: list[float] = []
        self.test: list[float] = []
        self.train: list[float] = []
        self.cached = 0.0

    def add(self, units: float, test: float, train: float) -> None:
        """Add a point."""
        self.units.append(float(units))
        self.test.append(round(test, 6))
        self.train.append(round(float(train), 6))

    def result(self, **more: Any) -> dict[str, Any]:
        """Return plain values."""
        return {"units": self.units, "test": self.test, "train": self.train, **more}


def booster_of(task: Task, n: int, eta: float, seed: int, y0: float | str = 0.0) -> Any:
    """Return SGB over n nets."""
    rule = {"kind": "sgb", "eta": eta, "y0": y0}
    spec = {"rule": rule, "bank": {**task.bank, "n": n}, "loss": task.loss, "seed": seed}
    return kaboost.build(spec, task.X.shape[1], task.outputs)


def stream(task: Task, n: int, eta: float, seed: int, passes: int) -> dict[str, Any]:
    """Return the curve of SGB: all learners learn every event, in passes over the rows."""
    booster, curve, events = booster_of(task, n, eta, seed), Curve(), 0
    for k in range(passes):
        ends = (len(task.y) * np.array([0.125, 0.25, 0.5, 1.0])).astype(int) if k == 0 else [None]
        begin, before = 0, float(booster.progress.loss_sum)
        for end in ends:
            part = slice(begin, end)
            kaboost.learn_many(booster, task.X[part], task.y[part])
            begin = end or 0
            events += len(task.y[part])
            # Passes at equal distances on a logarithmic axis are enough.
            if k < 4 or k == passes - 1 or is_shown(k + 1):
                seen = float(booster.progress.loss_sum) - before
                test = task.test(kaboost.predict_many(booster, task.other))
                curve.add(3.0 * n * events, test, seen / (end or len(task.y)))
    return curve.result()


def is_shown(k: int) -> bool:
    """Return whether a point of the logarithmic axis lies at this pass: about six per doubling."""
    return int(6 * np.log2(k)) != int(6 * np.log2(k - 1)) and k % max(1, k // 8) == 0


def in_sequence(task: Task, n: int, eta: float, seed: int) -> dict[str, Any]:
    """Return the curve of gradient boosting: each net is trained to convergence, then frozen."""
    booster, curve = booster_of(task, n, eta, seed), Curve()
    sample = Sample(task.X, encode_labels(booster.loss, task.y, task.outputs), np.ones(len(task.y)))
    single, units, epochs = single_scratch(booster), 0.0, []
    P, Q = np.zeros((len(task.y), task.outputs)), np.zeros((len(task.labels), task.outputs))
    for i in range(n):
        G = task.gradients(P)
        epochs.append(fit_epochs(booster.bank, i, sample, G, (SQUARE, np.inf), single))
        P = prefix(booster, task.X, i + 1)
        Q = prefix(booster, task.other, i + 1)
        units += epochs[-1] * len(task.y) * (i + 3.0)
        curve.cached += epochs[-1] * len(task.y) * 3.0 + len(task.y)
        curve.add(units, task.test(Q), float(np.mean(task.gradients(P) ** 2)))
    return curve.result(epochs=epochs, cached=curve.cached)


def prefix(booster: Any, X: np.ndarray, i: int) -> np.ndarray:
    """Return the scores (B, m) of the first i learners, in parts: prefixes take memory."""
    parts = [kaboost.prefixes_many(booster, X[k : k + 1000])[:, i] for k in range(0, len(X), 1000)]
    return np.ascontiguousarray(np.concatenate(parts))


def in_groups(task: Task, n: int, eta: float, seed: int, size: int) -> dict[str, Any]:
    """Return the curve of the hybrid: groups of nets learn together as SGB, one group after the
    other, each until it has converged.
    """
    curve, units = Curve(), 0.0
    P, Q = np.zeros((len(task.y), task.outputs)), np.zeros((len(task.labels), task.outputs))
    for g in range(n // size):
        booster, last = booster_of(task, size, eta, seed + 1000 * g), np.inf
        for _ in range(MOST_EPOCHS):
            seen = learn_from(booster, task, P)
            units += len(task.y) * (g * size + 3.0 * size)
            test = task.test(Q + scores_of(booster, task.other))
            curve.add(units, test, seen)
            if not last - seen > TOLERANCE * last and last < np.inf:
                break
            last = seen
        P = P + scores_of(booster, task.X)
        Q = Q + scores_of(booster, task.other)
    return curve.result()


def scores_of(booster: Any, X: np.ndarray) -> np.ndarray:
    """Return the sum of the booster's learners (B, m), without its start."""
    booster.rule.y0[:] = 0.0
    return kaboost.predict_many(booster, X)


def learn_from(booster: Any, task: Task, start: np.ndarray) -> float:
    """Learn all rows, each from its own start (B, m); return the mean progressive loss."""
    bank, rule, before = booster.bank, booster.rule, float(booster.progress.loss_sum)
    Y, W = encode_labels(booster.loss, task.y, task.outputs), np.ones(len(task.y))
    scratch = allocate(bank, rule, task.outputs, booster.learners)
    scores = np.empty((len(task.y), task.outputs))
    _learn_from(bank, rule, booster.loss, booster.progress, (task.X, Y, W), scratch, scores, start)
    return (float(booster.progress.loss_sum) - before) / len(task.y)


@kernel
def _learn_from(
    bank: Any, rule: Any, loss: Any, seen: Any, events: Any, a: Any, scores: Any, start: Any
) -> None:
    X, Y, W = events
    for k in range(X.shape[0]):
        for c in range(start.shape[1]):
            rule.y0[c] = start[k, c]
        part = slice(k, k + 1)
        learn_events(bank, rule, loss, seen, (X[part], Y[part], W[part]), a, scores[part])
