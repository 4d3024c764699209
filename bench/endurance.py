"""What 10^7 events do to the default model: the cost of an event, its loss and its filters by the
million, then the work of the slowest of 10^6 events that come one by one.

    python -m bench.endurance [--events 10000000] [--singles 1000000]

The stream is synth_bin's, drawn anew for every million. Times are CPU time of the one thread.
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

import numpy as np

from bench.quality import figure
from bench.streams import draw_bin
from models.booster import learn_many
from models.build import build

D, PART, BATCH = 54, 1_000_000, 1000


def draw(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n events of synth_bin's rule, others for every seed."""
    return draw_bin(np.random.default_rng([7, seed]), n)


def filters(booster: Any) -> tuple[float, float, float]:
    """Return of the stack's filters the largest asymmetry and the least eigenvalue of any
    covariance, and the largest weight.
    """
    spread = booster.stack.spread
    used = spread[:, : spread.shape[1], : spread.shape[1]]
    least = min(np.linalg.eigvalsh(each)[0] for each in used)
    uneven = abs(used - used.transpose(0, 2, 1)).max()
    return float(uneven), float(least), float(abs(booster.stack.weights).max())


def singles(booster: Any, count: int) -> np.ndarray:
    """Return the CPU microseconds of each of `count` events learned alone."""
    taken = np.empty(count)
    gc.collect()
    gc.freeze()  # as the service does: a collection of all that numba loaded takes 15 ms
    for first in range(0, count, PART):
        X, y = draw(10_000 + first, min(PART, count - first))
        for k in range(len(y)):
            start = time.thread_time_ns()
            learn_many(booster, X[k : k + 1], y[k : k + 1])
            taken[first + k] = (time.thread_time_ns() - start) / 1e3
    return taken


def main() -> None:
    """Print a line for every million events, then one for events that came one by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--singles", type=int, default=1_000_000)
    told = parser.parse_args()
    booster = build({"bank": "reboosted_trees", "loss": "logistic", "seed": 0}, D)
    print("| events | us an event | error | log-loss | asymmetry | least eigenvalue | weight |")
    print("|---|---|---|---|---|---|---|")
    for part in range(-(-told.events // PART)):
        X, y = draw(part, min(PART, told.events - part * PART))
        scores = np.empty(len(y))
        start = time.thread_time()
        for k in range(0, len(y), BATCH):
            scores[k : k + BATCH] = learn_many(booster, X[k : k + BATCH], y[k : k + BATCH])[:, 0]
        cost = (time.thread_time() - start) / len(y) * 1e6
        found = " | ".join(f"{figure(name, scores, y):.4f}" for name in ("error", "log-loss"))
        health = " | ".join(f"{each:.3g}" for each in filters(booster))
        print(f"| {part * PART + len(y):,} | {cost:.1f} | {found} | {health} |", flush=True)
    if told.singles:
        taken = singles(booster, told.singles)
        slow = ", ".join(f"{np.quantile(taken, q):.0f}" for q in (0.5, 0.99, 0.9999))
        print(f"one by one, us: median, 99 %, 99.99 % {slow}; slowest {taken.max():.0f}")


if __name__ == "__main__":
    main()
