"""Streams for `bench/quality.py`: generated ones, and public ones from a folder of `.npz` files.

Every stream has named columns: numbers, or texts where it has categories.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ERROR, RANKED = ("error", "log-loss"), ("log-loss", "AUC", "average precision", "error")
NUMBERS = ("MAE", "RMSE")


class Stream(NamedTuple):
    """Events in order; figures are error, log-loss, AUC, average precision, MAE or RMSE."""

    name: str
    figures: tuple[str, ...]
    columns: dict[str, np.ndarray]  # of floats, or of texts for a category
    y: np.ndarray  # 0 or 1, or numbers
    must: float | None = None  # the goal of the first figure
    absent: float = np.nan  # the value that peers get for a missing feature

    @property
    def regression(self) -> bool:
        """Whether labels are numbers."""
        return self.figures[0] in NUMBERS

    @property
    def kinds(self) -> dict[str, str]:
        """The schema."""
        return {
            name: "number" if values.dtype.kind == "f" else "category"
            for name, values in self.columns.items()
        }


def of_matrix(
    name: str, figures: tuple[str, ...], X: np.ndarray, y: np.ndarray, must: float | None = None
) -> Stream:
    """Make a stream of a matrix (B, d)."""
    columns = {f"x{j}": np.ascontiguousarray(X[:, j], float) for j in range(X.shape[1])}
    return Stream(name, figures, columns, np.asarray(y, float), must)


def shuffled(stream: Stream) -> Stream:
    """Put the events in the order of one fixed draw."""
    order = np.random.default_rng(0).permutation(len(stream.y))
    columns = {name: values[order] for name, values in stream.columns.items()}
    return stream._replace(columns=columns, y=stream.y[order])


def synth_bin(folder: Path) -> Iterator[Stream]:
    """54 features, 5 percent of labels flipped."""
    yield of_matrix("synth_bin", ERROR, *draw_bin(np.random.default_rng(7), 200_000), 0.111)


def draw_bin(r: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 54) and labels of synth_bin's rule."""
    X = r.standard_normal((n, 54))
    s = 0.8 * X[:, 0] - 0.6 * X[:, 1] + 1.2 * X[:, 2] * X[:, 3] + np.sin(2 * X[:, 4])
    s += 0.9 * (abs(X[:, 5]) - 0.8) + ((X[:, 6] > 0) & (X[:, 7] > 0)) - 0.25
    s += 0.5 * X[:, 8] * abs(X[:, 9])
    return X, ((s > 0) ^ (r.random(n) < 0.05)).astype(float)


def synth_reg(folder: Path) -> Iterator[Stream]:
    """90 features, noise of variance 1."""
    r = np.random.default_rng(11)
    X = r.standard_normal((200_000, 90))
    y = 2 * X[:, 0] - 1.5 * X[:, 1] + 2 * X[:, 2] * X[:, 3] + 2 * np.sin(2 * X[:, 4])
    y += 1.5 * (abs(X[:, 5]) - 0.8) + 2 * ((X[:, 6] > 0) & (X[:, 7] > 0)) + X[:, 8] * abs(X[:, 9])
    y += 10 + r.standard_normal(200_000)
    yield of_matrix("synth_reg", NUMBERS[::-1], X, y, 1.245)


def friedman(folder: Path) -> Iterator[Stream]:
    """Friedman's first function of ten features, noise 1."""
    r = np.random.default_rng(41)
    X = r.random((20_000, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + r.standard_normal(20_000)
    yield of_matrix("friedman", NUMBERS, X, y, 0.94)


def friedman_drift(folder: Path) -> Iterator[Stream]:
    """River's drifting Friedman function: gradual drift, five draws."""
    synth = importlib.import_module("river.datasets.synth")
    for seed in range(1, 6):
        source = synth.FriedmanDrift(drift_type="gra", position=(2000, 4000), seed=seed)
        yield of_matrix("FriedmanDrift", NUMBERS, *_taken(source, 6000), 1.41)


def rbf_drift(folder: Path) -> Iterator[Stream]:
    """River's drifting centroids, three draws."""
    synth = importlib.import_module("river.datasets.synth")
    for seed in (42, 43, 44):
        source = synth.RandomRBFDrift(
            seed_model=seed, seed_sample=seed, n_classes=2, n_features=10, n_centroids=30,
            change_speed=0.002, n_drift_centroids=15,
        )  # fmt: skip
        yield of_matrix("RandomRBFDrift", ("log-loss", "error"), *_taken(source, 6000), 0.250)


def _taken(source: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = list(itertools.islice(source, n))
    X = np.array([list(x.values()) for x, _ in pairs], float)
    return X, np.array([float(y) for _, y in pairs])


def covertype(folder: Path) -> Iterator[Stream]:
    """The second cover type or not: 100,000 rows in file order, and shuffled."""
    kept = np.load(folder / "covtype.npz")
    X, y = kept["X"], kept["y"] == 2
    yield of_matrix("covtype file order", ERROR, X[:100_000], y[:100_000], 0.033)
    order = np.random.default_rng(0).permutation(len(y))[:100_000]
    yield of_matrix("covtype shuffled", ERROR, X[order], y[order], 0.129)


def dense(
    name: str,
    figures: tuple[str, ...],
    cut: float | None,
    *,
    mixed: bool,
    must: float | None = None,
) -> Callable[[Path], Iterator[Stream]]:
    """Read a file of a matrix; labels are 1 from `cut` on, or as they are; `mixed` shuffles."""

    def read(folder: Path) -> Iterator[Stream]:
        kept = np.load(folder / f"{name}.npz")
        y = kept["y"] if cut is None else kept["y"] >= cut
        stream = of_matrix(name, figures, kept["X"], y, must)
        yield shuffled(stream) if mixed else stream

    return read


def sparse(name: str, *, mixed: bool) -> Callable[[Path], Iterator[Stream]]:
    """Read a file of a sparse matrix of 0 and 1; absent entries are missing."""

    def read(folder: Path) -> Iterator[Stream]:
        kept = np.load(folder / f"{name}.npz")
        X = np.full(tuple(kept["shape"]), np.nan)
        rows = np.repeat(np.arange(len(X)), np.diff(kept["indptr"]))
        X[rows, kept["indices"]] = kept["data"]
        stream = of_matrix(name, RANKED, X, kept["y"] > 0)._replace(absent=0.0)
        yield shuffled(stream) if mixed else stream

    return read


def table(
    name: str, figures: tuple[str, ...], target: Callable[[dict[str, str]], float],
    drop: tuple[str, ...], texts: tuple[str, ...], *, mixed: bool,
) -> Callable[[Path], Iterator[Stream]]:  # fmt: skip
    """Read a CSV file: named texts are categories, other columns numbers, `?` is missing."""

    def read(folder: Path) -> Iterator[Stream]:
        with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        y = np.array([target(row) for row in rows], float)
        columns = {}
        for column in rows[0]:
            values = [row[column] for row in rows]
            if column in texts:
                columns[column] = np.array(values)
            elif column not in drop:
                numbers = [np.nan if v in ("", "?") else v for v in values]
                columns[column] = np.array(numbers, float)
        stream = Stream(name, figures, columns, y)
        yield shuffled(stream) if mixed else stream

    return read


def hiv1(folder: Path) -> Iterator[Stream]:
    """Whether HIV-1's protease cuts an octamer: eight letters, each a category."""
    for kept in table(
        "hiv1",
        RANKED,
        lambda row: row["cleaved"] == "1",
        ("cleaved", "source"),
        ("octamer",),
        mixed=True,
    )(folder):
        letters = kept.columns["octamer"]
        places = {f"p{i + 1}": np.array([word[i] for word in letters]) for i in range(8)}
        yield kept._replace(columns=places)


def bikes(folder: Path) -> Iterator[Stream]:
    """Bikes at five stations of Toulouse, in order of time: station and weather, hour and day."""
    texts = ("station", "description", "moment")
    for kept in table(
        "bikes", NUMBERS, lambda row: float(row["bikes"]), ("bikes",), texts, mixed=False
    )(folder):
        moments = kept.columns["moment"].astype("datetime64[s]")
        seconds = moments.astype(np.int64)
        day = seconds // 86_400
        times = {"hour": seconds % 86_400 / 3600.0, "weekday": ((day + 3) % 7).astype(float)}
        rest = {name: values for name, values in kept.columns.items() if name != "moment"}
        yield kept._replace(columns=rest | times)


STREAMS: dict[str, Callable[[Path], Iterator[Stream]]] = {
    "FriedmanDrift": friedman_drift,
    "RandomRBFDrift": rbf_drift,
    "elec2": dense("elec2", ERROR, None, mixed=False, must=0.065),
    "covtype": covertype,
    "synth_bin": synth_bin,
    "synth_reg": synth_reg,
    "friedman": friedman,
    "bananas": dense("bananas", ERROR, 1, mixed=False),
    "phishing": dense("phishing", ERROR, 1, mixed=False),
    "smtp": dense("smtp", RANKED, 1, mixed=False),
    "hiv1": hiv1,
    "a9a": sparse("a9a", mixed=False),
    "w8a": sparse("w8a", mixed=True),
    "wine": dense("wine", ERROR, 7, mixed=True),
    "shuttle": dense("shuttle", ERROR, 2, mixed=True),
    "pima": dense("pima", ERROR, 1, mixed=True),
    "poker": dense("poker", ERROR, 1, mixed=True),
    "mnist": dense("mnist", ERROR, 5, mixed=False),
    "abalone": table(
        "abalone", ERROR, lambda row: float(row["rings"]) >= 10, ("rings",), ("sex",), mixed=True
    ),
    "bikes": bikes,
    "trump_approval": dense("trump_approval", NUMBERS, None, mixed=False),
    "chick_weights": dense("chick_weights", NUMBERS, None, mixed=False),
}
