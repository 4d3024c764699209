"""Rows of other libraries: data frames that narwhals knows, such as those of polars and pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaboost.models.types import ModelError

AS_THEY_ARE = ("builtins", "collections", "kaboost", "numpy", "pandas")


def as_rows(rows: Any) -> Any:
    """Return the rows of a data frame as dicts without missing values; other rows unchanged.

    Frames of pandas stay as they are: their columns are read one by one.

    Raises
    ------
    ModelError
        For a frame of another library where narwhals is not installed.

    Examples
    --------
    >>> as_rows([{"age": 31}])
    [{'age': 31}]
    """
    if type(rows).__module__.partition(".")[0] in AS_THEY_ARE or not _is_frame(rows):
        return rows
    frame = _narwhals(rows).from_native(rows, eager_only=True)
    return [
        {name: value for name, value in row.items() if value is not None and value == value}
        for row in frame.iter_rows(named=True)
    ]


def as_row(x: Any) -> Any:
    """Return a row that is a Series of pandas as a dict without missing values.

    Examples
    --------
    >>> as_row({"age": 31})
    {'age': 31}
    """
    if isinstance(x, Mapping) or not hasattr(x, "to_dict") or not hasattr(x, "isna"):
        return x
    return x[~x.isna()].to_dict()


def as_labels(y: Any) -> Any:
    """Return labels of pyarrow as a list; others unchanged."""
    return y.to_pylist() if hasattr(y, "to_pylist") else y


def as_pandas(frame: Any) -> Any:
    """Return a data frame of another library as one of pandas, where that is installed."""
    if type(frame).__module__.partition(".")[0] in AS_THEY_ARE or not _is_frame(frame):
        return frame
    try:
        import pandas  # noqa: F401 # narwhals converts to it
    except ImportError:
        return frame
    return _narwhals(frame).from_native(frame, eager_only=True).to_pandas()


def _is_frame(rows: Any) -> bool:
    return hasattr(rows, "columns") and (hasattr(rows, "schema") or hasattr(rows, "dtypes"))


def _narwhals(rows: Any) -> Any:
    try:
        import narwhals
    except ImportError as err:
        kind = f"{type(rows).__module__.partition('.')[0]}.{type(rows).__name__}"
        raise ModelError(
            f"rows: a {kind} needs {err.name}; pip install 'kaboost[frames]', or pass dicts"
        ) from err
    return narwhals
