"""Keys of numbers, and their codes in bins.

A key is an int32 that orders as the float32 it stands for; missing values have the largest one. A
code is the number of edges below a key.
"""

from __future__ import annotations

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import RUN_STRIDE
from kaboost.models.reboosted.state import LABEL_MEANS, MISSING, Codes, Keys, Runs
from kaboost.models.types import UINT, Mat, Vec

MISSING_KEY = 2147483647
MAX_NUMBER = 3e38  # numbers beyond count as this


def to_keys(X: Mat) -> Keys:
    """Return the keys (B, d) of numbers X (B, d).

    Examples
    --------
    >>> to_keys(np.array([[-1.0, 0.0, 1.0, np.nan]])).tolist()
    [[-1065353217, 0, 1065353216, 2147483647]]
    """
    keys, d = np.empty(X.shape, np.int32), X.shape[1]
    fill_keys(X, np.zeros(d), np.ones(d), keys)
    return keys


@kernel
def fill_keys(X: Mat, offset: Vec, factor: Vec, keys: Keys) -> None:
    """Fill keys (B, d) with those of (X - offset) * factor, of X (B, d), offsets and factors (d,).

    In one pass: with NumPy, through seven arrays of the batch, it was a tenth of learning.
    """
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = (X[i, j] - offset[j]) * factor[j]
            keys[i, j] = to_key(x) if x == x else MISSING_KEY


@kernel
def to_key(x: float) -> int:
    """Return the key of one number, not missing."""
    single = np.float32(min(max(x, -MAX_NUMBER), MAX_NUMBER)) + np.float32(0.0)  # no -0.0
    bits = int(np.float32(single).view(np.int32))
    return bits if bits >= 0 else bits ^ MISSING_KEY


@kernel
def from_key(k: int) -> float:
    """Return the number of a key."""
    return float(np.int32(k if k >= 0 else k ^ MISSING_KEY).view(np.float32)) * 1.0


@kernel
def middle_key(a: int, b: int) -> int:
    """Return the key half-way from a to b > a: at least a, less than b."""
    middle = to_key(0.5 * from_key(a) + 0.5 * from_key(b))
    return middle if a <= middle < b else a


@kernel
def column_runs(keys: Keys, runs: Runs) -> None:
    """Fill runs (d + 4,) with first and end of every run of keys (d,) that are not missing.

    The label means come after all features and are never missing: one more run, from d on.
    """
    d, stride = UINT(keys.shape[0]), UINT(RUN_STRIDE)
    n, j = UINT(0), UINT(0)
    while j < d:
        if j + stride <= d:
            # A missing key has all bits but the first; no key has all bits: there is no -0.0.
            common = keys[j]
            for i in range(j, j + stride):
                common &= keys[i]
            if common == MISSING_KEY:
                j += stride
                continue
        stop = min(j + stride, d)
        while j < stop:
            if keys[j] != MISSING_KEY:
                runs[n] = j
                while j < d and keys[j] != MISSING_KEY:
                    j += UINT(1)
                runs[n + UINT(1)] = j
                n += UINT(2)
            j += UINT(1)
    runs[n], runs[n + UINT(1)], runs[n + UINT(2)] = d, d + UINT(LABEL_MEANS), d + UINT(LABEL_MEANS)


@kernel
def count_present(runs: Runs, d: int) -> int:
    """Return how many of d columns are in the runs."""
    count, i = 0, 0
    while runs[i] < UINT(d):
        count += int(runs[i + 1] - runs[i])
        i += 2
    return count


@kernel
def from_keys(keys: Keys, runs: Runs, values: Vec) -> None:
    """Fill values (d,) with the numbers of keys (d,) in the runs."""
    i = 0
    while runs[i] < UINT(values.shape[0]):
        for j in range(runs[i], runs[i + 1]):
            values[j] = from_key(keys[j])
        i += 2


@kernel
def encode(edges: Keys, keys: Keys, runs: Runs, codes: Codes) -> None:
    """Fill codes (d,) with the number of edges (d, 64) below each key (d,) in the runs, and with
    MISSING elsewhere.
    """
    end, i = UINT(0), 0
    while runs[i] < UINT(codes.shape[0]):
        for j in range(end, runs[i]):
            codes[j] = MISSING
        end = runs[i + 1]
        for j in range(runs[i], end):
            k = keys[j]
            c = 0
            c += 32 * (edges[j, c + 31] < k)
            c += 16 * (edges[j, c + 15] < k)
            c += 8 * (edges[j, c + 7] < k)
            c += 4 * (edges[j, c + 3] < k)
            c += 2 * (edges[j, c + 1] < k)
            c += edges[j, c] < k
            codes[j] = c
        i += 2
