"""Texts to counts of their words, in a fixed number of columns (feature hashing)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from kaboost.models.features.categories import CACHE_SIZE, CACHED_LENGTH, hash64
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat

BUCKETS = 64  # columns of one text; a word counts in one of them, by its hash
COUNT_LIMIT = 255  # a larger count has the logarithm of this one
# A table: compiled and plain logarithms may differ in the last bit.
_LOGS = np.log1p(np.arange(COUNT_LIMIT + 1.0))
_words = re.compile(r"\w+").findall


class Buckets(dict[str, int]):
    """The bucket of every word, a cache of bounded size.

    Examples
    --------
    >>> buckets = Buckets()
    >>> buckets["flat"] == buckets["flat"] < BUCKETS
    True
    """

    def __missing__(self, word: str) -> int:
        bucket = hash64(word) % BUCKETS
        if len(self) >= CACHE_SIZE:
            self.clear()
        if len(word) <= CACHED_LENGTH:
            self[word] = bucket
        return bucket

    def count(self, texts: Sequence[str | None], X: Mat, first: int) -> None:
        """Fill the columns from `first` on of X (B, d) with the counts of B texts; NaN where None.

        A word is a run of letters, digits and underscores; case is ignored.
        """
        parts = [None if text is None else self._read(text) for text in texts]
        sizes = np.array([-1 if part is None else len(part) for part in parts], np.int64)
        _tally(np.frombuffer(bytearray().join(filter(None, parts)), np.uint8), sizes, X, first)

    def _read(self, text: str) -> bytes:
        return bytes(map(self.__getitem__, _words(text.casefold())))


@kernel
def _tally(buckets: Ints, sizes: Ints, X: Mat, first: int) -> None:
    at = 0
    for k in range(sizes.shape[0]):
        for bucket in range(BUCKETS):
            X[k, first + bucket] = 0.0 if sizes[k] >= 0 else math.nan
        for i in range(at, at + sizes[k]):
            X[k, first + buckets[i]] += 1.0
        at += max(sizes[k], 0)


@kernel
def log_counts(X: Mat, first: int) -> None:
    """Replace counts in the columns of X (B, d) from `first` on by log(1 + count), NaN by 0."""
    for k in range(X.shape[0]):
        for j in range(first, X.shape[1]):
            count = X[k, j]
            X[k, j] = _LOGS[int(min(count, float(COUNT_LIMIT)))] if count == count else 0.0
