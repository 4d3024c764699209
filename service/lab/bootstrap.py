"""Confidence of a mean difference over a stream: a moving block bootstrap.

Losses of neighbouring events are correlated, so blocks of them are drawn rather than single events.

Kunsch, The Jackknife and the Bootstrap for General Stationary Observations, 1989.
"""

import math
from typing import NamedTuple

import numpy as np

from kaboost.models.types import Vec

DRAWS = 2000
LEVEL = 0.95
CHUNK = 200  # draws at once: memory stays small


class Difference(NamedTuple):
    """The mean difference of two losses, and its interval at LEVEL."""

    difference: float  # the mean
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval is on one side of 0."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def figures(self) -> dict[str, float | None]:
        """The fields as JSON has them: ends that are not finite, of a single event, are None."""
        fields = self._asdict()
        return {name: value if math.isfinite(value) else None for name, value in fields.items()}


def block_length(n: int) -> int:
    """Return the length of a block for n events: its cube root, and at least 1."""
    return max(1, round(math.cbrt(n)))


def mean_difference(differences: Vec, seed: int = 1) -> Difference:
    """Return the mean of differences (n,) in stream order, with its interval.

    Examples
    --------
    >>> drawn = mean_difference(np.tile([0.9, 1.1], 500))
    >>> drawn.low <= 1.0 <= drawn.high, drawn.is_clear
    (True, True)
    """
    n = len(differences)
    mean = float(differences.mean())
    if n < 2:
        return Difference(mean, -np.inf, np.inf)
    length = min(block_length(n), n)
    sums = np.concatenate([[0.0], np.cumsum(differences)])
    blocks = (sums[length:] - sums[:-length]) / length  # the mean of every block
    count, source = -(-n // length), np.random.default_rng(seed)
    means = np.concatenate([
        blocks[source.integers(0, len(blocks), (CHUNK, count))].mean(axis=1)
        for _ in range(DRAWS // CHUNK)
    ])  # fmt: skip
    # Blocks see the first and last events less often: the centre is moved to the mean.
    means += mean - float(blocks.mean())
    low, high = np.quantile(means, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Difference(mean, float(low), float(high))
