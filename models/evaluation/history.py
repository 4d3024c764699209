"""History: the progressive losses over the whole life of a model, at evenly spaced events.

A point is taken when the number of events learned is a multiple of the stride. When the history is
full, every second point is dropped and the stride doubles. So the points depend on the events
alone, not on the batches in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.evaluation.baselines import PREDICTORS, ProgressiveValidation
from kaboost.models.types import Ints, Mat, Vec

CAPACITY = 20_480  # points; after thinning there are half as many
FIRST_STRIDE = 25  # events from a point to the next, until the first thinning
EVENT, TIME = range(2)  # columns of `History.when`
PREFIX = "history"  # of its arrays in a file


class History(NamedTuple):
    """Points in the order of their events; the first `size` rows are used."""

    when: Mat  # (20480, 2) events learned, and the latest event time in seconds since 1970
    losses: NDArray[np.float32]  # (20480, 6) mean losses of the predictors, then recent ones
    counts: Ints  # (2,) size and stride

    @property
    def size(self) -> int:
        """The number of points."""
        return int(self.counts[0])

    @property
    def stride(self) -> int:
        """Events from one point to the next."""
        return int(self.counts[1])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the used rows by name, as copies."""
        used = slice(self.size)
        return {
            f"{PREFIX}.when": self.when[used].copy(),
            f"{PREFIX}.losses": self.losses[used].copy(),
            f"{PREFIX}.counts": self.counts.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> History:
        """Return the history in these arrays; an empty one where they have none."""
        history = new_history()
        if f"{PREFIX}.counts" not in arrays:
            return history
        when, losses = arrays[f"{PREFIX}.when"], arrays[f"{PREFIX}.losses"]
        history.when[: len(when)], history.losses[: len(losses)] = when, losses
        history.counts[:] = arrays[f"{PREFIX}.counts"]
        return history

    def table(self) -> Mat:
        """Return all points (n, 8): event, time, and the losses."""
        when, losses = self.when[: self.size], self.losses[: self.size]
        return np.column_stack([when, losses.astype(np.float64)])


def new_history() -> History:
    """Return a history without points."""
    return History(
        when=np.zeros((CAPACITY, 2)),
        losses=np.zeros((CAPACITY, 2 * len(PREDICTORS)), np.float32),
        counts=np.array([0, FIRST_STRIDE], np.int64),
    )


def record_in_parts(
    history: History,
    seen: ProgressiveValidation,
    learned: int,
    w: Vec,
    record: Callable[[slice], None],
    time_of: Callable[[int], float],
) -> None:
    """Record B events in parts that end where a point is due, and take the points.

    Parameters
    ----------
    history
        Updated in place.
    seen
        The progressive validation that `record` updates.
    learned
        Events learned before these.
    w
        Importances, (B,); events of importance 0 do not count.
    record
        Records the events of a slice.
    time_of
        Returns the time of an event by its index, in seconds since 1970.

    Examples
    --------
    >>> from kaboost.models.evaluation.baselines import progressive_validation
    >>> from kaboost.models.features.labels import labels
    >>> history, seen = new_history(), progressive_validation(labels("regression"))
    >>> record_in_parts(history, seen, 40, np.ones(40), print, float)
    slice(0, 10, None)
    slice(10, 35, None)
    slice(35, 40, None)
    >>> history.when[: history.size].tolist()
    [[50.0, 9.0], [75.0, 34.0]]
    """
    begin = 0
    totals = learned + np.cumsum(w > 0.0)
    for end in _due(totals, learned, history.stride):
        record(slice(begin, end))
        begin = end
        _add(history, seen, int(totals[end - 1]), time_of(end - 1))
    if begin < len(w) or not len(w):
        record(slice(begin, len(w)))


def _due(totals: Ints, learned: int, stride: int) -> list[int]:
    """Return the ends of the parts after which a point is due."""
    reached = totals // stride
    ends: list[int] = (np.flatnonzero(np.diff(reached, prepend=learned // stride)) + 1).tolist()
    return ends


def _add(history: History, seen: ProgressiveValidation, event: int, time: float) -> None:
    if event % history.stride:
        return  # the stride has doubled meanwhile
    if history.size == CAPACITY:
        _thin(history)
        return _add(history, seen, event, time)
    place = history.size
    before = history.when[place - 1, TIME] if place else time
    history.when[place] = event, max(time, before)
    history.losses[place] = (*seen.mean_loss, *seen.window_loss)
    history.counts[0] += 1


def _thin(history: History) -> None:
    """Keep the points of twice the stride."""
    stride = 2 * history.stride
    kept = np.flatnonzero(history.when[: history.size, EVENT] % stride == 0)
    for rows in (history.when, history.losses):
        rows[: len(kept)] = rows[kept]
    history.counts[:] = len(kept), stride
