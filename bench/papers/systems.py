"""What all tables do with a system: learn progressively, predict frozen; the default model."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import kaboost
from bench.papers.loaders import Data

BATCH = 2000
Spec = dict[str, Any]
MANY_CLASSES: Spec = {
    "multiclass": "shared_trees",
    "bank": {"kind": "reboosted_trees", "max_memory": 512.0},
}


def default_model(task: str, data: Data, classes: int = 2) -> kaboost.Model:
    """Return the default model, untouched, of these columns."""
    kinds = {
        str(name): "category" if data.frame[name].dtype.kind in "OUT" else "number"
        for name in data.frame
    }
    labels = list(range(classes)) if task == "multiclass" else None
    # Ten classes of 784 columns do not fit into the default memory: MNIST alone is not untouched.
    spec = MANY_CLASSES if task == "multiclass" else None
    return kaboost.Model(task, spec, kinds, labels)


def default_progressive(task: str, data: Data, y: np.ndarray) -> tuple[np.ndarray, kaboost.Model]:
    """Return the default model's predictions of every event before it was learned: numbers, or the
    probability of the positive class.
    """
    model = default_model(task, data)
    seen = [
        np.atleast_2d(model.learn_many(data.frame.iloc[k : k + BATCH], y[k : k + BATCH]).T).T
        for k in range(0, len(y), BATCH)
    ]
    return np.concatenate(seen)[:, -1], model


def default_frozen(task: str, train: Data, test: Data, classes: int = 2) -> np.ndarray:
    """Return what the default model predicts of the test rows once it has learned the others."""
    model = default_model(task, train, classes)
    labels = train.y if task == "regression" else train.y.astype(int)
    for k in range(0, len(labels), BATCH):
        model.learn_many(train.frame.iloc[k : k + BATCH], labels[k : k + BATCH])
    return np.asarray(model.predict_many(test.frame), float)


def grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return all combinations."""
    names = list(values)
    return [dict(zip(names, each, strict=True)) for each in itertools.product(*values.values())]


def drawn(points: list[dict[str, Any]], draws: int | None, seed: int) -> list[dict[str, Any]]:
    """Return so many points of a grid, drawn at random without repetition, or all."""
    if draws is None or draws >= len(points):
        return points
    order = np.random.default_rng(seed).permutation(len(points))[:draws]
    return [points[k] for k in order]


def mistakes(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return whether the sign of each score is wrong for labels 0 and 1; a score of 0 is positive,
    one that is not a number is wrong.
    """
    return ((scores >= 0.0) != (y > 0.0)) | np.isnan(scores)


def learn(spec: Mapping[str, Any], X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return a booster that learned all rows, and the scores (B,) before each was learned."""
    booster = kaboost.build(spec, X.shape[1])
    return booster, kaboost.learn_many(booster, X, y)[:, 0]
