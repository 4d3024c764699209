"""Loss against events a second at several efforts of the default model.

`python -m bench.effort --data FOLDER [--efforts 1 2 10 20] [--streams ...] [--seeds 3]` learns
streams of `bench.quality` at each effort. `--covertype` adds all 581,012 rows of Covertype,
shuffled, with the error from row 500,000 on.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

import numpy as np

from bench.quality import EVERY, figure, ours
from bench.streams import ERROR, Stream, of_matrix

CHOSEN = (
    "covtype",
    "synth_bin",
    "synth_reg",
    "friedman",
    "elec2",
    "FriedmanDrift",
    "RandomRBFDrift",
)
FROM = 500_000  # row of Covertype from which on the last rows count


def whole_covertype(folder: Path) -> Stream:
    """Return all rows, shuffled: the second cover type or not."""
    kept = np.load(folder / "covtype.npz")
    order = np.random.default_rng(0).permutation(len(kept["y"]))
    return of_matrix("Covertype, all rows", ERROR, kept["X"][order], kept["y"][order] == 2, 0.0)


def measure(stream: Stream, effort: float, seeds: int, first: int = 0) -> str:
    """Return a line of the table: the first figure of a stream from one event on, and the speed."""
    found, speeds = [], []
    for seed in range(seeds):
        scores, speed = ours(stream, seed, {"effort": effort, "max_memory": 512.0})
        found.append(figure(stream.figures[0], scores[first:], stream.y[first:]))
        speeds.append(speed.processor)
    return (
        f"{stream.name:24} effort {effort:4g}  {stream.figures[0]} {statistics.mean(found):.4f} "
        f"+- {statistics.pstdev(found):.4f}  {statistics.median(speeds):,.0f} a CPU-second"
    )


def main() -> int:
    """Print a line for every stream and effort."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("KABOOST_DATA", "data"), type=Path)
    parser.add_argument("--streams", nargs="*", default=CHOSEN, choices=list(EVERY))
    parser.add_argument("--efforts", nargs="+", type=float, default=[1.0, 2.0, 10.0, 20.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--covertype", action="store_true")
    asked = parser.parse_args()
    for name in asked.streams:
        for stream in EVERY[name](asked.data):
            for effort in asked.efforts:
                print(measure(stream, effort, asked.seeds), flush=True)
    if asked.covertype:
        stream = whole_covertype(asked.data)
        for effort in asked.efforts:
            print(measure(stream, effort, 1, FROM), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
