"""`kaboost.replay`: evaluate a `Model` on rows in memory, each predicted before it is learned."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from kaboost.models.features.frames import as_labels, as_row, as_rows
from kaboost.models.features.labels import is_missing
from kaboost.models.model import Model
from kaboost.models.types import ModelError, Vec, to_python
from kaboost.service.events.metadata import read_time
from kaboost.service.lab.interrupts import Interrupts
from kaboost.service.lab.other_models import make_other_models
from kaboost.service.lab.recording import Recording
from kaboost.service.lab.result import Result
from kaboost.service.lab.summary import Origin, figures
from kaboost.service.onboarding.columns import Column
from kaboost.service.onboarding.plan import hint
from kaboost.service.onboarding.roles import classes, guess_task

BATCH = 1000  # rows learned in one call
SAMPLE_ROWS = 1000  # that decide about the task of an iterable

Spec = Mapping[str, Any]


def replay(
    rows: Any,
    model: Model | Spec | None = None,
    *,
    label: str | None = None,
    y: Any = None,
    w: Any = None,
    task: str | None = None,
    timestamp: str | None = None,
    against: Sequence[str] | str = (),
    slices: Sequence[str] = (),
) -> Result:
    """Learn rows in order, each predicted before it is learned, and return what was measured.

    Parameters
    ----------
    rows
        A DataFrame of pandas, polars or pyarrow, or an iterable of dicts, which need not end in
        memory.
    model
        A `Model`, which learns the rows and may have learned before; or the specification of a
        new one; None is the default model.
    label
        The column of the labels; or pass them as `y`.
    y, w
        Labels and importances (B,), where they are no columns.
    task
        `binary`, `multiclass` or `regression`, for a new model; by default what the first labels
        suggest.
    timestamp
        The column of the events' time, which is then no feature.
    against
        Other models, such as `lightgbm` or `river:forest.ARFClassifier`.
    slices
        Features whose values are reported apart.

    Raises
    ------
    ModelError
        If a column is missing, or a row cannot be learned.
    ConfigError
        For an unknown other model or slice.

    Examples
    --------
    >>> rows = [{"x": k % 5, "late": k % 5 > 2} for k in range(200)]
    >>> result = replay(rows, label="late")
    >>> result.losses["model"] < result.losses["prior"]
    True
    """
    begin = time.perf_counter()
    if (label is None) == (y is None):
        raise ModelError("label, y: pass the name of a column, or the labels, and not both")
    stream = _Stream(rows, label, timestamp, as_labels(y), w)
    if not isinstance(model, Model):
        model = stream.new_model(model, task)
    names = [against] if isinstance(against, str) else list(against)
    recording = Recording(model, make_other_models(names, model.task), slices)
    model.observer = recording.observe
    partial, learned = False, 0.0
    try:
        with Interrupts() as interrupts:
            for features, labels, weights, at in stream.batches():
                start = time.perf_counter()
                recording.event_times = at
                with interrupts.held():
                    model.learn_many(features, labels, weights)
                learned += time.perf_counter() - start
                if interrupts.asked:
                    partial = True
                    break
            recording.check_slices()
    except KeyboardInterrupt:
        partial = True
    finally:
        model.observer = None
    apart = sum(recording.other_model_seconds.values())
    origin = Origin(
        "rows", stream.count, Counter(), {}, Counter(), time.perf_counter() - begin,
        learned - apart, partial, (),
    )  # fmt: skip
    return Result(figures(model, recording, origin), model)


class _Stream:
    """Rows with their labels, weights and times, in batches."""

    def __init__(self, rows: Any, label: str | None, timestamp: str | None, y: Any, w: Any) -> None:
        self._label, self._timestamp = label, timestamp
        self._y = None if y is None else iter(y)
        self._w = None if w is None else iter(np.asarray(w, np.float64))
        self._rows = _dicts(rows)
        self._first = list(islice(self._rows, SAMPLE_ROWS))
        if not self._first:
            raise ModelError("rows: there are none; pass at least one")
        self._first_y = self._take_labels(self._first)
        self.count = 0

    def new_model(self, spec: Spec | None, task: str | None) -> Model:
        """Return a model for the first labels."""
        column = Column("label", ("label",), self._first_y)
        task = task or guess_task(column)
        labels: Any = "auto" if task == "multiclass" else classes(column, task)
        return Model(task, spec, "auto", labels)

    def batches(self) -> Iterator[tuple[list[dict[str, Any]], list[Any], Vec | None, Vec]]:
        """Yield features, labels, weights and times."""
        known: Iterable[Any] = iter(self._first_y)
        rows = chain(self._first, self._rows)
        while batch := list(islice(rows, BATCH)):
            labels = list(islice(known, len(batch)))
            labels += self._take_labels(batch[len(labels) :])
            weights = None if self._w is None else np.array([*islice(self._w, len(batch))])
            self.count += len(batch)
            yield [self._features(row) for row in batch], labels, weights, self._times(batch)

    def _take_labels(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        if self._y is not None:
            return [to_python(value) for value in islice(self._y, len(rows))]
        label, found = str(self._label), []
        for row in rows:
            if label not in row or is_missing(row[label]):
                names = [str(name) for name in row]
                raise ModelError(f"label: a row has no {label!r}; {hint(label, names)}")
            found.append(to_python(row[label]))
        return found

    def _features(self, row: Mapping[str, Any]) -> dict[str, Any]:
        gone = (self._label, self._timestamp)
        return {name: value for name, value in row.items() if name not in gone}

    def _times(self, rows: Sequence[Mapping[str, Any]]) -> Vec:
        if self._timestamp is None:
            return np.full(len(rows), np.nan)
        return np.array([_seconds(row.get(self._timestamp)) for row in rows])


def _dicts(rows: Any) -> Iterator[Mapping[str, Any]]:
    """Return rows of any kind as dicts, one after another."""
    rows = as_rows(rows)
    if hasattr(rows, "iloc"):  # of pandas
        return _of_pandas(rows)
    return (as_row(row) for row in rows)


def _of_pandas(frame: Any) -> Iterator[Mapping[str, Any]]:
    for first in range(0, len(frame), BATCH):
        part = frame.iloc[first : first + BATCH]
        present = part.notna().to_numpy()
        names = [str(name) for name in part.columns]
        columns = [part.iloc[:, j].tolist() for j in range(len(names))]
        for k, row in enumerate(zip(*columns, strict=True)):
            yield {n: v for n, v, there in zip(names, row, present[k], strict=True) if there}


def _seconds(value: Any) -> float:
    moment = read_time(to_python(value))
    if moment is None:
        return np.nan
    return moment / 1e3 if isinstance(moment, float) else moment.timestamp()
