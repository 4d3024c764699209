"""Recovery of the default model after an abrupt drift, early and late in a stream.

For every drift: the loss of the 2,000 events before it; the loss of 500 events that start 0, 500,
1,500 and 3,000 events after it, divided by that; and the loss from 1,500 on, divided by that of a
model that starts at the drift. Log-loss for classes, a tenth or none of them flipped; absolute
error for numbers, with noise .5 or none.

`stuck` is a run of 50 equal labels; from `late` on, labels come 100 events late.

    python -m bench.recovery --seeds 5
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import kaboost
from kaboost.models.booster import capture_many, learn_captured

D = 12
AFTER = 3_500  # events
SINCE, WINDOW = (0, 500, 1_500, 3_000), 500
DRIFTS = ("none", "turned", "lifted", "tenfold", "columns", "unit change", "trend", "late", "stuck")
ONLY_NUMBERS = ("lifted", "tenfold", "stuck")
STUCK_AT, STUCK = 50.0, 50  # the label, and for how many events
DELAY, STEP = 100, 20  # events that a label is late, and that are learned at once
TREND = 1e-3  # deviations an event, of one feature, from the first event on


def rule(X: np.ndarray) -> np.ndarray:
    """Return the noise-free labels, of standard deviation 2.3."""
    return np.asarray(1.5 * X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3.0 * X[:, 3]))


def drawn(drift: str, at: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw events (n, D) and numbers (n,) whose rule changes at event `at`."""
    r = np.random.default_rng(seed)
    X = r.standard_normal((at + AFTER, D))
    z, new = rule(X), slice(at, None)
    if drift == "columns":
        z[new] = rule(np.roll(X[new], 4, axis=1))
    z += noise * r.standard_normal(len(z))
    if drift == "unit change":
        X[new] = 1.8 * X[new] + 32.0
    if drift == "trend":
        X[:, 0] += TREND * np.arange(len(X))
    if drift == "turned":
        z[new] *= -1.0
    if drift == "lifted":
        z[new] += 10.0
    if drift == "tenfold":
        z[new] *= 10.0
    if drift == "stuck":
        z[at - STUCK : at] = STUCK_AT
    return X, z


def losses(
    X: np.ndarray, y: np.ndarray, classes: bool, seed: int, late_from: int | None = None
) -> np.ndarray:
    """Return the loss of every event, predicted before it was learned."""
    spec = {"bank": "reboosted_trees", "loss": "logistic" if classes else "squared", "seed": seed}
    booster = kaboost.build(spec, D)
    first = len(y) if late_from is None else late_from
    s = np.r_[
        kaboost.learn_many(booster, X[:first], y[:first])[:, 0], learn_late(booster, X, y, first)
    ]
    return np.logaddexp(0.0, np.where(y > 0.0, -s, s)) if classes else abs(s - y)


def learn_late(booster: Any, X: np.ndarray, y: np.ndarray, first: int) -> np.ndarray:
    """Learn the events from `first` on, each label DELAY events late; return their scores."""
    scores, waiting = [], []
    for begin in range(first, len(y), STEP):
        part = slice(begin, begin + STEP)
        served, captured = capture_many(booster, X[part])
        scores.append(served[:, 0])
        waiting.append((part, captured))
        if len(waiting) > DELAY // STEP:
            due, then = waiting.pop(0)
            learn_captured(booster, X[due], then, y[due], np.ones(len(y[due])))
    return np.concatenate(scores) if scores else np.empty(0)


def shares(drift: str, at: int, noise: float, classes: bool, seed: int) -> list[float]:
    """Return the loss before, the ratios after, and the ratio to a new model's loss."""
    X, y = drawn(drift, at, 0.0 if classes else noise, seed)
    if classes:
        y = ((y > 0.0) ^ (np.random.default_rng(1_000 + seed).random(len(y)) < noise)) * 1.0
    late = drift == "late"
    lost = losses(X, y, classes, seed, at if late else None)
    new = losses(X[at:], y[at:], classes, seed, 0 if late else None)
    before, units = (
        lost[at - 2_000 - STUCK : at - STUCK].mean(),
        10.0 if drift == "tenfold" else 1.0,
    )
    windows = [lost[at + k : at + k + WINDOW].mean() / units for k in SINCE]
    fresh = new[SINCE[2] : SINCE[2] + WINDOW].mean() / units
    return [before, *(each / before for each in windows), windows[2] / fresh]


def main() -> None:
    """Print a row of means over the seeds for every drift, task, noise and time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at", type=int, nargs="+", default=[4_000, 20_000, 100_000])
    parser.add_argument("--drifts", nargs="+", default=DRIFTS, choices=DRIFTS)
    arguments = parser.parse_args()
    print("| drift | labels | at | before | 0 | 500 | 1,500 | 3,000 | of a new model's |")
    print("|---|---|---|---|---|---|---|---|---|")
    for classes, noise in ((True, 0.1), (True, 0.0), (False, 0.5), (False, 0.0)):
        for drift in arguments.drifts:
            if classes and drift in ONLY_NUMBERS:
                continue
            for at in arguments.at:
                row = cells(drift, at, noise, classes, arguments.seeds)
                kind = "classes" if classes else "numbers"
                print(f"| {drift} | {kind}, {noise:g} | {at:,} | {' | '.join(row)} |")
                sys.stdout.flush()


def cells(drift: str, at: int, noise: float, classes: bool, seeds: int) -> list[Any]:
    """Return the row's means as text."""
    found = np.mean([shares(drift, at, noise, classes, seed) for seed in range(seeds)], axis=0)
    return [f"{found[0]:.3f}", *(f"{each:.2f}" for each in found[1:])]


if __name__ == "__main__":
    main()
