"""Columns of text as values of JSON: numbers however they are written, dates in one form.

What does not fit the style of its column stays text: the decoder then says what is wrong with it.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kaboost.models.features.datetimes import is_compact_date, is_datetime
from kaboost.models.features.readings import is_missing_text
from kaboost.service.onboarding.columns import as_number, nearly_all

TEXT, NUMBER, COMMA, GROUPED, DATE = "text", "number", "comma", "grouped", "date"
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+|[+-]?\d{1,3}(\.\d{3}){2,}")
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_THREE = re.compile(r"[+-]?\d{1,3},\d{3}")  # 1,234 may be either

DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y",
        "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
        "%Y%m%d")  # fmt: skip
CLOCKS = ("", " %H:%M:%S", "T%H:%M:%S", " %H:%M", "T%H:%M", " %I:%M %p", " %I:%M:%S %p")
PROBED = 5  # values that are tried with all formats, before all are
MONTH_FIRST = ("%m/%d/%Y", "%m/%d/%y")
WRITTEN = "%Y-%m-%dT%H:%M:%SZ"


class Style(NamedTuple):
    """How the values of a column are written."""

    kind: str = TEXT
    formats: tuple[str, ...] = ()  # of dates, those of the sample first
    ambiguous: bool = False  # whether day and month may be the other way round


def style_of(sample: Sequence[str | None], *, decimal_commas: bool = True) -> Style:
    """Return the style that nearly all values of a sample have.

    With `decimal_commas` numbers such as 1,234 are 1.234, where no other value decides.

    Examples
    --------
    >>> style_of(["1,5", "1.234,25", None]).kind, style_of(["007", "012"]).kind
    ('comma', 'text')
    >>> style_of(["31.12.2026", "1.2.2027 10:30"]).formats[:2]
    ('%d.%m.%Y', '%d.%m.%Y %H:%M')
    """
    values = [value.strip() for value in sample if value and not is_missing_text(value)]
    if not values:
        return Style()
    compact = nearly_all(map(is_compact_date, values))
    if nearly_all(as_number(value) is not None for value in values) and not compact:
        return Style(NUMBER)
    if not compact and (kind := _comma_style(values, decimal_commas)):
        return Style(kind)
    if nearly_all(map(is_datetime, values)):
        return Style()  # as the service reads it
    return _date_style(values)


def _comma_style(values: Sequence[str], decimal_commas: bool) -> str | None:
    """Return how numbers with commas are written; None where they are no such numbers."""
    commas = [value for value in values if "," in value]
    if not commas:
        return None
    undecided = len(commas) == len(values) and all(map(_THREE.fullmatch, commas))
    if nearly_all(_GROUPED.fullmatch(v) or as_number(v) is not None for v in values) and not (
        undecided and decimal_commas
    ):
        return GROUPED
    if nearly_all(_COMMA.fullmatch(v) or _WHOLE.fullmatch(v) for v in values):
        return COMMA
    return None


def _date_style(values: Sequence[str]) -> Style:
    """Return the formats of dates, if nearly all values have one."""
    formats = [day + clock for day, clock in product(DAYS, CLOCKS)]
    probed = [value for value in values[:PROBED] if any(map(str.isdigit, value))]
    if not any(_parses(value, f) for value in probed for f in formats):
        return Style()
    matching = {f: sum(_parses(value, f) for value in values) for f in formats}
    monthly = [sum(matching[d + clock] for clock in CLOCKS) for d in MONTH_FIRST]
    daily = [sum(matching[d + clock] for clock in CLOCKS) for d in ("%d/%m/%Y", "%d/%m/%y")]
    slashed = sum(monthly) + sum(daily)
    months = sum(monthly) > sum(daily)
    gone = ("%d/%m/%Y", "%d/%m/%y") if months else MONTH_FIRST
    kept = [f for f in formats if matching[f] and not f.startswith(gone)]
    if not nearly_all(any(_parses(value, f) for f in kept) for value in values):
        return Style()
    kept.sort(key=lambda f: -matching[f])
    ambiguous = slashed > 0 and sum(monthly) == sum(daily)
    return Style(DATE, (*kept, *(f for f in formats if f not in kept and not f.startswith(gone))),
                 ambiguous)  # fmt: skip


def _parses(value: str, written: str) -> bool:
    return _moment(value, written) is not None


@lru_cache(maxsize=1 << 16)
def _moment(value: str, written: str) -> datetime | None:
    try:
        return datetime.strptime(value, written)
    except ValueError:
        return None


def convert(column: Any, style: Style) -> list[Any]:
    """Return the values (B,) of a column of text, None where it is empty.

    Parameters
    ----------
    column
        A pyarrow array of strings.
    style
        How most of them are written.
    """
    if style.kind == TEXT:
        return list(column.to_pylist())
    if style.kind == DATE:
        return _dates(column, style.formats)
    if style.kind != NUMBER:
        column = _plain_numbers(column, style.kind)
    for type_ in (pa.int64(), pa.float64()):
        try:
            numbers = pc.cast(column, type_)
        except pa.ArrowInvalid:
            continue
        if type_ == pa.int64() or pc.all(pc.is_finite(numbers)).as_py() is not False:
            return list(numbers.to_pylist())
    return [_number(value) for value in column.to_pylist()]


def _plain_numbers(column: Any, kind: str) -> Any:
    """Return numbers with a decimal point and without groups; other texts as they are."""
    pattern = _COMMA if kind == COMMA else _GROUPED
    fitting = pc.match_substring_regex(column, f"^{pattern.pattern}$")
    if kind == COMMA:
        plain = pc.replace_substring(pc.replace_substring(column, ".", ""), ",", ".")
    else:
        plain = pc.replace_substring(column, ",", "")
    return pc.if_else(fitting, plain, column)


def _number(value: str | None) -> Any:
    number = None if value is None else as_number(value)
    if number is None:
        return value
    return int(str(value)) if _WHOLE.fullmatch(str(value).strip()) else number


def _dates(column: Any, formats: tuple[str, ...]) -> list[Any]:
    """Return dates as RFC 3339 in UTC: at once those of the first format, one by one the others."""
    parsed = pc.strptime(column, format=formats[0], unit="s", error_is_null=True)
    texts = pc.strftime(parsed, format="%Y-%m-%dT%H:%M:%SZ").to_pylist()
    if parsed.null_count == column.null_count:
        return list(texts)
    return [_rfc3339(value, formats) if text is None else text
            for text, value in zip(texts, column.to_pylist(), strict=True)]  # fmt: skip


def _rfc3339(value: str | None, formats: tuple[str, ...]) -> str | None:
    if value is None or is_datetime(value.strip()):
        return value
    moments: Iterator[datetime | None] = (_moment(value.strip(), each) for each in formats)
    moment = next((each for each in moments if each is not None), None)
    return value if moment is None else moment.strftime(WRITTEN)
