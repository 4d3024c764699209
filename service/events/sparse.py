"""Decode the features of wide, mostly empty events as dicts: a struct costs as much as the schema
is wide, a dict as much as the event has values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from kaboost.models.types import Mat

MIN_COLUMNS = 100  # of a schema, below which structs are always faster
COLUMNS_PER_VALUE = 16  # from which dicts are faster: about one value in 16 is present
SAMPLE_ROWS = 4  # rows of a batch whose emptiness is measured; below that a dict saves nothing


class SparseReader:
    """Tabulate dicts of a schema that has numbers only, and decide when dicts are faster."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._columns = {name: j for j, name in enumerate(names)}

    def covers(self, features: dict[str, float | None]) -> bool:
        """Return whether the schema has all of an event's features."""
        return features.keys() <= self._columns.keys()

    def is_worthwhile(self, numbers: Mat) -> bool:
        """Return whether dicts are faster for rows as empty as the first of these (B, n)."""
        sample = numbers[:SAMPLE_ROWS]
        if len(sample) < SAMPLE_ROWS:
            return False
        present = sample.size - int(np.count_nonzero(np.isnan(sample)))
        return present * COLUMNS_PER_VALUE <= sample.size

    def tabulate(self, features: Sequence[Any]) -> Mat:
        """Return the numbers (B, n) of B dicts, or structs among them; NaN where missing."""
        dicts = [row if row.__class__ is dict else self._to_dict(row) for row in features]
        counts = list(map(len, dicts))
        columns = np.fromiter(
            map(self._columns.__getitem__, chain.from_iterable(dicts)), np.int64, sum(counts)
        )
        values = list(chain.from_iterable(row.values() for row in dicts))
        numbers = np.full((len(dicts), len(self._names)), math.nan)
        numbers[np.repeat(np.arange(len(dicts)), counts), columns] = np.array(values, np.float64)
        return numbers

    def _to_dict(self, features: msgspec.Struct) -> Mapping[str, float | None]:
        cells = zip(self._names, msgspec.structs.astuple(features), strict=True)
        return {name: value for name, value in cells if value is not None and value == value}
