"""Records of Parquet and Arrow files: typed columns, read in batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kaboost.service.lab.rows import Chunk, encode

BATCH_ROWS = 10_000


@contextmanager
def readable() -> Iterator[None]:
    """Raise pyarrow's errors as OSError, which callers catch without it."""
    try:
        yield
    except pa.ArrowException as err:
        raise OSError(str(err)) from err


def parquet_rows(file: IO[bytes]) -> tuple[int, Iterator[Chunk]]:
    """Return the number of rows of a Parquet file, and its records."""
    table = parquet.ParquetFile(file)
    return table.metadata.num_rows, _encoded(table.iter_batches(batch_size=BATCH_ROWS))


def arrow_rows(file: IO[bytes]) -> Iterator[Chunk]:
    """Return the records of an Arrow file or stream."""
    head = file.read(6)
    file.seek(0)
    if head == b"ARROW1":
        reader = pa.ipc.open_file(file)
        batches = map(reader.get_batch, range(reader.num_record_batches))
    else:
        batches = iter(pa.ipc.open_stream(file))
    return _encoded(_pieces(batches))


def _pieces(batches: Iterator[Any]) -> Iterator[Any]:
    """Cut batches, which may be a whole table, to pieces."""
    for batch in batches:
        yield from (batch.slice(k, BATCH_ROWS) for k in range(0, len(batch), BATCH_ROWS))


def _encoded(batches: Iterator[Any]) -> Iterator[Chunk]:
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
