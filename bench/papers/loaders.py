"""Data sets of the published tables, prepared as their protocols say.

Two files cannot be had here; fetch them from the UCI repository and put them into the data folder,
as they are, or packed by gzip:

- SLICE, https://archive.ics.uci.edu/dataset/206: `slice_localization_data.csv`, a header line, then
  patient, 384 values, and the relative location;
- YEAR, https://archive.ics.uci.edu/dataset/203: `YearPredictionMSD.txt`, no header; the year, then
  90 values.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

CLIP = 10.0  # of standardised inputs
YEAR_TRAIN = 463_715  # official rows of the training part
LETTERS = "ACDEFGHIKLMNPQRSTVWY"  # of amino acids
KIND_OF_SLICE = "random rows, not by patient"


class Data(NamedTuple):
    """A data set: numbers for weak learners, and columns as they are for the default model."""

    X: np.ndarray  # (B, d)
    y: np.ndarray  # (B,) numbers, 0 or 1, or class indices
    frame: pd.DataFrame  # (B, ...) numbers or texts
    dense: bool = True  # standardise X
    test: int = 0  # rows at the end that are the official test part

    def rows(self, where: np.ndarray) -> Data:
        """Return these rows, as one part."""
        return Data(self.X[where], self.y[where], self.frame.iloc[where], self.dense)


class Missing(Exception):
    """A file is not in the data folder; the message tells how to fetch it."""


def packed(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file."""
    with np.load(find(folder, f"{name}.npz")) as kept:
        return {each: kept[each] for each in kept.files}


def find(folder: Path, *names: str) -> Path:
    """Return the first of these files that exists."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise Missing(f"{folder / names[0]} is missing; put it there, or give another --data")


def numbers(
    X: np.ndarray, y: np.ndarray, *, dense: bool = True, test: int = 0, scale: float = 1.0
) -> Data:
    """Make a data set of a matrix."""
    frame = pd.DataFrame(X.astype(np.float32), columns=[f"x{j}" for j in range(X.shape[1])])
    return Data(np.ascontiguousarray(X, np.float64) / scale, y.astype(float), frame, dense, test)


def both_parts(kept: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels of the training part, then of the test part."""
    y = np.r_[kept["y"], kept["y_test"]]
    if "X" in kept:
        return np.r_[kept["X"], kept["X_test"]], y
    return np.r_[csr(kept, ""), csr(kept, "_test")], y


def csr(kept: dict[str, np.ndarray], part: str) -> np.ndarray:
    """Return a sparse matrix as a full one."""
    rows, columns = (int(n) for n in kept[f"shape{part}"])
    X = np.zeros((rows, columns), np.float32)
    X[np.repeat(np.arange(rows), np.diff(kept[f"indptr{part}"])), kept[f"indices{part}"]] = kept[
        f"data{part}"
    ]
    return X


def table(folder: Path, name: str, target: str, drop: tuple[str, ...] = ()) -> Data:
    """Return a CSV file: texts one-hot for weak learners, as they are for the default model."""
    frame = pd.read_csv(find(folder, f"{name}.csv.gz"), keep_default_na=False)
    y = frame.pop(target)
    frame = frame.drop(columns=list(drop))
    texts = [n for n in frame if not pd.api.types.is_numeric_dtype(frame[n])]
    X = pd.get_dummies(frame, columns=texts).to_numpy(np.float64)
    return Data(X, y.to_numpy(), frame.astype(dict.fromkeys(texts, str)))


def abalone(folder: Path) -> Data:
    """ABALONE: 7 numbers and the sex; the target is rings."""
    data = table(folder, "abalone", "rings")
    return data._replace(y=data.y.astype(float))


def adult(folder: Path) -> Data:
    """Adult, both parts: more than 50,000 or not."""
    data = table(folder, "adult", "income", ("split",))
    return data._replace(y=(data.y == ">50K").astype(float))


def hiv(folder: Path) -> Data:
    """HIV-1 protease cleavage, all four sets: 8 positions of 20 letters."""
    kept = pd.read_csv(find(folder, "hiv1.csv.gz"))
    letters = np.array([list(word) for word in kept["octamer"]])
    X = (letters[:, :, None] == np.array(list(LETTERS))).reshape(len(letters), -1)
    frame = pd.DataFrame({f"p{j}": letters[:, j] for j in range(8)})
    return Data(X.astype(float), (kept["cleaved"] > 0).to_numpy(float), frame, dense=False)


def bikes(folder: Path) -> Data:
    """Bikes of five stations in the order of time."""
    data = table(folder, "bikes", "bikes", ("moment",))
    return data._replace(y=data.y.astype(float))


def covtype(folder: Path) -> Data:
    """Covertype: class 2 or not."""
    kept = packed(folder, "covtype")
    return numbers(kept["X"], kept["y"] != 2)


def poker(folder: Path) -> Data:
    """Poker hands: something or nothing; only 99,998 of the 1,000,000 test rows."""
    X, y = both_parts(packed(folder, "poker"))
    return numbers(X, y > 0)


def mnist(folder: Path) -> Data:
    """MNIST: digits; pixels in [0, 1]."""
    kept = packed(folder, "mnist")
    X, y = both_parts(kept)
    return numbers(X, y, dense=False, test=len(kept["y_test"]), scale=255.0)


def mnist_halves(folder: Path) -> Data:
    """MNIST: 5 to 9 or 0 to 4, without pixels that are constant."""
    X, y = both_parts(packed(folder, "mnist"))
    return numbers(X[:, X.min(axis=0) < X.max(axis=0)], y >= 5, dense=False, scale=255.0)


def abalone_halves(folder: Path) -> Data:
    """ABALONE: 10 rings or more, or fewer."""
    data = abalone(folder)
    return data._replace(y=(data.y >= 10).astype(float))


def sparse(folder: Path, name: str) -> Data:
    """A set of LIBSVM with both parts."""
    kept = packed(folder, name)
    X, y = both_parts(kept)
    return numbers(X, y > 0, dense=False, test=len(kept["y_test"]))


def shuttle(folder: Path) -> Data:
    """Shuttle: class 1 or not."""
    X, y = both_parts(packed(folder, "shuttle"))
    return numbers(X, y != 1)


def wine(folder: Path) -> Data:
    """Wine: quality of 7 or more, or less; the colour is the 12th feature."""
    kept = packed(folder, "wine")
    return numbers(kept["X"], kept["y"] >= 7)


def wine_quality(folder: Path) -> Data:
    """Wine: the quality."""
    kept = packed(folder, "wine")
    return numbers(kept["X"], kept["y"])


def plain(folder: Path, name: str) -> Data:
    """A stream as it is."""
    kept = packed(folder, name)
    return numbers(kept["X"], kept["y"])


def text_rows(path: Path, skip: int) -> np.ndarray:
    """Return the numbers of a file of values between commas, packed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return np.loadtxt(lines, delimiter=",", skiprows=skip, ndmin=2)


def slice_(folder: Path) -> Data:
    """SLICE: 384 inputs without the patient; the location, divided by 100 (the paper's is scaled in
    an unknown way).
    """
    name = "slice_localization_data.csv"
    try:
        values = text_rows(find(folder, name, f"{name}.gz"), 1)
    except Missing as err:
        raise Missing(f"{err}; see https://archive.ics.uci.edu/dataset/206") from err
    return numbers(values[:, 1:-1], values[:, -1] / 100.0)


def year(folder: Path) -> Data:
    """YEAR: 90 inputs; the last 51,630 rows are the test part."""
    name = "YearPredictionMSD.txt"
    try:
        values = text_rows(find(folder, name, f"{name}.gz"), 0)
    except Missing as err:
        raise Missing(f"{err}; see https://archive.ics.uci.edu/dataset/203") from err
    return numbers(values[:, 1:], values[:, 0], test=max(0, len(values) - YEAR_TRAIN))


LOADERS: dict[str, Callable[[Path], Data]] = {
    "Covtype": covtype,
    "Poker": poker,
    "MNIST": mnist_halves,
    "Abalone": abalone_halves,
    "Pima": lambda folder: plain(folder, "pima"),
    "Adult": adult,
    "HIV": hiv,
    "Shuttle": shuttle,
    "w8a": lambda folder: sparse(folder, "w8a"),
    "wine": wine,
    "ABALONE": abalone,
    "YEAR": year,
    "SLICE": slice_,
    "A9A": lambda folder: sparse(folder, "a9a"),
    "MNIST digits": mnist,
    "Bikes": bikes,
    "Wine quality": wine_quality,
    "Bananas": lambda folder: plain(folder, "bananas"),
    "Elec2": lambda folder: plain(folder, "elec2"),
    "Phishing": lambda folder: plain(folder, "phishing"),
    "SMTP": lambda folder: plain(folder, "smtp"),
    "Trump approval": lambda folder: plain(folder, "trump_approval"),
    "Chick weights": lambda folder: plain(folder, "chick_weights"),
}


@lru_cache(maxsize=2)
def load(folder: Path, name: str) -> Data:
    """Return a data set by name, as its file has it."""
    return LOADERS[name](folder)


def shuffled(folder: Path, name: str, rows: int | None = None, seed: int = 0) -> Data:
    """Return a data set, or so many rows of it, in random order."""
    data = load(folder, name)
    return data.rows(np.random.default_rng(seed).permutation(len(data.y))[:rows])


def first(folder: Path, name: str, rows: int | None = None) -> Data:
    """Return the first rows of a data set, in its order."""
    data = load(folder, name)
    return data.rows(np.arange(len(data.y))[:rows])


def split(folder: Path, name: str, rows: int | None = None, seed: int = 0) -> tuple[Data, Data]:
    """Return the training part and the test part: the official ones, or a random tenth for tests.

    Training rows are in random order; `rows` limits both parts.
    """
    data, r = load(folder, name), np.random.default_rng(seed)
    cut = len(data.y) - (data.test or len(data.y) // 10)
    order = np.arange(len(data.y)) if data.test else r.permutation(len(data.y))
    train, test = r.permutation(order[:cut])[:rows], order[cut:][:rows]
    return data.rows(train), data.rows(test)


def standardise(X: np.ndarray, test: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Standardise every row by mean and variance of the rows before it; test rows by those of all
    rows. Constants become 0, values are clipped to +-10.
    """
    n = np.arange(1, len(X) + 1)[:, None]
    start = X[0]  # as an origin: variances by difference cancel less
    sums, squares = np.cumsum(X - start, axis=0), np.cumsum((X - start) ** 2, axis=0)
    mean = sums / n
    spread = np.sqrt(np.maximum(squares / n - mean**2, 0.0))
    mean += start
    before = np.r_[X[:1], mean[:-1]], np.r_[np.zeros_like(X[:1]), spread[:-1]]
    other = X[:0] if test is None else test
    return _scaled(X, *before), _scaled(other, mean[-1:], spread[-1:])


def _scaled(X: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    known = np.broadcast_to(spread > 1e-9, X.shape)
    scaled = np.divide(X - mean, spread, out=np.zeros_like(X), where=known)
    return np.clip(scaled, -CLIP, CLIP)
