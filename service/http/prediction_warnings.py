"""What `POST /predict` says of a request: what it lacks, what was ignored, what was meant."""

import math
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import compress, islice
from typing import Any

import msgspec

from kaboost.models.features.onehot import Table, empty_columns
from kaboost.service.events.diagnosis import MESSAGE, nearest, shorten
from kaboost.service.storage.changes import DROPPED

ONE_OF_BOTH = (
    "send either features or record (as it is on the topic), for one row, or instances, for many"
)
MAX_NAMED = 20  # ignored features listed in a response
MAX_LISTED = 5  # names in one warning, or warnings of one kind


def missing_features(names: Sequence[str], rows: Sequence[Any], table: Table) -> list[str]:
    """Name the features without a value in any of the rows, in one warning.

    Parameters
    ----------
    names
        Features in the order of the structs.
    rows
        B structs of features.
    table
        The same as columns.
    """
    if len(rows) == 1:
        cells = msgspec.structs.astuple(rows[0])
        count = cells.count(None) + cells.count(math.nan)  # the one object that stands for absent
        if not count:
            return []
        empty: Iterable[bool] = (cell is None or cell is math.nan for cell in cells)
    else:
        columns = empty_columns(table) if rows else []
        empty, count = columns, sum(columns)
    if any(name.endswith(DROPPED) for name in names):
        lacking = [name for name in compress(names, empty) if not name.endswith(DROPPED)]
        listed = f"missing, of {len(names)} features: {_listed(lacking, len(lacking))}"
        return [listed][: len(lacking)]
    return [f"missing, of {len(names)} features: {_listed(compress(names, empty), count)}"][:count]


def unknown_names(unknown: Collection[str], known: tuple[str, ...], what: str) -> list[str]:
    """Warn of names that were ignored, each with the known one that was probably meant."""
    if not unknown:
        return []
    names = sorted(set(unknown))
    warnings = [_unknown(name, known, what) for name in names[:MAX_LISTED]]
    rest = len(names) - MAX_LISTED
    return [*warnings, f"... and {rest} more were ignored"] if rest > 0 else warnings


@lru_cache(maxsize=1_000)  # a client that sends a wrong name sends it again and again
def _unknown(name: str, known: tuple[str, ...], what: str) -> str:
    near = nearest(name, known)
    remedy = f"did you mean {near}?" if near else "it was ignored"
    return f'"{shorten(name)}" is not {what}; {remedy}'


def _listed(names: Iterable[str], count: int) -> str:
    """List the first of so many names."""
    shown = ", ".join(map(shorten, islice(names, MAX_LISTED)))
    rest = count - MAX_LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown


def either(request: dict[str, object]) -> str:
    """Ask for one of both, and list the keys that were sent instead."""
    sent = shorten(", ".join(list(request)[:MAX_NAMED]), MESSAGE)
    found = (nearest(key, ("features", "record", "instances")) for key in request)
    near = next((name for name in found if name and name not in request), None)
    meant = f": did you mean {near}?" if near else ""
    return f"{ONE_OF_BOTH}; received {sent}{meant}" if sent else ONE_OF_BOTH
