"""How good the default model is, on streams it was and was not made on: one configuration, no
setting per stream; each event is predicted before it is learned.

`python -m bench.quality --data FOLDER` (or KABOOST_DATA) reads the public streams there; drifting
streams need River. Prints figure, expected calibration error and events per second of one core.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import models

BINS = 15  # of the expected calibration error, over the last half
BATCH = 1000


class Stream(NamedTuple):
    """Events in order: the figure asked for is error, log-loss, MAE or RMSE."""

    name: str
    figures: tuple[str, ...]
    X: np.ndarray
    y: np.ndarray
    must: float  # the first figure should not be above


def synth_bin(folder: Path) -> Iterator[Stream]:
    """54 features, 5 percent of labels flipped."""
    r = np.random.default_rng(7)
    X = r.standard_normal((200_000, 54))
    s = 0.8 * X[:, 0] - 0.6 * X[:, 1] + 1.2 * X[:, 2] * X[:, 3] + np.sin(2 * X[:, 4])
    s += 0.9 * (abs(X[:, 5]) - 0.8) + ((X[:, 6] > 0) & (X[:, 7] > 0)) - 0.25
    s += 0.5 * X[:, 8] * abs(X[:, 9])
    y = (s > 0) ^ (r.random(200_000) < 0.05)
    yield Stream("synth_bin", ("error", "log-loss"), X, y.astype(float), 0.111)


def synth_reg(folder: Path) -> Iterator[Stream]:
    """90 features, noise of variance 1."""
    r = np.random.default_rng(11)
    X = r.standard_normal((200_000, 90))
    y = 2 * X[:, 0] - 1.5 * X[:, 1] + 2 * X[:, 2] * X[:, 3] + 2 * np.sin(2 * X[:, 4])
    y += 1.5 * (abs(X[:, 5]) - 0.8) + 2 * ((X[:, 6] > 0) & (X[:, 7] > 0)) + X[:, 8] * abs(X[:, 9])
    y += 10 + r.standard_normal(200_000)
    yield Stream("synth_reg", ("RMSE", "MAE"), X, y, 1.245)


def friedman(folder: Path) -> Iterator[Stream]:
    """Friedman's first function of ten features, noise 1."""
    r = np.random.default_rng(41)
    X = r.random((20_000, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + r.standard_normal(20_000)
    yield Stream("friedman", ("MAE", "RMSE"), X, y, 0.94)


def elec2(folder: Path) -> Iterator[Stream]:
    """Electricity of New South Wales in order of time."""
    kept = np.load(folder / "elec2.npz")
    yield Stream("elec2", ("error", "log-loss"), kept["X"], kept["y"].astype(float), 0.065)


def covertype(folder: Path) -> Iterator[Stream]:
    """The second cover type or not: 100,000 rows in file order, and shuffled."""
    kept = np.load(folder / "covtype.npz")
    X, y = kept["X"][:100_000].astype(float), (kept["y"][:100_000] == 2).astype(float)
    yield Stream("covtype file order", ("error", "log-loss"), X, y, 0.033)
    order = np.random.default_rng(0).permutation(len(kept["y"]))[:100_000]
    X, y = kept["X"][order].astype(float), (kept["y"][order] == 2).astype(float)
    yield Stream("covtype shuffled", ("error", "log-loss"), X, y, 0.129)


def friedman_drift(folder: Path) -> Iterator[Stream]:
    """River's drifting Friedman function: global recurring abrupt drift, five draws."""
    synth = importlib.import_module("river.datasets.synth")
    for seed in range(1, 6):
        source = synth.FriedmanDrift(drift_type="gra", position=(2000, 4000), seed=seed)
        X, y = _taken(source, 6000)
        yield Stream("FriedmanDrift", ("MAE", "RMSE"), X, y, 1.41)


def rbf_drift(folder: Path) -> Iterator[Stream]:
    """River's drifting centroids, three draws."""
    synth = importlib.import_module("river.datasets.synth")
    for seed in (42, 43, 44):
        source = synth.RandomRBFDrift(
            seed_model=seed, seed_sample=seed, n_classes=2, n_features=10, n_centroids=30,
            change_speed=0.002, n_drift_centroids=15,
        )  # fmt: skip
        X, y = _taken(source, 6000)
        yield Stream("RandomRBFDrift", ("log-loss", "error"), X, y, 0.250)


def _taken(source: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = list(itertools.islice(source, n))
    X = np.array([list(x.values()) for x, _ in pairs], float)
    return X, np.array([float(y) for _, y in pairs])


STREAMS: dict[str, Callable[[Path], Iterator[Stream]]] = {
    "FriedmanDrift": friedman_drift,
    "RandomRBFDrift": rbf_drift,
    "elec2": elec2,
    "covtype": covertype,
    "synth_bin": synth_bin,
    "synth_reg": synth_reg,
    "friedman": friedman,
}


def run(stream: Stream, seed: int, bank: dict[str, Any]) -> tuple[np.ndarray, float]:
    """Return the scores made before each event was learned, and the events per second."""
    spec = {
        "rule": "sgb", "bank": {"kind": "reboosted_trees", **bank}, "seed": seed,
        "loss": "squared" if stream.figures[0] in ("MAE", "RMSE") else "logistic",
    }  # fmt: skip
    X, y = np.ascontiguousarray(stream.X, float), stream.y
    booster = models.build(spec, X.shape[1])
    start = time.process_time()
    scores = [
        models.learn_many(booster, X[k : k + BATCH], y[k : k + BATCH])
        for k in range(0, len(X), BATCH)
    ]
    return np.concatenate(scores)[:, 0], len(X) / (time.process_time() - start)


def figure(name: str, scores: np.ndarray, y: np.ndarray) -> float:
    """Return one figure of all predictions."""
    if name == "error":
        return float(np.mean((scores >= 0) != (y > 0)))
    if name == "log-loss":
        return float(np.mean(np.logaddexp(0.0, np.where(y > 0, -scores, scores))))
    if name == "MAE":
        return float(np.mean(abs(scores - y)))
    return float(np.sqrt(np.mean((scores - y) ** 2)))


def calibration_error(scores: np.ndarray, y: np.ndarray) -> float:
    """Return the expected calibration error over the last half: 15 bins of probability."""
    half = len(y) // 2
    p, seen = 1.0 / (1.0 + np.exp(-np.clip(scores[half:], -500, 500))), y[half:] > 0
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [abs((p - seen)[place == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / len(p))


def report(name: str, folder: Path, seeds: range, bank: dict[str, Any]) -> None:
    """Print a line for each stream of that name."""
    found: dict[str, list[tuple[list[float], float, float, float]]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for stream in STREAMS[name](folder):
        names[stream.name] = stream.figures
        for seed in seeds:
            scores, speed = run(stream, seed, bank)
            said = [figure(each, scores, stream.y) for each in stream.figures]
            numbers = stream.figures[0] in ("MAE", "RMSE")
            ece = float("nan") if numbers else calibration_error(scores, stream.y)
            found.setdefault(stream.name, []).append((said, ece, speed, stream.must))
    for each, runs in found.items():
        means = [statistics.mean(one[0][i] for one in runs) for i in range(len(runs[0][0]))]
        spread = statistics.pstdev(one[0][0] for one in runs)
        words = ", ".join(f"{n} {v:.4f}" for n, v in zip(names[each], means, strict=True))
        print(
            f"{each:20s} {words} (+- {spread:.4f}, must {runs[0][3]:.4f}), "
            f"ECE {statistics.mean(one[1] for one in runs):.4f}, "
            f"{statistics.median(one[2] for one in runs):,.0f} events/s",
            flush=True,
        )


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KABOOST_DATA", "data"), type=Path)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=list(STREAMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=float)
    given = parser.parse_args()
    # Compile off the clock.
    for loss in ("squared", "logistic"):
        booster = models.build({"bank": "reboosted_trees", "loss": loss}, 1)
        models.learn_many(booster, np.zeros((3, 1)), [0.0, 1.0, 0.0])
    bank = {} if given.budget is None else {"budget": given.budget}
    for name in given.streams:
        report(name, given.data, range(given.seeds), bank)


if __name__ == "__main__":
    main()
