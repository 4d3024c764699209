"""Features of wide, mostly empty events as dicts: a struct costs what the schema has, a dict what
the event has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from kaboost.models.types import Mat

COLUMNS, PART = 100, 16  # columns from which, and the part there up to which, dicts cost less
LOOKED_AT = 4  # rows of a batch that say how empty it is; of fewer, a dict saves nothing


class Sparse:
    """Reads the features of a schema that has numbers only; says of batches whether to."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._places = {name: j for j, name in enumerate(names)}

    def knows(self, features: dict[str, float | None]) -> bool:
        """Say whether the schema has all of an event's features."""
        return features.keys() <= self._places.keys()

    def pays(self, numbers: Mat) -> bool:
        """Say whether batches of rows as empty as the first of these (B, n) had better be dicts."""
        looked = numbers[:LOOKED_AT]
        if len(looked) < LOOKED_AT:
            return False
        there = looked.size - int(np.count_nonzero(np.isnan(looked)))
        return there * PART <= looked.size

    def tabulate(self, features: Sequence[Any]) -> Mat:
        """Return the numbers (B, n) of B dicts, or structs among them; NaN where missing."""
        dicts = [each if each.__class__ is dict else self._dict_of(each) for each in features]
        counts = list(map(len, dicts))
        columns = np.fromiter(
            map(self._places.__getitem__, chain.from_iterable(dicts)), np.int64, sum(counts)
        )
        values = list(chain.from_iterable(each.values() for each in dicts))
        numbers = np.full((len(dicts), len(self._names)), math.nan)
        numbers[np.repeat(np.arange(len(dicts)), counts), columns] = np.array(values, np.float64)
        return numbers

    def _dict_of(self, features: msgspec.Struct) -> Mapping[str, float | None]:
        cells = zip(self._names, msgspec.structs.astuple(features), strict=True)
        return {name: value for name, value in cells if value is not None and value == value}
