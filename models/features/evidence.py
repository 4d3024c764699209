"""Evidence for inferred kinds: the first values of every feature, and what they say.

An inferred kind is open for a feature's first 200 values (2,000 where more than a tenth of them
speak against it). A value that speaks against it is a misfit: it is read as well as it can be, and
counted. The kind is corrected before the misfit that outvotes it, and may be once more when it
closes: whole numbers that name things become a category, and a number that stands for a missing
value is missing from then on. All of it depends on the order of events alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from kaboost.models.features.number_codes import MIN_CODES, are_names, missing_code
from kaboost.models.features.onehot import Table, slice_table
from kaboost.models.features.readings import (
    BOOLEAN,
    CLASS_OF_KIND,
    NUMBER,
    TEXT,
    is_misfit,
    speaks_for,
)
from kaboost.models.features.rows import DECLARE, BatchSlice
from kaboost.models.features.schema import Layout
from kaboost.models.features.values import READERS
from kaboost.models.types import Ints, Mat, ModelError, Vec, short_repr

FIRST_VALUES = 200  # of a feature, after which its kind is closed
MAX_VALUES = 2_000  # the same, where misfits are many
MISFIT_VALUES = 10  # values for every misfit, before a kind is closed
BLOCK = 256  # events that are looked at together
SEEN, CLOSED = 0, 4  # columns of counts; between them misfits by the class of the value


class Evidence(NamedTuple):
    """What the first values of f inferred features were, in the order of the schema."""

    counts: Ints  # (f, 5) values, misfits that are numbers, booleans, texts, and 1 where closed
    numbers: Mat  # (f, FIRST_VALUES) the first numbers, NaN for those still to come
    missing: Vec  # (f,) the number that stands for a missing value, NaN for none


class Change(NamedTuple):
    """What a table says of kinds."""

    rows: int  # events before the change
    kinds: Mapping[str, str]  # other kinds of features, from then on
    closed: frozenset[str]  # features whose kinds do not change any more
    identifiers: tuple[str, ...]  # of these, numbers that may name things


class OpenFeatures(NamedTuple):
    """The open features of a layout, arranged so that few values among many columns cost little."""

    rows: dict[str, int]  # in the evidence
    columns: tuple[tuple[list[str], Ints], tuple[list[str], Ints]]  # of numbers and of booleans
    categories: list[tuple[str, int]]


def open_features(rows: dict[str, int], known: Layout) -> OpenFeatures:
    """Return the open features of a layout by their rows in the evidence."""
    places: dict[str, list[tuple[str, int]]] = {kind: [] for kind in known.counts}
    for name in rows:
        kind, j = known.places[name]
        places[kind].append((name, j))
    numbers, booleans = (
        ([name for name, _ in places[kind]], np.array([j for _, j in places[kind]], np.int64))
        for kind in ("number", "boolean")
    )
    return OpenFeatures(rows, (numbers, booleans), places["category"])


class _Cell(NamedTuple):
    name: str
    value: Any
    fits: bool


def no_evidence(features: int) -> Evidence:
    """Return the evidence of features without any value."""
    return Evidence(
        np.zeros((features, 5), np.int64),
        np.full((features, FIRST_VALUES), np.nan),
        np.full(features, np.nan),
    )


def extended(evidence: Evidence, features: int) -> Evidence:
    """Return a copy of the evidence for more features."""
    more = no_evidence(features)
    for old, new in zip(evidence, more, strict=True):
        new[: len(old)] = old
    return more


def still_open(evidence: Evidence, inferred: list[str]) -> frozenset[str]:
    """Return the inferred features whose kinds may be corrected."""
    closed = evidence.counts[:, CLOSED]
    return frozenset(
        name for name, is_closed in zip(inferred, closed, strict=True) if not is_closed
    )


def take(
    evidence: Evidence,
    features: OpenFeatures,
    known: Layout,
    events: tuple[Table, Vec],
    part: BatchSlice,
) -> Change:
    """Count the values of a table up to the first event that changes something.

    Parameters
    ----------
    evidence
        Its arrays change in place.
    features
        The open ones.
    known, events
        The features of B events, and weights (B,): events of weight 0 say nothing.
    part
        Where the events stand in a larger batch, for messages.

    Raises
    ------
    ModelError
        For a misfit of a kind that is closed by then.
    """
    table, w = events
    places = features.rows
    closed = {name for _, name, _ in table.odd} - places.keys()
    for k, cells in _by_event(features, known, table, closed):
        for name, value, fits in cells:
            if not fits and name in closed:
                _refuse(name, known.kinds[name], value, part.place(part.first + k))
        if not w[k] > 0.0:
            continue
        kinds = _outvoted(evidence, places, known, cells)
        if kinds:
            return Change(k, kinds, frozenset(closed), ())
        names, has_code = list[str](), False
        for cell in cells:
            row = places[cell.name]
            if cell.name not in closed and _count(evidence, row, known.kinds[cell.name], cell):
                closed.add(cell.name)
                names += _close(evidence, row, cell.name, known, kinds)
                has_code |= bool(evidence.missing[row] == evidence.missing[row])
        if kinds or names or has_code:
            return Change(k + 1, kinds, frozenset(closed), tuple(names))
    return Change(len(w), {}, frozenset(closed), ())


def give_up(evidence: Evidence, row: int) -> None:
    """Close a kind that cannot be corrected, as memory does not suffice."""
    evidence.counts[row, CLOSED] = 1


def _by_event(
    features: OpenFeatures, known: Layout, table: Table, closed: set[str]
) -> Iterator[tuple[int, list[_Cell]]]:
    """Yield the events that have values of open features, until none is open."""
    last_odd = max((k for k, _, _ in table.odd), default=-1)
    for first in range(0, len(table.numbers), BLOCK):
        if first > last_odd and features.rows.keys() <= closed:
            return
        cells = _cells(features, known, slice_table(table, first, first + BLOCK))
        yield from ((first + k, cells[k]) for k in sorted(cells))


def _cells(features: OpenFeatures, known: Layout, table: Table) -> dict[int, list[_Cell]]:
    """Return the values of open features that are there, by event."""
    odd = {(k, name) for k, name, _ in table.odd}
    cells: dict[int, list[_Cell]] = {}
    for k, name, value in table.odd:
        kind = known.kinds[name]
        if not is_misfit(value, kind):
            continue
        fits = kind == "category" and speaks_for(value) == TEXT
        cells.setdefault(k, []).append(_Cell(name, value, fits))
    for (names, places), group in zip(
        features.columns, (table.numbers, table.booleans), strict=True
    ):
        columns = group[:, places]
        for k, j in np.argwhere(columns == columns).tolist():
            if (k, names[j]) not in odd:
                cells.setdefault(k, []).append(_Cell(names[j], columns[k, j], fits=True))
    for name, j in features.categories:
        for k, value in enumerate(table.categories[j]):
            if value is not None and (k, name) not in odd:
                cells.setdefault(k, []).append(_Cell(name, value, fits=True))
    return cells


def _refuse(name: str, kind: str, value: object, place: str) -> NoReturn:
    try:
        READERS[kind](value)
    except ValueError as error:
        raise ModelError(f"features.{name}{place}: {error}{DECLARE}") from error
    raise ModelError(f"features.{name}{place}: {short_repr(value)} is not a {kind}{DECLARE}")


def _outvoted(
    evidence: Evidence, places: Mapping[str, int], known: Layout, cells: list[_Cell]
) -> dict[str, str]:
    """Return the other kinds that the misfits of one event bring about, and swap their counts."""
    kinds = {}
    for name, value, fits in cells:
        if fits:
            continue
        row, kind, found = places[name], known.kinds[name], speaks_for(value)
        assert found is not None
        counts = evidence.counts[row]
        other = _majority(counts, kind, found, _only_truth(evidence.numbers[row], value))
        if other != kind:
            kinds[name] = other
            counts[CLASS_OF_KIND[kind]] = counts[SEEN] - counts[NUMBER : TEXT + 1].sum()
            counts[CLASS_OF_KIND[other]] = 0
    return kinds


def _majority(counts: Ints, kind: str, found: int, only_truth: bool) -> str:
    """Return the kind of a feature after one more misfit of a class; `only_truth` says whether all
    numbers are 0 or 1.
    """
    fitting = int(counts[SEEN] - counts[NUMBER : TEXT + 1].sum())
    votes = {one: int(counts[one]) + (one == found) for one in (NUMBER, BOOLEAN, TEXT)}
    others = votes[NUMBER] + votes[BOOLEAN]
    if kind == "category":
        if others < 2 * fitting:
            return kind
        return "number" if votes[NUMBER] else "boolean"
    if found == TEXT:
        return "category" if votes[TEXT] > fitting + others else kind
    if kind == "boolean":  # numbers hold booleans as well
        return "boolean" if only_truth and votes[NUMBER] <= fitting else "number"
    return "boolean" if only_truth and votes[BOOLEAN] >= 2 * fitting else kind


def _only_truth(numbers: Vec, value: object) -> bool:
    """Return whether the first numbers of a feature and a further value are all 0 or 1."""
    known = numbers[numbers == numbers]
    return bool(np.isin(known, (0.0, 1.0)).all()) and value in (0, 1)


def _count(evidence: Evidence, row: int, kind: str, cell: _Cell) -> bool:
    """Count a value; return whether its feature's kind closes."""
    counts = evidence.counts[row]
    found = speaks_for(cell.value)
    if found == NUMBER and counts[SEEN] < FIRST_VALUES:
        evidence.numbers[row, counts[SEEN]] = cell.value
    counts[SEEN] += 1
    if not cell.fits:
        counts[found] += 1
    # Booleans among numbers, and 0 and 1 among booleans, are read without loss.
    misfits = int(counts[NUMBER] + counts[BOOLEAN] if kind == "category" else counts[TEXT])
    most = min(MAX_VALUES, max(FIRST_VALUES, MISFIT_VALUES * misfits))
    if counts[SEEN] < most:
        return False
    counts[CLOSED] = 1
    return True


def _close(
    evidence: Evidence, row: int, name: str, known: Layout, kinds: dict[str, str]
) -> list[str]:
    """Note the last change of a kind; return the feature if its numbers may name things."""
    if known.kinds[name] != "number":
        return []
    values = evidence.numbers[row]
    values = values[values == values]
    if len(values) < MIN_CODES:
        return []
    code = missing_code(values)
    evidence.missing[row] = code
    found = are_names(values[values != code])
    if found == "category":
        kinds[name] = "category"
    return [name] if found == "unsure" else []
