"""Columns of a table for scikit-learn's estimators: numbers, and texts as categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.features.labels import is_missing
from kaboost.models.features.onehot import Table
from kaboost.models.features.readings import is_missing_text, name_of
from kaboost.models.types import Ints, Mat, short_repr, to_python

Kinds = tuple[str, ...]  # `number` or `category`, by column


class Rows(NamedTuple):
    """B rows by the kind of their columns."""

    numbers: Mat  # (B, n), NaN where missing
    categories: Sequence[NDArray[Any]]  # c columns of B names, None where missing

    def __len__(self) -> int:
        """Return the number of rows, B."""
        return len(self.numbers)

    def take(self, order: Ints) -> Rows:
        """Return rows in an order (B,)."""
        return Rows(self.numbers[order], [column[order] for column in self.categories])

    def table(self) -> Table:
        """Return the rows as encoders read them."""
        B = len(self.numbers)
        columns = [column.tolist() for column in self.categories]
        return Table(np.ascontiguousarray(self.numbers), np.empty((B, 0)), columns)


def has_texts(X: Any) -> bool:
    """Return whether a table has a column of texts, or a categorical one of pandas."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return any(_is_category(X.iloc[:, j]) for j in range(len(X.columns)))
    values = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    if values.ndim != 2 or values.dtype.kind not in "OUS":
        return False
    return any(_is_category(values[:, j]) for j in range(values.shape[1]))


def kinds_of(X: Any) -> Kinds:
    """Return the kinds of the columns of a table that has texts: those of its first rows."""
    return tuple("category" if _is_category(column) else "number" for column in _columns(X))


def read_rows(X: Any, kinds: Kinds, names: Sequence[str]) -> Rows:
    """Return the rows of a table by the kinds of its columns.

    Raises
    ------
    ValueError
        For another number of columns, and for a text in a column of numbers.
    """
    columns = _columns(X)
    if len(columns) != len(kinds):
        raise ValueError(f"X has {len(columns)} features, but {len(kinds)} were expected")
    numbers, categories = [], []
    for column, kind, name in zip(columns, kinds, names, strict=True):
        values = list(map(to_python, column))
        if kind == "number":
            numbers.append([_number(value, name) for value in values])
        else:
            categories.append(np.array(list(map(_name, values)), object))
    B = len(columns[0]) if columns else 0
    matrix = np.array(numbers, np.float64).T if numbers else np.empty((B, 0))
    return Rows(np.ascontiguousarray(matrix), categories)


def _columns(X: Any) -> list[Any]:
    if hasattr(X, "iloc"):
        return [X.iloc[:, j] for j in range(len(X.columns))]
    values = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    return list(values.T)


def _is_category(column: Any) -> bool:
    if type(getattr(column, "dtype", None)).__name__ == "CategoricalDtype":
        return True
    if getattr(getattr(column, "dtype", None), "kind", "O") in "biufcM":
        return False
    texts = [value for value in column if isinstance(value, str) and not is_missing_text(value)]
    return any(not _is_number(text) for text in texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(value: Any, name: str) -> float:
    if is_missing(value) or is_missing_text(value):
        return np.nan
    try:
        number = float(value)
    except (TypeError, ValueError) as err:
        raise ValueError(
            f"X: {short_repr(value)} in column {name} is not a number, as in the first call of fit"
        ) from err
    if not np.isfinite(number):
        raise ValueError(f"X: {short_repr(value)} in column {name} is not finite; leave it empty")
    return number


def _name(value: Any) -> str | None:
    if is_missing(value):
        return None
    return name_of(value) if isinstance(value, bool | int | float) else str(value)
