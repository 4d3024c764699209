"""The encoder for trees: named features of an event to raw columns, NaN where missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.features.categories import MISSING, NEW
from kaboost.models.features.datetimes import CLOCK_FIELDS, fill_clock_fields
from kaboost.models.features.evidence import (
    Change,
    Evidence,
    give_up,
    no_evidence,
    open_features,
    still_open,
    take,
)
from kaboost.models.features.evidence import extended as extended_evidence
from kaboost.models.features.label_outliers import FIRST_LABELS, replace_outliers
from kaboost.models.features.lateness import MAX_LATENESS, next_lateness
from kaboost.models.features.onehot import Encoder, Table
from kaboost.models.features.rows import BatchSlice
from kaboost.models.features.schema import Schema, names_by_kind
from kaboost.models.features.texts import BUCKETS
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import LABEL_LIMIT, Ints, Mat, Mat3, Vec

VALUE_SLOTS = 4_096  # values of a category with separate means; later ones share by hash
PRIOR_WEIGHT = 10.0  # events: weight of the mean of all labels in a value's encoding
OTHERS = 2  # place of `ColumnsState.class_weights`
EVENTS, MEAN_LATENESS = 0, 1  # of `ColumnsState.lateness`
MEMORY_EVENTS = 2_000.0  # memory of a value's mean, so that it follows drift
COLUMN_SUFFIXES: dict[str, tuple[str, ...]] = {  # suffixes of the columns of a feature
    "number": ("",),
    "boolean": ("",),
    "category": (" mean label", " order"),
    "datetime": tuple(f" {field}" for field in CLOCK_FIELDS),
    "text": tuple(f" words{i + 1}" for i in range(BUCKETS)),
}
WIDTHS = {kind: len(suffixes) for kind, suffixes in COLUMN_SUFFIXES.items()}


class ColumnsState(NamedTuple):
    """Target statistics of every category; snapshots and checkpoints hold them."""

    keys: NDArray[np.uint64]  # (c, SLOTS) hash of every value that has a slot, in order
    known: Ints  # (c,) slots taken
    mean: Mat  # (c, SLOTS) running mean of its labels
    weight: Mat  # (c, SLOTS) their weight, at most MEMORY_EVENTS
    by_class: Mat3  # (2, c, SLOTS) weight of its events with label 0, with 1; older ones count less
    class_weights: Vec  # (3,) the same of all events; then that of events with any other label
    label: Vec  # (3,) running mean of all labels, their weight, mean distance from the mean
    lateness: Vec  # (2,) labels learned so far; running mean of how late they come
    first: Vec  # (n,) first labels of a regression, NaN for those still to come


class Columns(Encoder):
    """Encode named features as columns for trees, which need no scaling and no one-hot.

    A number is itself, a boolean 0 or 1, NaN where missing. A category is two columns: the mean
    label of its value so far, shrunk to the mean of all labels while it is rare (ordered target
    encoding: no event sees its own label), and the order of its first sight. A
    datetime is three columns, hour, weekday and month, a text the counts of its words by hash.

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
    Prokhorenkova, Gusev, Vorobev, Dorogush, Gulin, CatBoost: unbiased boosting with categorical
    features, 2018, section 3.2 (ordered target statistics).

    Examples
    --------
    >>> columns = Columns({"age": "number", "city": "category"})
    >>> table = Table(np.array([[30.0], [40.0]]), np.empty((2, 0)), [["Faro", "Faro"]])
    >>> columns.learn_many(table, np.ones(2), np.array([1.0, 1.0])).tolist()
    [[30.0, 0.0, -1.0], [40.0, 1.0, 0.0]]
    """

    shared = range(VALUE_SLOTS)
    infers = True

    def __init__(self, schema: Mapping[str, str] | Schema | str, state: Any = None) -> None:
        super().__init__(schema, state)
        self.places: dict[str, int] = {}  # the first column of each feature
        self.retired: list[tuple[str, int, int]] = []  # columns without values: feature, span
        at, last = 0, dict[str, int]()
        for name, kind in _order(self.schema):
            if name in self.places:
                self.retired.append((name, self.places[name], last[name]))
            self.places[name], at = at, at + WIDTHS[kind]
            last[name] = at
        self._numbers, self._booleans, self._categories, self._times, self._texts = (
            np.array([self.places[name] for name in names], np.int64)
            for names in names_by_kind(self.kinds)
        )
        self.with_evidence(no_evidence(len(self.schema.inferred)))

    @property
    def categorical_columns(self) -> Ints:
        """The columns that hold codes of categories, in order of first sight."""
        return self._categories + 1

    def extended(self, new: Mapping[str, str]) -> Columns:
        """Return the encoder with new features at the end, or other kinds of inferred ones, and the
        same state for all else.
        """
        return self.with_schema(self.schema.with_inferred(new))

    def with_declared(self, new: Mapping[str, str]) -> Columns:
        """Return the encoder with new declared features, whose columns are the last ones."""
        columns = (*_order(self.schema), *new.items())
        return self.with_schema(
            self.schema._replace(kinds={**self.schema.kinds, **new}, history=columns)
        )

    def with_schema(self, schema: Schema) -> Columns:
        """Return the encoder of a schema with the same features and more, and the same state."""
        fresh = self.initial_state(schema)
        categories = list(names_by_kind(schema.kinds))[2]
        pairs = [(i, categories.index(n)) for i, n in enumerate(self.categories) if n in categories]
        before, after = ([pair[side] for pair in pairs] for side in (0, 1))
        for name in ("keys", "known", "mean", "weight"):
            getattr(fresh, name)[after] = getattr(self.state, name)[before]
        fresh.by_class[:, after] = self.state.by_class[:, before]
        of_all = ("class_weights", "label", "lateness", "first")
        state = fresh._replace(**{name: getattr(self.state, name) for name in of_all})
        return Columns(schema, state).with_evidence(self.evidence)

    def with_evidence(self, evidence: Evidence) -> Columns:
        """Return the encoder, which goes on from evidence for its inferred kinds."""
        features = len(self.schema.inferred)
        same = len(evidence.counts) == features
        self.evidence = evidence if same else extended_evidence(evidence, features)
        self._note_open(still_open(self.evidence, self.schema.inferred))
        return self

    def copied(self) -> Columns:
        """Return an encoder that may take evidence and be extended without any trace in this."""
        inferred = len(self.schema.inferred)
        return Columns(self.schema, self.state).with_evidence(
            extended_evidence(self.evidence, inferred)
        )

    def take_evidence(self, table: Table, w: Vec, part: BatchSlice) -> Change:
        """Count the values of open features up to the first event that changes a kind.

        The change itself is not made; parameters and errors are those of `evidence.take`.
        """
        change = take(self.evidence, self._open, self.layout, (table, w), part)
        if change.closed:
            self._note_open(self.schema.open - change.closed)
        return change

    def keep_kinds(self, names: Iterable[str]) -> None:
        """Close kinds that cannot be corrected."""
        for name in names:
            give_up(self.evidence, self._evidence_rows[name])
        self._note_open(self.schema.open - set(names))

    def current_codes(self, codes: Ints, width: int) -> Ints:
        """Return codes (B, c) of events that were captured with `width` columns as those of now."""
        if codes.shape[1] == len(self.categories) and not self.schema.history:
            return np.ascontiguousarray(codes)
        kinds, at = dict[str, str](), 0
        for name, kind in _order(self.schema):
            at += WIDTHS[kind]
            if at <= width:
                kinds[name] = kind
        before = list(names_by_kind(kinds))[2]
        found = np.full((len(codes), len(self.categories)), MISSING, codes.dtype)
        for j, name in enumerate(self.categories):
            if name in before:
                found[:, j] = codes[:, before.index(name)]
        return found

    def _note_open(self, names: frozenset[str]) -> None:
        self.schema = self.schema._replace(open=names)
        self.layout = self.layout._replace(open=names)
        inferred = self.schema.inferred
        self._evidence_rows = {name: k for k, name in enumerate(inferred)}
        rows = {name: k for k, name in enumerate(inferred) if name in names}
        self._open = open_features(rows, self.layout)
        with_code = np.flatnonzero(self.evidence.missing == self.evidence.missing)
        of_numbers = {name: j for j, name in enumerate(self.numbers)}
        self._missing_codes = [
            (of_numbers[inferred[k]], float(self.evidence.missing[k]))
            for k in with_code.tolist()
            if inferred[k] in of_numbers
        ]

    @staticmethod
    def initial_state(schema: Schema) -> ColumnsState:
        """Return the state before any event."""
        c = len(list(names_by_kind(schema.kinds))[2])
        return ColumnsState(
            keys=np.zeros((c, VALUE_SLOTS), np.uint64),
            known=np.zeros(c, np.int64),
            mean=np.zeros((c, VALUE_SLOTS)),
            weight=np.zeros((c, VALUE_SLOTS)),
            by_class=np.zeros((2, c, VALUE_SLOTS)),
            class_weights=np.zeros(3),
            label=np.zeros(3),
            lateness=np.zeros(2),
            first=np.full(FIRST_LABELS, np.nan),
        )

    @staticmethod
    def columns_of(schema: Schema) -> tuple[str, ...]:
        """Return the names of the columns of an encoded vector, without the reserved ones."""
        named: list[str] = []
        for name, kind in _order(schema):
            named += [name + suffix for suffix in COLUMN_SUFFIXES[kind]]
        return tuple(named)

    def fill(
        self,
        table: Table,
        codes: Ints,
        w: Vec | None = None,
        y: Vec | None = None,
        far: float = math.inf,
    ) -> Mat:
        """Return X (B, d), NaN where missing; with weights (B,), update the means.

        `codes` (c, B) are the slots of category values; y and far are as for `learn_many`.
        """
        X = np.full((len(table.numbers), self.width), np.nan)
        _place(table.numbers, self._numbers, X)
        for j, code in self._missing_codes:
            column = X[:, self._numbers[j]]
            column[column == code] = math.nan
        _place(table.booleans, self._booleans, X)
        if self.times:
            fill_clock_fields(table.times, X, self._times)
        for texts, place in zip(table.texts, self._texts.tolist(), strict=True):
            self.buckets.count(texts, X, place)
        if w is None:
            _encode(self.state, codes, X, self._categories)
        else:
            labels = np.zeros(len(X)) if y is None else y
            self._learn((codes, labels, w, np.empty(0), X, self._categories), far)
        return X

    def fill_captured(self, table: Table, codes: Ints) -> Mat:
        """Return X (B, d) of events whose labels come later."""
        return self.fill(table, codes)

    def learn_labels(
        self, X: Mat, codes: Ints, w: Vec, y: Vec, times: Vec, far: float = math.inf
    ) -> None:
        """Learn the labels of events that were captured; y and far are as for `learn_many`.

        The mean labels in X (B, d) become those of now, as in the rows that are predicted now.
        `times` (B,) are how many labels had been learned when an event was captured.
        """
        known, c = np.where(codes <= NEW, NEW - codes, codes), len(self._categories)
        now = np.empty((len(codes), 2 * c))
        events = (np.ascontiguousarray(known.T), y, w, times, now, 2 * np.arange(c))
        self._learn(events, far)
        means = np.where(codes >= 0, now[:, ::2], X[:, self._categories])
        X[:, self._categories] = means

    def _learn(self, events: tuple[Ints, Vec, Vec, Vec, Mat, Ints], far: float) -> None:
        """Update the means by codes (c, B), labels, weights, times of capture (B or 0,), and fill
        the columns of X (B, d).
        """
        _, labels, w, _, X, _ = events
        early = 0
        if far < math.inf and math.isnan(self.state.first[-1]):
            early = self._keep_first_labels(labels, w)
            _learn(self.state, events, math.inf, (0, early))
            self._replace_first_outliers()
        _learn(self.state, events, far, (early, len(X)))

    def _keep_first_labels(self, labels: Vec, w: Vec) -> int:
        """Keep those of labels (B,) that are among the first of positive weight; return the number
        of events up to the last of them.
        """
        first = self.state.first
        known = int(np.count_nonzero(~np.isnan(first)))
        places = np.flatnonzero(w > 0.0)[: len(first) - known]
        kept = np.clip(labels[places], -LABEL_LIMIT, LABEL_LIMIT)
        first[known : known + len(places)] = kept
        return int(places[-1]) + 1 if len(places) else 0

    def _replace_first_outliers(self) -> None:
        """Reset the statistics once all first labels are known, if one of them is an outlier."""
        state = self.state
        if math.isnan(state.first[-1]) or not replace_outliers(state.first):
            return
        mean = float(state.first.mean())
        state.mean[:], state.weight[:] = 0.0, 0.0
        state.label[:] = mean, len(state.first), abs(state.first - mean).mean()


def _order(schema: Schema) -> Iterable[tuple[str, str]]:
    """Return features and kinds in the order of their columns: by kind, or that of the schema where
    features may be added, so that earlier columns stay in place.
    """
    if schema.auto or schema.history:
        return schema.column_kinds
    return ((name, schema.kinds[name]) for name in chain(*names_by_kind(schema.kinds)))


def reserved_width(columns: int) -> int:
    """Return how many columns to allocate for `columns`: a multiple of 8, up to a quarter more.

    Examples
    --------
    >>> [reserved_width(n) for n in (0, 8, 9, 54, 100)]
    [8, 16, 16, 56, 120]
    """
    width = 8
    while width <= columns:
        width = -(-(5 * width) // 32) * 8
    return width


@kernel
def _place(values: Mat, places: Ints, X: Mat) -> None:
    """Copy values (B, n) to the columns `places` (n,) of X (B, d)."""
    for k in range(values.shape[0]):
        for j in range(places.shape[0]):
            X[k, places[j]] = values[k, j]


@kernel
def _show(state: ColumnsState, i: int, code: int, row: Vec, place: int) -> None:
    """Fill the two columns of a category: mean label and order of its value."""
    row[place], row[place + 1] = math.nan, math.nan
    balanced = state.lateness[MEAN_LATENESS] > MAX_LATENESS and state.class_weights[OTHERS] == 0.0
    if code >= 0:
        share = state.weight[i, code] / (state.weight[i, code] + PRIOR_WEIGHT)
        mean = state.label[0] + share * (state.mean[i, code] - state.label[0])
        row[place] = _balanced_mean(state, i, code) if balanced else mean
        row[place + 1] = float(code)
    elif code != MISSING:
        row[place], row[place + 1] = 0.5 if balanced else state.label[0], -1.0


@kernel
def _balanced_mean(state: ColumnsState, i: int, code: int) -> float:
    """Return the mean label of a value if both classes were equally frequent, shrunk to 1/2.

    Where labels come late, those of one class come together, and a mean of labels would tell which
    class is being learned. How frequent a value is within each class does not depend on that.
    """
    n0, n1 = float(state.by_class[0, i, code]), float(state.by_class[1, i, code])
    all0, all1 = float(state.class_weights[0]), float(state.class_weights[1])
    if all0 == 0.0 or all1 == 0.0:
        return 0.5
    prior = PRIOR_WEIGHT / (all0 + all1)  # in events of the usual mixture
    share0, share1 = n0 / all0 + prior, n1 / all1 + prior
    return share1 / (share0 + share1)


@kernel
def _encode(state: ColumnsState, codes: Ints, X: Mat, places: Ints) -> None:
    for k in range(X.shape[0]):
        for i in range(codes.shape[0]):
            _show(state, i, codes[i, k], X[k], places[i])


@kernel
def _is_far(state: ColumnsState, label: float, far: float) -> bool:
    """Return whether a label is farther from the mean label than `far` typical distances.

    If so, the typical distance grows by half, so that a shift of all labels is followed.
    """
    typical = float(state.label[2])
    known = typical > 0.0 and not math.isnan(state.first[state.first.shape[0] - 1])
    if not known or abs(label - state.label[0]) <= far * typical:
        return False
    state.label[2] = 1.5 * typical
    return True


@kernel
def _learn(
    state: ColumnsState,
    events: tuple[Ints, Vec, Vec, Vec, Mat, Ints],
    far: float,
    span: tuple[int, int],
) -> None:
    codes, y, w, times, X, places = events
    for k in range(span[0], span[1]):
        label = min(max(y[k], -LABEL_LIMIT), LABEL_LIMIT)
        learns = w[k] > 0.0 and not _is_far(state, label, far)
        if w[k] > 0.0:
            _follow_lateness(state, times, k)
        for i in range(codes.shape[0]):
            code = codes[i, k]
            _show(state, i, code, X[k], places[i])
            slot = NEW - code if code <= NEW else code
            if learns and slot >= 0:
                _learn_value(state, i, slot, label, w[k])
        if learns:
            weight, off = min(state.label[1] + w[k], MEMORY_EVENTS), label - state.label[0]
            step = min(w[k] / weight, 1.0)
            state.label[2] += step * (abs(off) - state.label[2])
            state.label[0] += step * off
            state.label[1] = weight
            _count_class(state, label, w[k])


@kernel
def _learn_value(state: ColumnsState, i: int, slot: int, label: float, w: float) -> None:
    """Move the mean of a value towards a label, and count it in its class."""
    weight = min(state.weight[i, slot] + w, MEMORY_EVENTS)
    step = min(w / weight, 1.0)
    state.mean[i, slot] += step * (label - state.mean[i, slot])
    state.weight[i, slot] = weight
    if label == 0.0 or label == 1.0:
        state.by_class[int(label), i, slot] += w


@kernel
def _count_class(state: ColumnsState, label: float, w: float) -> None:
    """Count a label; halve all counts of its class where they are many, so that they follow."""
    if label != 0.0 and label != 1.0:
        state.class_weights[OTHERS] += w
        return
    k = int(label)
    state.class_weights[k] += w
    if state.class_weights[k] > 2.0 * MEMORY_EVENTS:
        factor = MEMORY_EVENTS / state.class_weights[k]
        state.class_weights[k] = MEMORY_EVENTS
        for i in range(state.by_class.shape[1]):
            for slot in range(state.by_class.shape[2]):
                state.by_class[k, i, slot] *= factor


@kernel
def _follow_lateness(state: ColumnsState, times: Vec, k: int) -> None:
    """Count a label, and how late it comes; times is empty where all come at once."""
    events, mean = float(state.lateness[EVENTS]), float(state.lateness[MEAN_LATENESS])
    state.lateness[EVENTS] = events + 1.0
    if times.shape[0] > 0 or mean > 0.0:
        late = max(events - times[k], 0.0) if times.shape[0] > 0 else 0.0
        state.lateness[MEAN_LATENESS] = next_lateness(mean, late, events)
