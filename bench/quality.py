"""Quality of the default model on tuning and held-out streams: one configuration for all; each
event is predicted before it is learned.

`python -m bench.quality --data FOLDER` (or KABOOST_DATA) reads the public streams there; drifting
streams need River. Prints figures, expected calibration error, events per second, and events per
second of CPU time: a second thread grows trees. With `--peers [WORD ...]` peers learn the same
events in one thread, each for a fixed CPU time (`bench` group).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kaboost
from bench import peers
from bench.held import HELD
from bench.streams import STREAMS, Stream
from kaboost.models.features.onehot import Table

BINS = 15  # of the expected calibration error, over the last half
BATCH = 2000  # as the service learns them: kafka.batch_events
EVERY = {**STREAMS, **HELD}  # held-out streams are run by name
LARGE = 100_000  # events from which a perfect model's calibration error is negligible


class Speed(NamedTuple):
    """Events per second, by the clock and by the processor time of all threads."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:,.0f} events/s ({self.processor:,.0f} a CPU-second)"


def ours(stream: Stream, seed: int, bank: dict[str, Any]) -> tuple[np.ndarray, Speed]:
    """Return the scores made before each event was learned, and the events per second."""
    groups = [
        [n for n, kind in stream.kinds.items() if kind == of] for of in ("number", "category")
    ]
    X = np.column_stack([stream.columns[n] for n in groups[0]] or [np.empty((len(stream.y), 0))])
    texts = [stream.columns[n].tolist() for n in groups[1]]
    scores = np.empty(len(stream.y))

    def learn(model: kaboost.Model, k: int) -> None:
        part = slice(k, k + BATCH)
        numbers, y = np.ascontiguousarray(X[part]), stream.y[part]
        table = Table(numbers, np.empty((len(y), 0)), [column[part] for column in texts])
        scores[part] = model.learn(table, y, np.ones(len(y))).scores[:, 0]

    spec = {"bank": {"kind": "reboosted_trees", **bank}, "seed": seed}
    spare, model = (
        kaboost.Model("regression" if stream.regression else "binary", spec, stream.kinds)
        for _ in range(2)
    )
    learn(spare, 0)  # loads kernels before timing starts, as peers load their libraries
    start = time.perf_counter(), time.process_time()
    for k in range(0, len(scores), BATCH):
        learn(model, k)
    spent = time.perf_counter() - start[0], time.process_time() - start[1]
    return scores, Speed(*(len(scores) / seconds for seconds in spent))


def figure(name: str, scores: np.ndarray, y: np.ndarray) -> float:
    """Return one figure of all predictions."""
    if name == "error":
        return float(np.mean((scores >= 0) != (y > 0)))
    if name == "log-loss":
        return float(np.mean(np.logaddexp(0.0, np.where(y > 0, -scores, scores))))
    if name in ("AUC", "average precision"):
        return ranking(scores, y)[name != "AUC"]
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


def ranking(scores: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the area under the ROC curve and the average precision; ties count half, or as one."""
    order = np.argsort(-scores, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(scores[order])), len(y) - 1]  # of every run of equal scores
    hits = np.cumsum(y[order] > 0)[last].astype(float)
    misses = last + 1.0 - hits
    area = np.sum(np.diff(misses, prepend=0.0) * (hits + np.r_[0.0, hits[:-1]]) / 2.0)
    precise = np.sum(np.diff(hits, prepend=0.0) * hits / (last + 1.0))
    with np.errstate(invalid="ignore"):  # of one class there is no ranking
        return float(area / (hits[-1] * misses[-1])), float(precise / hits[-1])


def redrawn(scores: np.ndarray, seed: int = 0) -> float:
    """Return the 95th percentile of the calibration error where labels are drawn from the very
    probabilities: what a perfect model shows.
    """
    r, p = np.random.default_rng(seed), 1.0 / (1.0 + np.exp(-np.clip(scores, -500, 500)))
    draws = [calibration_error(scores, (r.random(len(p)) < p).astype(float)) for _ in range(200)]
    return float(np.quantile(draws, 0.95))


def report(name: str, folder: Path, seeds: range, given: argparse.Namespace) -> None:
    """Print a line for each stream of that name, and one for each of its peers."""
    found: dict[str, list[tuple[list[float], float, float, Speed]]] = {}
    streams: dict[str, Stream] = {}
    bank = {} if given.budget is None else {"budget": given.budget}
    for stream in EVERY[name](folder):
        streams[stream.name] = stream
        for seed in seeds:
            scores, speed = ours(stream, seed, bank)
            said = [figure(each, scores, stream.y) for each in stream.figures]
            numbers = stream.regression
            honest = np.nan if numbers else calibration_error(scores, stream.y)
            ideal = np.nan if numbers or len(scores) > LARGE else redrawn(scores)
            found.setdefault(stream.name, []).append((said, honest, ideal, speed))
        if given.peers is not None:
            compare(stream, scores, given)
    for each, runs in found.items():
        means = [statistics.mean(one[0][i] for one in runs) for i in range(len(runs[0][0]))]
        spread = statistics.pstdev(one[0][0] for one in runs)
        figures, must = streams[each].figures, streams[each].must
        words = ", ".join(f"{n} {v:.4f}" for n, v in zip(figures, means, strict=True))
        print(
            f"{each:20s} {words} (+- {spread:.4f}{f', must {must:.4f}' if must else ''}), "
            f"ECE {statistics.mean(one[1] for one in runs):.4f}"
            f" (perfect {statistics.mean(one[2] for one in runs):.4f}), "
            f"{Speed(*map(statistics.median, zip(*(one[3] for one in runs), strict=True)))}",
            flush=True,
        )


def compare(stream: Stream, ours: np.ndarray, given: argparse.Namespace) -> None:
    """Print the figures of every selected peer, and Kaboost's on the events that it reached."""
    for name, run in peers.of(stream):
        if given.peers and not any(word in name for word in given.peers):
            continue
        start = time.process_time()
        try:
            scores = run(stream, given.seconds)
        except (TypeError, ValueError) as err:  # of texts, mostly
            print(f"{stream.name:20s}   {name}: cannot learn it: {err}", flush=True)
            continue
        speed = len(scores) / (time.process_time() - start)
        y = stream.y[: len(scores)]
        pairs = [
            f"{each} {figure(each, scores, y):.4f} ({figure(each, ours[: len(y)], y):.4f})"
            for each in stream.figures
        ]
        print(
            f"{stream.name:20s}   {name}: {', '.join(pairs)} on {len(y):,}, {speed:,.0f} events/s",
            flush=True,
        )


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KABOOST_DATA", "data"), type=Path)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=list(EVERY))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=float)
    told = "run others on the same events: all, or those with one of these words in their name"
    parser.add_argument("--peers", nargs="*", metavar="WORD", help=told)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time of each peer")
    given = parser.parse_args()
    # Compile before timing starts.
    for loss in ("squared", "logistic"):
        booster = kaboost.build({"bank": "reboosted_trees", "loss": loss}, 1)
        kaboost.learn_many(booster, np.zeros((3, 1)), [0.0, 1.0, 0.0])
    for name in given.streams:
        report(name, given.data, range(given.seeds), given)


if __name__ == "__main__":
    main()
