"""The encoder for trees: named features of an event to columns as they are, missing ones as NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.encoding import MEMO, MEMO_LENGTH, Table, checked, hashed, of_kind
from models.types import LABEL_LIMIT, Ints, Mat, ModelError, Vec
from models.verbs import kernel

SLOTS = 4_096  # values of one category that have a mean of their own; the others share by hash
PRIOR = 10.0  # events that the mean of all labels counts for in a value's mean
MEMORY = 2_000.0  # events that a value's mean remembers, so that it follows a drift
MISSING, UNSEEN, NEW = -1, -2, -3  # no slot; none yet; the slot NEW - s from this event on
FORGOTTEN = -(2**40)  # not remembered: look further


class ColumnsState(NamedTuple):
    """What is known of every category: all that a snapshot or a checkpoint keeps."""

    keys: NDArray[np.uint64]  # (c, SLOTS) hash of each value that has a slot, in order of sight
    used: Ints  # (c,) slots taken
    mean: Mat  # (c, SLOTS) running mean of the labels that came with it
    weight: Mat  # (c, SLOTS) their weight, MEMORY at most
    label: Vec  # (2,) running mean of all labels, and their weight, MEMORY at most


class Columns:
    """Turn named features into columns for trees, which need no scale and no one-hot.

    A number is itself, a boolean 0 or 1, NaN where missing. A category is two columns: the mean
    label of its value so far, drawn to the mean of all labels while it is rare (target statistics
    in stream order, so that no event sees its own label), and the order of its first sight.

    Parameters
    ----------
    schema
        Feature name to kind: `number`, `boolean` or `category`.
    state
        Arrays to go on from; a fresh state without.

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

    def __init__(self, schema: Mapping[str, str], state: ColumnsState | None = None) -> None:
        self.schema = checked(schema)
        self.numbers, self.booleans, self.categories = of_kind(schema)
        self.state = _fresh(len(self.categories)) if state is None else state
        named = [f"{name} {what}" for name in self.categories for what in ("mean label", "order")]
        self.columns = (*self.numbers, *self.booleans, *named)
        room = MEMO // max(1, len(self.categories))
        self._slots = [
            _Slots(self.state.keys[i], self.state.used[i : i + 1], room)
            for i in range(len(self.categories))
        ]

    @property
    def width(self) -> int:
        """Length d of an encoded vector."""
        return len(self.columns)

    def encode_many(self, table: Table) -> Mat:
        """Encode events with the statistics as they stand.

        Parameters
        ----------
        table
            Features of B events.

        Returns
        -------
        Mat
            X (B, d), C-contiguous; NaN where missing.
        """
        X, codes = self._begin(table)
        for slots, values, out in zip(self._slots, table.categories, codes, strict=True):
            slots.encode(values, out)
        _encode(self.state, codes, X, self._first)
        return X

    def learn_many(self, table: Table, w: Vec, y: Vec | None = None) -> Mat:
        """Encode each event by the statistics before it; of positive weight, it then moves them.

        Parameters
        ----------
        table
            Features of B events, in stream order.
        w
            Weights (B,).
        y
            Labels (B,): numbers, or indices of classes; only categories need them.

        Returns
        -------
        Mat
            X (B, d), C-contiguous; NaN where missing.
        """
        X, codes = self._begin(table)
        for slots, values, out in zip(self._slots, table.categories, codes, strict=True):
            slots.learn(values, w, out)
        labels = np.zeros(len(X)) if y is None else y
        _learn(self.state, codes, labels, w, X, self._first)
        return X

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the state as named arrays, `encoder.mean` and so on; no copy."""
        return {f"encoder.{name}": array for name, array in self.state._asdict().items()}

    @classmethod
    def from_arrays(
        cls, schema: Mapping[str, str], arrays: Mapping[str, NDArray[np.generic]]
    ) -> Columns:
        """Return the encoder over these very arrays: read-only ones serve, but cannot learn.

        Raises
        ------
        ModelError
            For an array that is missing or does not fit the schema.
        """
        fresh = _fresh(list(schema.values()).count("category"))
        found = {name: arrays.get(f"encoder.{name}") for name in fresh._fields}
        for name, expected in fresh._asdict().items():
            array = found[name]
            if array is None or (array.shape, array.dtype) != (expected.shape, expected.dtype):
                raise ModelError(
                    f"encoder.{name}: missing, or not {expected.dtype}{list(expected.shape)} as "
                    "the schema needs; load it with its own schema"
                )
        return cls(schema, ColumnsState(**found))  # type: ignore[arg-type] # held by the checks

    @property
    def _first(self) -> int:
        return len(self.numbers) + len(self.booleans)

    def _begin(self, table: Table) -> tuple[Mat, Ints]:
        X = np.empty((len(table.numbers), self.width))
        X[:, : len(self.numbers)] = table.numbers
        X[:, len(self.numbers) : self._first] = table.booleans
        return X, np.empty((len(self._slots), len(X)), np.int64)


class _Memo(dict[str | None, int]):
    """Slots by value; they never change."""

    def __missing__(self, value: str | None) -> int:
        return FORGOTTEN


class _Slots:
    """Slots of one category's values; the look-ups are derived from the arrays of the state."""

    def __init__(self, keys: NDArray[np.uint64], used: Ints, room: int) -> None:
        self._keys, self._used, self._room = keys, used, room
        self._slots = {key: slot for slot, key in enumerate(keys[: used[0]].tolist())}
        self._memo = _Memo({None: MISSING})

    def encode(self, values: Sequence[str | None], out: Ints) -> None:
        """Fill out (B,) with the slot of every value; the state does not change."""
        for k in self._look_up(values, out):
            out[k] = self._slot(values[k])

    def learn(self, values: Sequence[str | None], w: Vec, out: Ints) -> None:
        """Fill out (B,) with the slots; a new value of positive weight gets one from this event
        on.
        """
        for k in self._look_up(values, out):  # in stream order: what is new to one is known to next
            slot = self._slot(values[k])
            if slot == UNSEEN and w[k] > 0.0:
                slot = NEW - self._register(values[k])
            out[k] = slot

    def _look_up(self, values: Sequence[str | None], out: Ints) -> list[int]:
        """Fill out with the slots that are remembered; list the places of all others."""
        out[:] = np.fromiter(map(self._memo.__getitem__, values), np.int64, len(values))
        return list(np.flatnonzero(out == FORGOTTEN).tolist())

    def _slot(self, value: str | None) -> int:
        key = hashed(value)
        full = len(self._slots) == SLOTS
        slot = self._slots.get(key, key % SLOTS if full else UNSEEN)
        if slot != UNSEEN:
            self._remember(value, slot)
        return slot

    def _register(self, value: str | None) -> int:
        key, slot = hashed(value), len(self._slots)
        self._keys[slot] = key
        self._used[0] = slot + 1
        self._slots[key] = slot
        self._remember(value, slot)
        return slot

    def _remember(self, value: str | None, slot: int) -> None:
        if len(self._memo) >= self._room:
            self._memo = _Memo({None: MISSING})
        if len(value or "") <= MEMO_LENGTH:
            self._memo[value] = slot


@kernel
def _show(state: ColumnsState, i: int, code: int, row: Vec, place: int) -> None:
    """Put mean label and order of a category's value into its two columns."""
    row[place], row[place + 1] = math.nan, math.nan
    if code >= 0:
        share = state.weight[i, code] / (state.weight[i, code] + PRIOR)
        row[place] = state.label[0] + share * (state.mean[i, code] - state.label[0])
        row[place + 1] = float(code)
    elif code != MISSING:
        row[place], row[place + 1] = state.label[0], -1.0


@kernel
def _encode(state: ColumnsState, codes: Ints, X: Mat, first: int) -> None:
    for k in range(X.shape[0]):
        for i in range(codes.shape[0]):
            _show(state, i, codes[i, k], X[k], first + 2 * i)


@kernel
def _learn(state: ColumnsState, codes: Ints, y: Vec, w: Vec, X: Mat, first: int) -> None:
    for k in range(X.shape[0]):
        label = min(max(y[k], -LABEL_LIMIT), LABEL_LIMIT)
        for i in range(codes.shape[0]):
            code = codes[i, k]
            _show(state, i, code, X[k], first + 2 * i)
            slot = NEW - code if code <= NEW else code
            if w[k] > 0.0 and slot >= 0:
                weight = min(state.weight[i, slot] + w[k], MEMORY)
                step = min(w[k] / weight, 1.0)
                state.mean[i, slot] += step * (label - state.mean[i, slot])
                state.weight[i, slot] = weight
        if w[k] > 0.0:
            weight = min(state.label[1] + w[k], MEMORY)
            state.label[0] += min(w[k] / weight, 1.0) * (label - state.label[0])
            state.label[1] = weight


def _fresh(c: int) -> ColumnsState:
    return ColumnsState(
        keys=np.zeros((c, SLOTS), np.uint64),
        used=np.zeros(c, np.int64),
        mean=np.zeros((c, SLOTS)),
        weight=np.zeros((c, SLOTS)),
        label=np.zeros(2),
    )
