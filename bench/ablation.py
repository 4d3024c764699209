"""Ablation of reboosted trees: the default against variants without one part.

    python -m bench.ablation --data FOLDER [--events 60000]
    python -m bench.ablation --data FOLDER --events 200000 --streams smtp hiv1 w8a a9a elec2 \
        --figures AUC "average precision" --parts default "no calibration"

One line per stream, the mean where a stream has several seeds; the learner's seed is 0. The linear
models and the last label have no switch (docs/adr/0017).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import mean
from typing import Any

from bench.quality import figure, ours
from bench.streams import STREAMS, Stream
from kaboost.models.reboosted.config import STRUCTURES

ALL: list[dict[str, Any]] = [one._asdict() | {"lags": bool(one.lags)} for one in STRUCTURES]
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no short windows": {"structures": ALL[:2]},
    "one structure": {"structures": ALL[:1]},
    "leaves keep still": {"leaf_rates": [0.0, 0.0, 0.0, 0.0]},
    "AdaGrad's leaves only": {"leaf_rates": [0.7, 0.0, 0.0, 0.0]},
    "no label lags": {"structures": [one | {"lags": False} for one in ALL]},
    "no calibration": {"calibrate": False},
    "half the work": {"budget": 2000.0},
    "twice the work": {"budget": 8000.0},
}
GOALS = (
    "FriedmanDrift",
    "RandomRBFDrift",
    "elec2",
    "covtype",
    "synth_bin",
    "synth_reg",
    "friedman",
)


def first(stream: Stream, events: int) -> Stream:
    """Return the first events of a stream."""
    columns = {name: values[:events] for name, values in stream.columns.items()}
    return stream._replace(columns=columns, y=stream.y[:events])


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KABOOST_DATA", "data"), type=Path)
    parser.add_argument("--streams", nargs="*", default=list(GOALS), choices=list(STREAMS))
    parser.add_argument("--events", type=int, default=60_000, help="of each stream, the first")
    parser.add_argument("--figures", nargs="*", default=[], help="the stream's first by itself")
    parser.add_argument("--parts", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    given = parser.parse_args()
    print("| stream | figure | " + " | ".join(given.parts) + " |")
    for name in given.streams:
        found: dict[tuple[str, str], list[list[float]]] = {}
        for whole in STREAMS[name](given.data):
            stream = first(whole, given.events)
            scores = [ours(stream, 0, VARIANTS[part])[0] for part in given.parts]
            for kind in given.figures or whole.figures[:1]:
                said = [figure(kind, each, stream.y) for each in scores]
                found.setdefault((stream.name, kind), []).append(said)
        for (one, kind), rows in found.items():
            cells = " | ".join(f"{mean(column):.4f}" for column in zip(*rows, strict=True))
            print(f"| {one} | {kind} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
