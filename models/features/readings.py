"""How a value is read that is not of its feature's kind: by name, as missing, or not at all.

Texts that stand for a missing value are missing where numbers or booleans belong. A feature
whose kind was inferred reads more than a declared one, and while its kind is open reads anything.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.features.datetimes import COMPACT_DATES, is_time

DECLARED, INFERRED, OPEN = 0, 1, 2  # how sure a feature's kind is, from sure to open
MISSING_TEXTS = frozenset(
    (
        "", "-", "--", "---", ".", "..", "...", "?", "??", "*", "#", "n/a", "#n/a", "na", "n.a.",
        "n.a", "n/d", "nan", "-nan", "nat", "null", "(null)", "<null>", "none", "(none)", "<none>",
        "nil", "<na>", "<n/a>", "#na", "#null!", "#value!", "#ref!", "#div/0!", "#num!", "missing",
        "(missing)", "unknown", "undefined", "empty", "(empty)", "not available", "\\n",
    )
)  # fmt: skip
MISSING_TEXT_LENGTH = 20  # characters, with blanks: longer texts are not looked up
EXACT_INTEGERS = 2**53  # larger whole numbers lose digits as floats, so they are names
LARGEST_NAMES = 2**64  # larger floats are measured, not named
NAMED_INTEGERS = 1e21  # whole floats below this are named as integers
NUMBER, BOOLEAN, TEXT = 1, 2, 3  # classes of values
CLASS_OF_KIND = {"number": NUMBER, "boolean": BOOLEAN, "category": TEXT}


class Unreadable:
    """Stands for the reading of a value that its feature cannot have."""


UNREADABLE = Unreadable()


def is_missing_text(value: object) -> bool:
    """Return whether a value is a text that stands for a missing one.

    Examples
    --------
    >>> is_missing_text("N/A"), is_missing_text(" "), is_missing_text("no"), is_missing_text(0)
    (True, True, False, False)
    """
    return (
        isinstance(value, str)
        and len(value) <= MISSING_TEXT_LENGTH
        and value.strip().lower() in MISSING_TEXTS
    )


def name_of(value: bool | int | float) -> str:
    """Return the name of a category that is written as a number or a boolean.

    Examples
    --------
    >>> name_of(5411), name_of(5411.0), name_of(True), name_of(0.5)
    ('5411', '5411', 'true', '0.5')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < NAMED_INTEGERS
        return str(int(value)) if whole else repr(float(value))
    return str(value)


def value_class(value: object) -> int | None:
    """Return the class of a value: NUMBER, BOOLEAN or TEXT; None where it has none."""
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int | float):
        return NUMBER
    return TEXT if isinstance(value, str) else None


def speaks_for(value: object) -> int | None:
    """Return the class that a value speaks for among names: numbers from 2^53 to 2^64 are names."""
    if isinstance(value, int | float) and EXACT_INTEGERS <= abs(value) < LARGEST_NAMES:
        return TEXT
    return value_class(value)


def is_odd(value: object, kind: str) -> bool:
    """Return whether a value is there and of another class than its feature's inferred kind."""
    found = value_class(value)
    return found is not None and found != CLASS_OF_KIND.get(kind)


def is_misfit(value: object, kind: str) -> bool:
    """Return whether a value may speak against the inferred kind of its feature."""
    return is_odd(value, kind) and (kind == "category" or not is_missing_text(value))


def reading(value: Any, kind: str, sure: int = DECLARED) -> Any:
    """Return what a value means for a feature of this kind, None where missing.

    Parameters
    ----------
    value
        A plain Python value.
    kind
        The kind of the feature.
    sure
        DECLARED, INFERRED or OPEN.

    Returns
    -------
    object
        A number, a boolean, a name, a time or a text; UNREADABLE for a value of another kind.

    Examples
    --------
    >>> reading("N/A", "number"), reading(5411, "category"), reading(True, "number", INFERRED)
    (None, '5411', 1.0)
    """
    if value is None:
        return None
    if kind in ("category", "text"):
        if isinstance(value, str):
            return value
        return _name(value, sure) if kind == "category" else UNREADABLE
    if kind == "datetime":
        return _time(value) if is_time(value) else UNREADABLE
    if is_missing_text(value):
        return None
    read = _number(value, sure) if kind == "number" else _boolean(value, sure)
    return None if read is UNREADABLE and sure == OPEN and value_class(value) else read


def _time(value: str | float) -> str | float:
    """Return a time; as text if the usual type of numbers leaves it out, as it could be a date."""
    if isinstance(value, str) or value >= COMPACT_DATES[1]:
        return value
    return f"{value:.6f}"


def _name(value: Any, sure: int) -> Any:
    if not isinstance(value, bool | int | float):
        return UNREADABLE
    if isinstance(value, float):
        whole = value.is_integer()  # false for infinities and nan
        if not whole and (sure == DECLARED or not math.isfinite(value)):
            return UNREADABLE
    try:
        return name_of(value)
    except ValueError:  # more digits than Python writes
        return UNREADABLE


def _number(value: Any, sure: int) -> Any:
    if isinstance(value, bool):
        return UNREADABLE if sure == DECLARED else float(value)
    return value if isinstance(value, int | float) else UNREADABLE


def _boolean(value: Any, sure: int) -> Any:
    if isinstance(value, bool):
        return value
    if sure != DECLARED and isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    return UNREADABLE
