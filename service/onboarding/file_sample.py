"""Read the first records of a file: CSV, Parquet or JSON lines, plain or compressed with gzip."""

import csv
import gzip
from itertools import islice
from pathlib import Path
from typing import IO, Any

from kaboost.service.errors import ConfigError, EventError
from kaboost.service.events.json_reader import decode_json

CSV = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
NAMES = "CSV (.csv, .tsv), JSON lines (.jsonl, .ndjson) or Parquet (.parquet), or these with .gz"


def read_file(path: Path, count: int) -> list[Any]:
    """Read at most `count` records; an empty cell of a CSV file is null.

    Raises
    ------
    ConfigError
        If the file cannot be read.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    suffix = suffixes[-2 if packed else -1] if len(suffixes) > packed else ""
    try:
        if suffix in PARQUET:
            return _read_parquet(path, count)
        with _open(path, packed=packed) as file:
            if suffix in CSV:
                rows = csv.DictReader(file, delimiter=CSV[suffix])
                return [{k: v or None for k, v in row.items() if k} for row in islice(rows, count)]
            if suffix in JSON_LINES:
                return [decode_json(line.encode()) for line in islice(file, count) if line.strip()]
    except (OSError, UnicodeDecodeError, EOFError, csv.Error, EventError) as err:
        raise ConfigError(f"{path}: cannot be read: {err}; name a file of {NAMES}") from err
    raise ConfigError(f"{path}: its format is not known by its name; name a file of {NAMES}")


def _open(path: Path, *, packed: bool) -> IO[str]:
    if packed:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read_parquet(path: Path, count: int) -> list[Any]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as err:
        raise ConfigError(
            f"{path}: a Parquet file needs {err.name}; run pip install '.[parquet]'"
        ) from err
    try:
        with ParquetFile(path) as file:
            batch = next(file.iter_batches(batch_size=count), None)
            return [] if batch is None else list(batch.to_pylist())
    except ArrowException as err:
        raise ConfigError(f"{path}: is not Parquet: {err}; name a file of {NAMES}") from err
