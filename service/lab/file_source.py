"""The records of a file or standard input: CSV, TSV, Parquet, Arrow, JSON lines, also packed."""

import re
import zlib
from collections.abc import Generator, Iterator
from pathlib import PurePath
from typing import Any

from kaboost.service.errors import ConfigError
from kaboost.service.lab.byte_streams import Input, Utf8Stream
from kaboost.service.lab.extras import missing_extra
from kaboost.service.lab.rows import Chunk

BATCH_ROWS = 10_000
PACKED = (".gz", ".zst", ".zstd")
FORMATS = {
    ".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
}  # fmt: skip
MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow", b"\xff\xff\xff\xff": "arrow"}
JSON_START = re.compile(rb"\[?\s*\{")  # of a file without an ending
MARKS = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"  # what may stand before the first character of text
# Of damaged files: zlib.error is none of the others, UnicodeDecodeError is that of UTF-16.
READ_ERRORS = (OSError, EOFError, UnicodeDecodeError, zlib.error)
NAMES = "CSV, TSV, Parquet, Arrow or JSON lines, also with .gz or .zst"


class FileSource:
    """Records of one file, in chunks; memory does not grow with the file."""

    def __init__(self, name: str, delimiter: str | None = None) -> None:
        self._input = Input(name)
        self._delimiter = delimiter
        self.name = self._input.name
        self.notes: list[str] = []
        self._rows: tuple[int, int] | None = None  # of a file of columns: read, and all
        self.format = self._format(name)

    @property
    def fraction(self) -> float | None:
        """Which part of the input was read, None where its size is not known before its end."""
        if self._rows is not None:
            return self._rows[0] / max(self._rows[1], 1)
        return self._input.read_bytes / self._input.total if self._input.total else None

    def close(self) -> None:
        """Close the file."""
        self._input.close()

    def chunks(self) -> Generator[Chunk]:
        """Yield all records.

        Raises
        ------
        ConfigError
            If the file is not of its format.
        """
        try:
            yield from {"json": self._json, "parquet": self._parquet, "arrow": self._arrow}.get(
                self.format, self._csv
            )()
        except ImportError as err:
            raise missing_extra(f"{self.name}: reading {self.format} files", "lab", err) from err
        except READ_ERRORS as err:
            raise ConfigError(
                f"{self.name}: cannot be read as {self.format}: {err}; name a file of {NAMES}"
            ) from err

    def _format(self, name: str) -> str:
        suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
        suffix = next((each for each in reversed(suffixes) if each not in PACKED), "")
        if suffix in FORMATS:
            return FORMATS[suffix]
        head = self._peek(4)
        known = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)
        return known or ("json" if JSON_START.match(self._peek(64).lstrip(MARKS)) else "csv")

    def _peek(self, size: int) -> bytes:
        stream: Any = self._input.stream
        try:
            return bytes(stream.peek(size)[:size])
        except READ_ERRORS as err:
            raise ConfigError(f"{self.name}: cannot be unpacked: {err}; name another file") from err

    def _csv(self) -> Iterator[Chunk]:
        from kaboost.service.lab.csv_rows import CsvRows  # pyarrow, which is optional

        delimiter = "\t" if self.format == "tsv" else self._delimiter
        rows = CsvRows(self._text(), self.name, delimiter)
        for chunk in rows.chunks():
            self._take_notes(rows.notes)
            yield chunk
        self._take_notes(rows.notes)

    def _take_notes(self, notes: list[str]) -> None:
        self.notes += notes
        notes.clear()

    def _json(self) -> Iterator[Chunk]:
        """Yield the lines as they are: the decoder reads them as it reads records of a topic."""
        if self._peek(64).lstrip(MARKS)[:1] == b"[":
            raise ConfigError(
                f"{self.name}: is one JSON array; write one object a line, as jq -c '.[]' does"
            )
        values: list[bytes] = []
        for line in self._text().lines():
            if line := line.strip():
                values.append(line)
            if len(values) == BATCH_ROWS:
                yield Chunk(values)
                values = []
        yield Chunk(values)

    def _text(self) -> Utf8Stream:
        return Utf8Stream(self._input.stream, self.name)

    def _parquet(self) -> Iterator[Chunk]:
        from kaboost.service.lab.column_files import parquet_rows, readable

        with self._input.seekable() as file, readable():
            total, chunks = parquet_rows(file)
            yield from self._counted(chunks, total)

    def _counted(self, chunks: Iterator[Chunk], total: int) -> Iterator[Chunk]:
        done = 0
        for chunk in chunks:
            done += len(chunk.values)
            self._rows = done, total
            yield chunk

    def _arrow(self) -> Iterator[Chunk]:
        from kaboost.service.lab.column_files import arrow_rows, readable

        with self._input.seekable() as file, readable():
            yield from arrow_rows(file)
