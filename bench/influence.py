"""Does a limit on the influence of one key pay? Clean and attacked streams, with and without.

`python -m bench.influence` learns 40,000 synthetic events of a binary task with the default model.
Each event has a key, which is no feature. The limit scales an event's weight down so that the
decayed weight of its key stays at most a share of that of all events (a memory of 1,000 events).
Prints the log-loss of the honest events, each predicted before it is learned.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import kaboost
from kaboost.models.features.onehot import Table

EVENTS, FEATURES, BATCH = 40_000, 8, 500
ATTACK = slice(20_000, 30_000)
MEMORY = 1_000  # events
LIMITS = (None, 0.05, 0.01)


class Events(NamedTuple):
    """One stream; what the attacker sends is not counted in the loss."""

    X: np.ndarray  # (n, 8)
    y: np.ndarray  # (n,)
    keys: np.ndarray  # (n,)
    honest: np.ndarray  # (n,) whether its loss counts


def clean(draw: np.random.Generator, *, zipf: bool) -> Events:
    """Draw a stream of a rule with noise; keys equally often, or as 1/rank with own habits."""
    X = draw.normal(size=(EVENTS, FEATURES))
    keys = draw.integers(0, 1_000, EVENTS)
    if zipf:
        chances = 1.0 / np.arange(1, 1_001)
        keys = draw.choice(1_000, EVENTS, p=chances / chances.sum())
        X += draw.normal(size=(1_000, FEATURES))[keys]  # each key has features of its own
    score = 2.0 * X[:, 0] + 1.5 * X[:, 1] * X[:, 2] + X[:, 3]
    y = (draw.random(EVENTS) < 1.0 / (1.0 + np.exp(-score))).astype(float)
    return Events(X, y, keys, np.ones(EVENTS, bool))


def attacked(draw: np.random.Generator, share: float, *, targeted: bool) -> Events:
    """Let one key send a share of 10,000 events with wrong labels, all alike or as drawn."""
    events = clean(draw, zipf=False)
    place = np.zeros(EVENTS, bool)
    place[ATTACK] = draw.random(ATTACK.stop - ATTACK.start) < share
    events.keys[place] = 1_000
    events.honest[place] = False
    events.y[place] = 1.0 - events.y[place]
    if targeted:
        events.X[place] = 0.3 * events.X[place] + 1.0
        events.y[place] = 0.0
    return events


def weights(keys: np.ndarray, limit: float | None) -> np.ndarray:
    """Return the weights (n,) that keep every key below its share of the decayed weight of all."""
    if limit is None:
        return np.ones(len(keys))
    decay, most = 1.0 - 1.0 / MEMORY, limit * MEMORY
    seen: dict[int, tuple[float, int]] = {}  # decayed weight, and event of the last update
    found = np.empty(len(keys))
    for k, key in enumerate(keys.tolist()):
        total, last = seen.get(key, (0.0, k))
        total *= decay ** (k - last)
        found[k] = min(1.0, max(0.0, most - total))
        seen[key] = total + found[k], k
    return found


def losses(events: Events, limit: float | None) -> np.ndarray:
    """Return the log-loss (n,) of every event before it is learned."""
    w, y = weights(events.keys, limit), events.y
    model = kaboost.Model("binary", None, {f"x{j}": "number" for j in range(FEATURES)})
    found = np.empty(EVENTS)
    for k in range(0, EVENTS, BATCH):
        part = slice(k, k + BATCH)
        rows = np.ascontiguousarray(events.X[part])
        table = Table(rows, np.empty((len(rows), 0)), [])
        found[part] = model.learn(table, y[part], np.ascontiguousarray(w[part])).losses
        silent = w[part] == 0.0  # such events are predicted only
        if silent.any():
            p = model.predictions(model.predict(table))[silent, 1]
            label = y[part][silent]
            found[part][silent] = -np.log(np.where(label > 0, p, 1.0 - p).clip(1e-12))
    return found


def cases(seed: int) -> Iterator[tuple[str, Events]]:
    """Yield every stream with its name."""

    def draw() -> np.random.Generator:
        return np.random.default_rng(seed)

    yield "clean, keys equally often", clean(draw(), zipf=False)
    yield "clean, keys as 1/rank", clean(draw(), zipf=True)
    for share in (0.05, 0.2, 0.5):
        yield f"one key sends {share:.0%} wrong labels", attacked(draw(), share, targeted=False)
    for share in (0.05, 0.2, 0.5):
        yield f"{share:.0%} wrong labels in one region", attacked(draw(), share, targeted=True)


def main() -> None:
    """Print a table: a stream a row, a limit a column; log-loss of the second half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    seeds = parser.parse_args().seeds
    print("| stream | " + " | ".join("no limit" if m is None else f"{m:.0%}" for m in LIMITS), "|")
    print("|---|" + "---|" * len(LIMITS))
    rows: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        for name, events in cases(seed):
            counted = events.honest & (np.arange(EVENTS) >= ATTACK.start)
            made = [float(losses(events, limit)[counted].mean()) for limit in LIMITS]
            rows.setdefault(name, []).append(made)
    for name, made in rows.items():
        means = np.mean(made, axis=0)
        print(f"| {name} | " + " | ".join(f"{loss:.4f}" for loss in means), "|")


if __name__ == "__main__":
    main()
