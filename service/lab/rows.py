"""Rows of a file as records of JSON: what a producer would have sent for them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

RAGGED = "ragged"  # the reason of a row with more or fewer values than the header


class Chunk(NamedTuple):
    """Some records, and what was left out before them."""

    values: list[bytes]
    rejected: Sequence[tuple[str, str]] = ()  # reason and message


def encode(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return a JSON object for every row of columns; missing values are null."""
    dump = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
    return [dump(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
