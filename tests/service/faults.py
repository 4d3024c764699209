"""What tests of malformed records share."""

import re
from contextlib import suppress

import pytest
from hypothesis import strategies as st

from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Headers
from kaboost.service.events.diagnosis import CODES, MESSAGE
from kaboost.service.events.reader import Reader, Skipped
from tests.service.samples import MAX_BYTES, read

DEEP = 100_000
REMEDY = re.compile(r"[;:,] (or )?(send|set|register|declare|raise|null belongs)")
Case = tuple[bytes | None, str, str]  # the value, its code, what the message has


def refused(reader: Reader, value: bytes | None, headers: Headers = ()) -> EventError:
    """Return the fault of a value; it has a known code and a remedy, and fits a header."""
    with pytest.raises(EventError) as error:
        read(reader, value, headers)
    fault = error.value
    assert fault.code in CODES
    assert len(fault.message) <= MESSAGE + 200
    assert REMEDY.search(fault.message), fault.message
    return fault


def check(reader: Reader, case: Case, headers: Headers = ()) -> None:
    """Compare the fault of a value with code and words."""
    value, code, words = case
    fault = refused(reader, value, headers)
    assert (code, True) == (fault.code, words in fault.message), fault.message


COMMON: list[Case] = [
    (None, "null_value", "the record has no value"),
    (b" " * (MAX_BYTES + 1), "too_large", "1,000,001 bytes"),
    (b"\xff" * 100_000_000, "too_large", "100,000,000 bytes"),
]


def assert_total(reader: Reader, value: bytes, headers: Headers = ()) -> None:
    """Hold that a value is read, refused with code and remedy, or skipped."""
    fault = None
    with suppress(Skipped):
        try:
            read(reader, value, headers)
        except EventError as error:
            fault = error
    if fault is not None:
        assert fault.code in CODES
        assert REMEDY.search(fault.message), fault.message


def mutated(value: bytes) -> st.SearchStrategy[bytes]:
    """Make random bytes, or this value cut, repeated, or with bytes replaced."""
    at = st.integers(0, max(len(value) - 1, 0))
    replaced = st.tuples(at, st.binary(max_size=4)).map(
        lambda change: value[: change[0]] + change[1] + value[change[0] + len(change[1]) :]
    )
    inserted = st.tuples(at, st.binary(max_size=4)).map(
        lambda change: value[: change[0]] + change[1] + value[change[0] :]
    )
    cut = at.map(lambda end: value[:end])
    return st.one_of(st.binary(), replaced, inserted, cut)
