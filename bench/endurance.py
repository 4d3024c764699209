"""Endurance of the default model: cost, loss and filters per million of 10^7 events, then the
slowest of the first 10^6 single events of a stream.

    python -m bench.endurance [--events 10000000] [--singles 1000000]
    python -m bench.endurance --events 0 --singles 18000 --columns 1100 [--there 12] [--memory 128]

The stream is synth_bin's, redrawn every million. With `--columns` it has that many columns, all of
them present, or `--there` of them with the value 1. Times are CPU time. Single readings include
load of the machine: two fresh models learn the same events, and the lower reading counts.
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

import numpy as np

from bench.quality import figure
from bench.streams import draw_bin
from kaboost.models.booster import learn_many
from kaboost.models.build import build

D, PART, BATCH = 54, 1_000_000, 1000


def draw(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n events of synth_bin's rule, different for every seed."""
    return draw_bin(np.random.default_rng([7, seed]), n)


def draw_wide(seed: int, n: int, d: int, there: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n events of d columns, `there` of them 1 or (0) all of them numbers, with the labels
    of a linear rule.
    """
    r = np.random.default_rng([7, seed])
    if there:
        X = np.full((n, d), np.nan)
        np.put_along_axis(X, np.argsort(r.random((n, d)), axis=1)[:, :there], 1.0, axis=1)
    else:
        X = r.normal(size=(n, d))
    return X, np.where(np.nansum(X * r.normal(size=d), axis=1) > 0.0, 1.0, -1.0)


def filters(booster: Any) -> tuple[float, float, float]:
    """Return the largest asymmetry and the smallest eigenvalue of the filters' covariances, and the
    largest weight.
    """
    spread = booster.stack.covariance
    used = spread[:, : spread.shape[1], : spread.shape[1]]
    least = min(np.linalg.eigvalsh(each)[0] for each in used)
    uneven = abs(used - used.transpose(0, 2, 1)).max()
    return float(uneven), float(least), float(abs(booster.stack.weights).max())


def fresh(d: int = D, memory: float = 128.0) -> Any:
    """Return the default model before any event."""
    bank = {"kind": "reboosted_trees", "max_memory": memory}
    return build({"bank": bank, "loss": "logistic", "seed": 0}, d)


def singles(told: argparse.Namespace) -> np.ndarray:
    """Return the CPU microseconds of each of the first events, learned alone."""
    booster, taken = fresh(told.columns or D, told.memory), np.empty(told.singles)
    gc.collect()
    gc.freeze()  # as the service does: collecting all of numba's objects takes 15 ms
    for first in range(0, told.singles, PART):
        n = min(PART, told.singles - first)
        wide = (first, n, told.columns, told.there)
        X, y = draw_wide(*wide) if told.columns else draw(10_000 + first, n)
        for k in range(n):
            start = time.thread_time_ns()
            learn_many(booster, X[k : k + 1], y[k : k + 1])
            taken[first + k] = (time.thread_time_ns() - start) / 1e3
    return taken


def main() -> None:
    """Print a line per million events, then one for single events."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--singles", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=0, help="of the events one by one")
    parser.add_argument("--there", type=int, default=0, help="columns of an event; 0 for all")
    parser.add_argument("--memory", type=float, default=128.0, help="max_memory of these, in MB")
    told = parser.parse_args()
    booster = fresh()
    if told.events:
        print("| events | us an event | error | log-loss | asymmetry | least eigenvalue | weight |")
        print("|---|---|---|---|---|---|---|")
    for part in range(-(-told.events // PART)):
        X, y = draw(part, min(PART, told.events - part * PART))
        scores = np.empty(len(y))
        start = time.process_time()  # includes the thread that grows trees
        for k in range(0, len(y), BATCH):
            scores[k : k + BATCH] = learn_many(booster, X[k : k + BATCH], y[k : k + BATCH])[:, 0]
        cost = (time.process_time() - start) / len(y) * 1e6
        found = " | ".join(f"{figure(name, scores, y):.4f}" for name in ("error", "log-loss"))
        health = " | ".join(f"{each:.3g}" for each in filters(booster))
        print(f"| {part * PART + len(y):,} | {cost:.1f} | {found} | {health} |", flush=True)
    if told.singles:
        learn_many(fresh(), *draw(0, 1))  # loads the kernels
        runs = [singles(told) for _ in range(2)]
        taken = np.minimum(*runs)
        slow = ", ".join(f"{np.quantile(taken, q):.0f}" for q in (0.5, 0.99, 0.9999))
        alone = ", ".join(f"{run.max():.0f}" for run in runs)
        print(f"one by one, us: median, 99 %, 99.99 %: {slow}; slowest {taken.max():.0f},")
        print(f"event {taken.argmax():,} (a single run's largest readings: {alone})")


if __name__ == "__main__":
    main()
