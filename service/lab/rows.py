"""Rows of a file as records of JSON: what a producer would have sent for them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

RAGGED = "ragged"  # the reason of a row with more or fewer values than the header


class Chunk(NamedTuple):
    """Some records, and what was left out before them."""

    values: list[bytes]
    rejected: Sequence[tuple[str, str]] = ()  # reason and message


def encode(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return a JSON object for every row of columns; missing values are null."""
    dump = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
    return [dump(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def encode_batches(batches: Iterator[Any]) -> Iterator[Chunk]:
    """Yield the records of typed batches, such as those of a Parquet file."""
    for batch in batches:
        columns = [_plain(column) for column in batch.columns]
        yield Chunk(encode(batch.schema.names, columns))


def _plain(column: Any) -> list[Any]:
    """Return the values of a typed column as JSON takes them.

    A number that is not finite is text, so that it is rejected as one rather than lost as null.
    """
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type) and pc.any(pc.is_inf(column)).as_py():
        return [str(value) if value in (float("inf"), float("-inf")) else value for value in values]
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if value is None else str(value, "utf-8", "replace") for value in values]
    return values
