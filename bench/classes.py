"""Streams of several classes: the default model, with default and larger memory, against peers.

`python -m bench.classes --data FOLDER` predicts each event before it is learned. A peer learns for
a fixed CPU time; Kaboost's error is shown on all events, and on those that the peer reached.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.peers import DOUBLING
from kaboost import Model
from kaboost.models.features.onehot import Table

STREAMS = ("covtype", "poker", "shuttle")  # all are shuffled
MOST = 100_000
BATCH = 500


def stream(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (B, d) and classes (B,) as 0, 1, ..."""
    kept = np.load(folder / f"{name}.npz")
    order = np.random.default_rng(0).permutation(len(kept["y"]))[:MOST]
    return kept["X"][order].astype(float), np.unique(kept["y"][order], return_inverse=True)[1]


def ours(X: np.ndarray, y: np.ndarray, megabytes: float) -> np.ndarray:
    """Return whether each event was predicted correctly."""
    spec = {"multiclass": "one_vs_rest", "bank": {"max_memory": megabytes}}
    spec["bank"]["kind"] = "reboosted_trees"
    kinds = {f"c{j}": "number" for j in range(X.shape[1])}
    model = Model("multiclass", spec, kinds, range(int(y.max()) + 1))
    hits = np.empty(len(y), bool)
    for k in range(0, len(y), BATCH):
        part = slice(k, k + BATCH)
        table = Table(np.ascontiguousarray(X[part]), np.empty((len(y[part]), 0)), [])
        outcome = model.learn(table, y[part].astype(float), np.ones(len(y[part])))
        hits[part] = outcome.predictions.argmax(axis=1) == y[part]
    return hits


def forest(X: np.ndarray, y: np.ndarray, seconds: float) -> np.ndarray:
    """River's adaptive random forest of ten trees."""
    from river.forest import ARFClassifier

    model, hits, start = ARFClassifier(n_models=10, seed=0), [], time.process_time()
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        features = dict(enumerate(row))
        hits.append(model.predict_one(features) == label)
        model.learn_one(features, label)
        if time.process_time() - start > seconds:
            break
    return np.array(hits)


def batches(X: np.ndarray, y: np.ndarray, seconds: float) -> np.ndarray:
    """LightGBM, retrained on all events so far whenever their number has doubled."""
    from lightgbm import LGBMClassifier

    hits, model, start = np.zeros(len(y), bool), None, time.process_time()
    for k in range(0, len(y), 250):
        if k in DOUBLING:
            model = LGBMClassifier(n_jobs=1, verbose=-1).fit(X[:k], y[:k])
        if time.process_time() - start > seconds:
            return hits[:k]
        if model is not None:
            hits[k : k + 250] = model.predict(X[k : k + 250]) == y[k : k + 250]
    return hits


def contest(X: np.ndarray, y: np.ndarray, seconds: float) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each model's name and its correct predictions."""
    yield "Kaboost", ours(X, y, 128.0)
    yield "Kaboost, max_memory 1000", ours(X, y, 1000.0)
    yield "last label", np.r_[False, y[1:] == y[:-1]]
    yield "LightGBM at doubling sizes", batches(X, y, seconds)
    yield "River ARF(10)", forest(X, y, seconds)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    print(
        "| stream | classes | who | events | error | Kaboost on them |\n|---|---|---|---|---|---|"
    )
    for name in STREAMS:
        X, y = stream(given.data, name)
        ours = None
        for who, hits in contest(X, y, given.seconds):
            ours = hits if ours is None else ours
            n = len(hits)
            cells = f"{name} | {y.max() + 1} | {who} | {n:,} | {1 - hits.mean():.4f}"
            print(f"| {cells} | {1 - ours[:n].mean():.4f} |", flush=True)


if __name__ == "__main__":
    main()
