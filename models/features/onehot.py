"""The one-hot encoder: named features of an event to a float vector (docs/encoding.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.features.categories import CACHE_SIZE, MISSING, ValueSlots
from kaboost.models.features.datetimes import CLOCK_FIELDS, fill_cycles
from kaboost.models.features.schema import Schema, layout, names_by_kind, parse_schema
from kaboost.models.features.texts import BUCKETS, Buckets, log_counts
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import Ints, Mat, ModelError, Vec

NUMBER_LIMIT = 1e150  # squares of differences stay finite, so no statistic ever becomes inf or nan
SCORE_LIMIT = 1e6  # of the encoded number, in standard deviations
HASHED_CODES = 8  # codes 1..8: values that came after all value codes were taken, by hash
VALUE_CODES = 23  # codes 9..31: the first distinct values, in order of first sight
CODES = 1 + HASHED_CODES + VALUE_CODES  # columns of one category; code 0 is missing
CYCLES = 2 * len(CLOCK_FIELDS)  # columns of one datetime: a sine and a cosine of every clock field
EMPTY = np.empty((0, 0))


class Table(NamedTuple):
    """Features of B events, grouped by kind, every group in the order of the schema."""

    numbers: Mat  # (B, n) NaN where missing, otherwise finite
    booleans: Mat  # (B, b) 1.0 or 0.0, NaN where missing
    categories: Sequence[Sequence[str | None]]  # c columns of B values
    times: Mat = EMPTY  # (B, t) seconds of the wall clock since 1970, NaN where missing
    texts: Sequence[Sequence[str | None]] = ()  # columns of B texts
    # Values of open features that are of another class: event, feature, value. The groups above
    # have them read as well as they can be.
    odd: Sequence[tuple[int, str, Any]] = ()


def slice_table(table: Table, first: int, last: int) -> Table:
    """Return the events [first, last) of a table, numbers as views.

    Examples
    --------
    >>> table = Table(np.ones((9, 2)), np.empty((9, 0)), [["a", "b", "c"] * 3])
    >>> slice_table(table, 3, 5).categories
    [['a', 'b']]
    """
    numbers, booleans, categories, times, texts, odd = table
    return Table(
        numbers[first:last],
        booleans[first:last],
        [column[first:last] for column in categories],
        times[first:last],
        [column[first:last] for column in texts],
        [(k - first, name, value) for k, name, value in odd if first <= k < last],
    )


def empty_columns(table: Table) -> list[bool]:
    """Return whether all values are missing, for every column of a table of at least one event.

    Examples
    --------
    >>> empty_columns(Table(np.array([[1.0, np.nan]]), np.empty((1, 0)), [["a"], [None]]))
    [False, True, False, True]
    """
    numbers, booleans, categories, times, texts, _ = table
    every = np.logical_and.reduce
    n, b, t = (every(np.isnan(part), axis=0).tolist() for part in (numbers, booleans, times))
    c, v = ([all(x is None for x in column) for column in part] for part in (categories, texts))
    return [*n, *b, *c, *t, *v]


class EncoderState(NamedTuple):
    """Everything the encoder has learned; snapshots and checkpoints hold it."""

    seen: Vec  # (n,) values of every number so far; float64 as they are divisors
    mean: Vec  # (n,)
    m2: Vec  # (n,) sum of squared differences from the mean (Welford)
    keys: NDArray[np.uint64]  # (c, 23) hash of every value that has a code, in order of first sight
    known: Ints  # (c,) how many of them are used


class Encoder:
    """Encode named features as vectors, by statistics that an event updates after its encoding.

    Parameters
    ----------
    schema
        Feature name to kind: `number`, `boolean`, `category`, `datetime` or `text`.
    state
        State to continue from; a new one by default.

    Raises
    ------
    ModelError
        For an empty schema or an unknown kind.

    References
    ----------
    B. P. Welford, Note on a method for calculating corrected sums of squares and products,
    Technometrics 4 (1962).

    Examples
    --------
    >>> encoder = Encoder({"age": "number", "vip": "boolean"})
    >>> table = Table(np.array([[10.0], [30.0], [40.0]]), np.array([[1.0], [0.0], [np.nan]]), [])
    >>> encoder.learn_many(table, np.ones(3)).tolist()
    [[0.0, 1.0], [0.0, -1.0], [2.0, 0.0]]
    """

    shared = range(VALUE_CODES, VALUE_CODES + HASHED_CODES)  # slots of later values
    infers = False  # whether it can infer the kinds of undeclared features
    reserved = 0  # columns to keep, where features may be added

    def __init__(self, schema: Mapping[str, str] | Schema | str, state: Any = None) -> None:
        self.schema = schema if isinstance(schema, Schema) else parse_schema(schema)
        if self.schema.auto and not self.infers:
            raise ModelError(
                "features: kinds are inferred for the bank reboosted_trees only; name every "
                "feature and its kind, or take that bank"
            )
        self.kinds = self.schema.kinds
        self.layout = layout(self.kinds, self.schema.inferred, self.schema.open)
        groups = names_by_kind(self.kinds)
        self.numbers, self.booleans, self.categories, self.times, self.texts = groups
        self.state = self.initial_state(self.schema) if state is None else state
        self.columns = self.columns_of(self.schema)
        self.buckets = Buckets()
        cache_size = CACHE_SIZE // max(1, len(self.categories))
        self._values = [
            ValueSlots(self.state.keys[i], self.state.known[i : i + 1], self.shared, cache_size)
            for i in range(len(self.categories))
        ]

    @property
    def width(self) -> int:
        """Length d of an encoded vector, with the columns reserved for new features at its end."""
        return max(self.reserved, len(self.columns))

    @property
    def categorical_columns(self) -> Ints:
        """The columns that hold codes of categories: none, they are one-hot."""
        return np.empty(0, np.int64)

    def encode_many(self, table: Table) -> Mat:
        """Encode events with the current statistics; the state does not change.

        Parameters
        ----------
        table
            Features of B events.

        Returns
        -------
        Mat
            X (B, d), C-contiguous.
        """
        codes = np.empty((len(self._values), len(table.numbers)), np.int64)
        for known, values, out in zip(self._values, table.categories, codes, strict=True):
            known.encode(values, out)
        return self.fill(table, codes)

    def learn_many(self, table: Table, w: Vec, y: Vec | None = None, far: float = math.inf) -> Mat:
        """Encode every event by the statistics before it; if its weight is positive, update them.

        Parameters
        ----------
        table
            Features of B events, in stream order.
        w
            Weights (B,).
        y
            Labels (B,): numbers, or indices of classes; only the encoder for trees uses them.
        far
            Labels farther from the mean label than this many typical distances update no
            statistic; infinite for classes.

        Returns
        -------
        Mat
            X (B, d), C-contiguous.
        """
        codes = np.empty((len(self._values), len(table.numbers)), np.int64)
        for known, values, out in zip(self._values, table.categories, codes, strict=True):
            known.learn(values, w, out)
        return self.fill(table, codes, w, y, far)

    def capture(self, table: Table) -> tuple[Mat, Ints]:
        """Encode events whose labels come later, and learn what needs no label.

        Returns
        -------
        tuple
            X (B, d), and the slots of their category values (B, c) for `learn_labels`.
        """
        codes, w = (
            np.empty((len(self._values), len(table.numbers)), np.int64),
            np.ones(len(table.numbers)),
        )
        for known, values, out in zip(self._values, table.categories, codes, strict=True):
            known.learn(values, w, out)
        return self.fill_captured(table, codes), np.ascontiguousarray(codes.T)

    # What subclasses override.

    def current_codes(self, codes: Ints, width: int) -> Ints:
        """Return codes (B, c) of events that were captured with `width` columns as those of now."""
        return np.ascontiguousarray(codes)

    def fill_captured(self, table: Table, codes: Ints) -> Mat:
        """Return X (B, d) of events whose labels come later, and learn what needs no label."""
        return self.fill(table, codes, np.ones(len(table.numbers)))

    def learn_labels(
        self, X: Mat, codes: Ints, w: Vec, y: Vec, times: Vec, far: float = math.inf
    ) -> None:
        """Learn the labels of events that were captured; y and far are as for `learn_many`.

        `codes` (B, c) are the slots of their category values, `times` (B,) how many labels had been
        learned then. What X (B, d) has of labels is replaced by what is known now.
        """

    @staticmethod
    def initial_state(schema: Schema) -> Any:
        """Return the state before any event."""
        numbers, _, categories, _, _ = names_by_kind(schema.kinds)
        n, c = len(numbers), len(categories)
        return EncoderState(
            seen=np.zeros(n),
            mean=np.zeros(n),
            m2=np.zeros(n),
            keys=np.zeros((c, VALUE_CODES), np.uint64),
            known=np.zeros(c, np.int64),
        )

    @staticmethod
    def columns_of(schema: Schema) -> tuple[str, ...]:
        """Return the names of the columns of an encoded vector."""
        numbers, booleans, categories, times, texts = names_by_kind(schema.kinds)
        codes = ["missing"]
        codes += [f"other{i + 1}" for i in range(HASHED_CODES)] + [
            f"seen{i + 1}" for i in range(VALUE_CODES)
        ]
        waves = [f"{wave} of {field}" for field in CLOCK_FIELDS for wave in ("sine", "cosine")]
        return (
            *numbers,
            *booleans,
            *(f"{name}={code}" for name in categories for code in codes),
            *(f"{name} {wave}" for name in times for wave in waves),
            *(f"{name} words{i + 1}" for name in texts for i in range(BUCKETS)),
        )

    def fill(
        self,
        table: Table,
        codes: Ints,
        w: Vec | None = None,
        y: Vec | None = None,
        far: float = math.inf,
    ) -> Mat:
        """Return X (B, d) of B events; with weights (B,), update the state.

        `codes` (c, B) are the slots of category values; y and far are as for `learn_many`.
        """
        X = np.empty((len(table.numbers), self.width))
        if w is None:
            _encode_numbers(self.state, table.numbers, X)
        else:
            _learn_numbers(self.state, table.numbers, w, X)
        if self.booleans:
            _mark_booleans(table.booleans, X, len(self.numbers))
        if self.categories:
            _mark_codes(codes, X, len(self.numbers) + len(self.booleans))
        if self.times or self.texts:
            self._fill_times_and_texts(table, X)
        return X

    def _fill_times_and_texts(self, table: Table, X: Mat) -> None:
        """Fill the last columns of X (B, d): cycles of datetimes and word counts of texts."""
        words = self.width - BUCKETS * len(self.texts)
        if self.times:
            fill_cycles(table.times, X, words - CYCLES * len(self.times))
        for i, texts in enumerate(table.texts):
            self.buckets.count(texts, X, words + i * BUCKETS)
        if self.texts:
            log_counts(X, words)


@kernel
def _clip(value: float, limit: float) -> float:
    """Clip to +-limit; nan stays nan."""
    value = limit if value > limit else value
    return -limit if value < -limit else value


@kernel
def _encode_row(state: EncoderState, x: Vec, out: Vec) -> None:
    # No branches, here and in _update_row: so the compiler vectorises the loops over features.
    for j in range(x.shape[0]):
        delta = _clip(float(x[j]), NUMBER_LIMIT) - float(state.mean[j])
        count = float(state.seen[j])
        sd = math.sqrt(float(state.m2[j]) / (count if count > 1.0 else 1.0))
        score = _clip(delta / sd if sd > 0.0 else 0.0, SCORE_LIMIT)
        out[j] = score if delta == delta else 0.0


@kernel
def _update_row(state: EncoderState, x: Vec) -> None:
    for j in range(x.shape[0]):
        value = _clip(float(x[j]), NUMBER_LIMIT)
        mean = float(state.mean[j])
        count = float(state.seen[j])
        step = 1.0 if value == value else 0.0
        value = value if value == value else mean  # a missing value changes nothing: delta is 0
        delta = value - mean
        moved = mean + delta / (count + 1.0)
        state.m2[j] += delta * (value - moved)
        state.mean[j] = moved
        state.seen[j] = count + step


@kernel
def _encode_numbers(state: EncoderState, numbers: Mat, X: Mat) -> None:
    for k in range(numbers.shape[0]):
        _encode_row(state, numbers[k], X[k])


@kernel
def _learn_numbers(state: EncoderState, numbers: Mat, w: Vec, X: Mat) -> None:
    for k in range(numbers.shape[0]):
        _encode_row(state, numbers[k], X[k])
        if w[k] > 0.0:
            _update_row(state, numbers[k])


@kernel
def _mark_booleans(booleans: Mat, X: Mat, first: int) -> None:
    for k in range(booleans.shape[0]):
        for j in range(booleans.shape[1]):
            value = booleans[k, j]
            X[k, first + j] = 2.0 * value - 1.0 if value == value else 0.0


@kernel
def _mark_codes(codes: Ints, X: Mat, first: int) -> None:
    # A value has no column in its first event: a weight learned from one event would be noise.
    X[:, first : first + codes.shape[0] * CODES] = 0.0
    for i in range(codes.shape[0]):
        for k in range(codes.shape[1]):
            slot = codes[i, k]
            if slot >= MISSING:
                place = 1 + HASHED_CODES + slot if slot < VALUE_CODES else 1 + slot - VALUE_CODES
                X[k, first + i * CODES + (place if slot != MISSING else 0)] = 1.0
