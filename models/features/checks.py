"""Checks of the arguments of `Model`: rows, names of features and importances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from kaboost.models.types import ModelError, Vec, as_float64

COMPARED_NAMES = 100  # known names that an unknown one is compared with: the search is slow


def check_rows(rows: Any) -> None:
    """Raise for anything but a batch of rows.

    Raises
    ------
    ModelError
        For a single row, a text, an iterable without a length, such as a generator, and a DataFrame
        that has a column twice.
    """
    if hasattr(rows, "columns"):
        for name, count in Counter(rows.columns).items():
            if count > 1:
                raise ModelError(f"rows: column {name!r} occurs twice; rename or drop one")
        return
    if isinstance(rows, Mapping):
        raise ModelError("rows: is one dict, not a list of dicts; pass [row], or call ..._one")
    if not (isinstance(rows, list | tuple) or getattr(rows, "ndim", 0) > 0):
        kind = type(rows).__name__
        raise ModelError(f"rows: a {kind} is not a list of dicts; pass a list, or a DataFrame")


def check_frame(schema: Mapping[str, str], rows: Any) -> None:
    """Raise for a DataFrame without any known column, unless the schema is empty.

    Raises
    ------
    ModelError
        It names the feature that was probably meant.
    """
    columns: Any = rows.columns if hasattr(rows, "columns") and schema else ()
    if len(columns) and not set(columns) & schema.keys():
        refuse_unknown(schema, columns[0])


def refuse_unknown(schema: Mapping[str, str], name: Any, row: str = "") -> NoReturn:
    """Raise for a feature that the schema does not know; `row` is its place in the batch.

    Raises
    ------
    ModelError
        Always; it names the feature that was probably meant.
    """
    compared = list(islice(schema, COMPARED_NAMES))
    near = get_close_matches(str(name), compared, 1)
    more = ", .." if len(schema) > len(compared) else ""
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(compared)}{more}"
    raise ModelError(f"features.{name}{row}: unknown feature; {hint}")


def check_weights(w: Any) -> Vec:
    """Return importances (B,) as float64.

    Raises
    ------
    ModelError
        For texts, another shape, and an importance that is negative or not finite.
    """
    if np.asarray(w).dtype.kind in "US":
        raise ModelError("w: holds a value that is not a number (a text); give numbers")
    weights = as_float64("w", w)
    if weights.ndim != 1:
        raise ModelError(f"w: has shape {weights.shape}; give one importance >= 0 for every row")
    wrong = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
    if len(wrong):
        k = wrong[0]
        place = f"w[{k}]" if len(weights) > 1 else "w"
        raise ModelError(
            f"{place}: the importance {weights[k]:g} is negative or not finite; give a number >= 0"
        )
    return weights
