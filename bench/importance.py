"""Importance against what shuffling a feature costs: `python -m bench.importance`.

Ten made-up streams of every task, of 5 to 10 features (numbers, categories, booleans) with effects
from none to strong. A feature's permutation importance is the rise of the loss on 2,000 later
events when its values are shuffled, the mean of three times (Breiman, Random Forests, 2001).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from kaboost.models.model import Model
from kaboost.models.types import Mat, Vec

EVENTS, LATER, SHUFFLES = 16_000, 2_000, 3
CLASSES = ["a", "b", "c"]
Row = dict[str, Any]


def column(r: np.random.Generator, kind: str, n: int) -> tuple[list[Any], Vec]:
    """Draw the values of a feature, and its effect, of variance about 1."""
    if kind == "category":
        count = int(r.integers(3, 40))
        effects, codes = r.normal(size=count), r.integers(0, count, n)
        return [f"v{code}" for code in codes], effects[codes]
    if kind == "boolean":
        values = r.random(n) < 0.3
        return values.tolist(), 2.0 * values
    x = r.normal(size=n)
    effect = (x, 1.4 * np.sin(2.0 * x), 2.0 * (x > 0.5))[r.integers(3)]
    return (x * 10.0 ** r.uniform(-2, 3)).tolist(), effect


def stream(task: str, seed: int) -> tuple[dict[str, str], list[Row], list[Any]]:
    """Draw kinds, rows and labels of one stream."""
    r, n = np.random.default_rng(seed), EVENTS + LATER
    kinds, columns, score = {}, {}, np.zeros(n)
    for j in range(int(r.integers(5, 11))):
        kind = str(r.choice(["number", "category", "boolean"], p=[0.55, 0.3, 0.15]))
        strength = float(r.choice([0.0, 0.15, 0.3, 0.6, 1.0, 1.6]))
        columns[f"f{j}"], effect = column(r, kind, n)
        kinds[f"f{j}"] = kind
        score += strength * effect
    score -= score.mean()
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    if task == "binary":
        return kinds, rows, (r.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int).tolist()
    if task == "regression":
        return kinds, rows, (score + r.normal(size=n)).tolist()
    noisy = score + r.logistic(size=n) * 0.5
    return kinds, rows, [CLASSES[k] for k in np.digitize(noisy, [-0.7, 0.7])]


def loss(model: Model, task: str, rows: list[Row], labels: list[Any]) -> float:
    """Return the mean loss: squares of numbers, else -ln of the label's probability."""
    if task == "regression":
        return float(np.mean((np.array(model.predict_many(rows)) - np.array(labels)) ** 2))
    codes = labels if task == "binary" else [CLASSES.index(label) for label in labels]
    probabilities: Mat = model.predict_proba_many(rows)
    return float(-np.log(np.maximum(probabilities[np.arange(len(rows)), codes], 1e-12)).mean())


def permutation(model: Model, task: str, rows: list[Row], labels: list[Any]) -> dict[str, float]:
    """Return what shuffling each feature costs."""
    r, usual = np.random.default_rng(0), loss(model, task, rows, labels)
    found = {}
    for name in rows[0]:
        rises = []
        for _ in range(SHUFFLES):
            order = r.permutation(len(rows))
            shuffled = [{**row, name: rows[k][name]} for row, k in zip(rows, order, strict=True)]
            rises.append(loss(model, task, shuffled, labels) - usual)
        found[name] = max(float(np.mean(rises)), 0.0)
    return found


def correlation(task: str, seed: int) -> float:
    """Return the rank correlation of both importances on one stream."""
    kinds, rows, labels = stream(task, seed)
    model = Model(task, features=kinds, labels=CLASSES if task == "multiclass" else None)
    model.learn_many(rows[:EVENTS], labels[:EVENTS])
    costs = permutation(model, task, rows[EVENTS:], labels[EVENTS:])
    shares = {share.name: share.share for share in model.importance()}
    names = list(costs)
    ranks = spearmanr([costs[name] for name in names], [shares[name] for name in names])
    return float(ranks.statistic)


def main() -> None:
    """Print the rank correlation on every stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10)
    count = parser.parse_args().streams
    for task in ("binary", "regression", "multiclass"):
        found = [correlation(task, seed) for seed in range(count)]
        print(f"{task:11s} mean {np.mean(found):.3f}, {np.round(found, 2).tolist()}", flush=True)


if __name__ == "__main__":
    main()
