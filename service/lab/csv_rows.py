"""Read delimited text: delimiter, header, ragged rows, and how each column is written."""

import csv
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv

from kaboost.service.errors import ConfigError
from kaboost.service.lab.byte_streams import Utf8Stream
from kaboost.service.lab.cells import DATE, TEXT, Style, convert, style_of
from kaboost.service.lab.rows import RAGGED, Chunk, encode
from kaboost.service.onboarding.columns import as_number

DELIMITERS = ",;\t|"
NO_DELIMITERS = '"\r\n'
SNIFFED_BYTES = 1 << 16
BLOCK_BYTES = 1 << 19  # of text; a row is shorter, and pyarrow reads 32 of them ahead
STYLE_ROWS = 1000  # that decide how a column is written


class Dialect(NamedTuple):
    """How a file of text is laid out."""

    delimiter: str
    header: list[str]


class CsvRows:
    """The rows of a delimited file, in chunks; `notes` says what was found on the way."""

    def __init__(self, stream: Utf8Stream, name: str, delimiter: str | None = None) -> None:
        self._stream, self._name = stream, name
        self._dialect = _dialect(
            str(stream.peek(SNIFFED_BYTES), "utf-8", "ignore"), name, delimiter
        )
        self._ragged: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records."""
        batches = self._batches()
        first: list[Any] = []
        while sum(map(len, first)) < STYLE_ROWS:
            batch = next(batches, None)
            if batch is None:
                break
            first.append(batch)
        styles = self._styles(first)
        for batch in chain(first, batches):
            columns = [convert(c, s) for c, s in zip(batch.columns, styles, strict=True)]
            rejected, self._ragged = self._ragged, []
            yield Chunk(encode(self._dialect.header, columns), rejected)
        yield Chunk([], self._ragged)
        if self._stream.fallback_lines:
            self.notes.append(
                f"{self._stream.fallback_lines} lines are not UTF-8 and were read as Windows-1252; "
                "save the file in one encoding if names look wrong"
            )

    def _batches(self) -> Iterator[Any]:
        header, delimiter = self._dialect.header, self._dialect.delimiter
        try:
            reader = arrow_csv.open_csv(
                pa.PythonFile(self._stream, "r"),
                read_options=arrow_csv.ReadOptions(
                    column_names=header, skip_rows=1, block_size=BLOCK_BYTES, use_threads=False
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=self._skip
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.string()),
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=True,
                ),
            )
            yield from (batch for batch in reader if len(batch))
        except (pa.ArrowException, StopIteration) as err:
            if "Empty CSV" in str(err):
                return
            raise ConfigError(
                f"{self._name}: cannot be read on: {err}; look for a quote that is not closed, or "
                "name another --delimiter"
            ) from err

    def _skip(self, row: Any) -> str:
        """Note a row with another number of values than the header."""
        place = "a row" if row.number is None else f"row {row.number}"
        lines = row.text.count("\n")  # its text is not shown: fields may be private
        if lines:
            why = f"takes {lines + 1:,} lines: close the quote that it begins with"
        else:
            why = (
                f"has {row.actual_columns} values for {row.expected_columns} columns; "
                f"quote values that contain {self._dialect.delimiter!r}"
            )
        self._ragged.append((RAGGED, f"{place} {why}"))
        return "skip"

    def _styles(self, batches: list[Any]) -> list[Style]:
        """Decide how each column is written, by the first rows, and note what is not plain."""
        found = []
        for j, name in enumerate(self._dialect.header):
            sample = list(chain.from_iterable(batch.column(j).to_pylist() for batch in batches))
            style = style_of(sample[:STYLE_ROWS], decimal_commas=self._dialect.delimiter != ",")
            found.append(style)
            if style.kind == DATE:
                how = " (day first, which no value decides)" if style.ambiguous else ""
                self.notes.append(
                    f"{name}: dates written as {style.formats[0]}{how} are read as UTC"
                )
            elif style.kind not in (TEXT, "number"):
                what = "a decimal comma" if style.kind == "comma" else "commas between thousands"
                self.notes.append(f"{name}: numbers are written with {what}")
        return found


def _dialect(head: str, name: str, delimiter: str | None) -> Dialect:
    """Find the delimiter and the names of the columns.

    Raises
    ------
    ConfigError
        For an empty file, another delimiter than one character, and a header that is blank, has
        numbers or repeats a name.
    """
    if not head.strip():
        raise ConfigError(f"{name}: is empty; name a file with a header and rows")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()
                                  or delimiter in NO_DELIMITERS):  # fmt: skip
        raise ConfigError(
            f"--delimiter {delimiter!r}: is no delimiter; write one ASCII character, such as ';', "
            "or $'\\t' for a tab"
        )
    lines = head.splitlines()
    if not lines[0].strip():
        raise ConfigError(
            f"{name}: the first line is blank; remove it, the first line has the names of columns"
        )
    chosen = delimiter or max(DELIMITERS, key=lambda each: _consistency(lines[:20], each))
    (header,) = list(csv.reader(lines[:1], delimiter=chosen))
    columns = [column.strip() or f"column_{k}" for k, column in enumerate(header, 1)]
    if all(as_number(column) is not None for column in columns):
        raise ConfigError(
            f"{name}: the first line has numbers instead of names ({', '.join(columns[:3])}); add "
            "a line with the names of the columns"
        )
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        raise ConfigError(f"{name}: column {twice[0]!r} occurs twice in the header; rename one")
    return Dialect(chosen, columns)


def _consistency(lines: list[str], delimiter: str) -> tuple[float, int]:
    """Return how many lines have as many values as the first one, and how many values these are."""
    counts = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
    if not counts or counts[0] == 1:
        return 0.0, 0
    return sum(count == counts[0] for count in counts) / len(counts), counts[0]
