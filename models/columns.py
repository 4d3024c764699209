"""The encoder for trees: named features of an event to columns as they are, missing ones as NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.encoding import Encoder, Table
from models.types import LABEL_LIMIT, Ints, Mat, Vec
from models.values import MISSING, NEW
from models.verbs import kernel

SLOTS = 4_096  # values of one category that have a mean of their own; the others share by hash
PRIOR = 10.0  # events that the mean of all labels counts for in a value's mean
MEMORY = 2_000.0  # events that a value's mean remembers, so that it follows a drift


class ColumnsState(NamedTuple):
    """What is known of every category: all that a snapshot or a checkpoint keeps."""

    keys: NDArray[np.uint64]  # (c, SLOTS) hash of each value that has a slot, in order of sight
    known: Ints  # (c,) slots taken
    mean: Mat  # (c, SLOTS) running mean of the labels that came with it
    weight: Mat  # (c, SLOTS) their weight, MEMORY at most
    label: Vec  # (2,) running mean of all labels, and their weight, MEMORY at most


class Columns(Encoder):
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

    shared = range(SLOTS)

    @staticmethod
    def fresh(n: int, c: int) -> ColumnsState:
        """Return the state that has seen nothing of c categories."""
        return ColumnsState(
            keys=np.zeros((c, SLOTS), np.uint64),
            known=np.zeros(c, np.int64),
            mean=np.zeros((c, SLOTS)),
            weight=np.zeros((c, SLOTS)),
            label=np.zeros(2),
        )

    @staticmethod
    def columns_of(categories: Sequence[str]) -> list[str]:
        """Return the names of the two columns of every category."""
        return [f"{name} {what}" for name in categories for what in ("mean label", "order")]

    def fill(self, table: Table, codes: Ints, w: Vec | None, y: Vec | None) -> Mat:
        """Return X (B, d), NaN where missing, of events with slots (c, B); with weights (B,), the
        means learn the labels (B,).
        """
        X, first = np.empty((len(table.numbers), self.width)), len(self.numbers)
        X[:, :first] = table.numbers
        X[:, first : first + len(self.booleans)] = table.booleans
        first += len(self.booleans)
        if w is None:
            _encode(self.state, codes, X, first)
        else:
            _learn(self.state, codes, np.zeros(len(X)) if y is None else y, w, X, first)
        return X


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
