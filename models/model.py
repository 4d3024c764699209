"""Model: a booster over rows of named features, with labels as callers write them, and files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from functools import cached_property
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kaboost.models.booster import capture_many
from kaboost.models.build import check
from kaboost.models.capacity import reserve_width
from kaboost.models.explain.reasons import Reason
from kaboost.models.features.checks import check_frame, check_rows, check_weights
from kaboost.models.features.columns import Columns
from kaboost.models.features.frames import as_labels, as_row, as_rows
from kaboost.models.features.labels import (
    AUTO,
    MAX_CLASSES,
    Label,
    Labels,
    class_array,
    encode_growing,
    encode_many,
)
from kaboost.models.features.new_features import Additions, find_new_features, split_rows
from kaboost.models.features.onehot import Encoder, Table, slice_table
from kaboost.models.features.predicted_rows import PredictedRow, PredictedRows, check_delay, room
from kaboost.models.features.rows import BatchSlice, recast, tabulate
from kaboost.models.features.schema import declared_features
from kaboost.models.model_picture import model_picture
from kaboost.models.model_table import model_table
from kaboost.models.state import file
from kaboost.models.table_model import Captured, TableModel, next_part, padded
from kaboost.models.types import Mat, ModelError, Vec, to_python


class Model(TableModel):
    """A booster over named features that learns labelled events one by one, in order.

    Labels may come late: the last predicted rows are remembered, and a row whose label is learned
    after labels of other rows teaches what its prediction could know (docs/late-labels.md).

    Parameters
    ----------
    task
        `regression`, `binary` or `multiclass`.
    spec
        Model specification; None is the default model of the task.
    features
        Feature name to `number`, `boolean`, `category`, `datetime` or `text`; or `auto`, which
        infers one of the first three from a feature's first value. `"*": "auto"` in a mapping
        infers the kinds of the features that it does not name.
    labels
        Classes, the negative one first for binary. None means 0 and 1 (or false and true) for
        binary, and is refused for multiclass. `auto`, for multiclass: classes are learned as they
        come, in order of first sight (docs/events.md); before the first one the prediction is None.
    max_classes
        How many of them at most, 2 to 1,000; 50 by default.

    Raises
    ------
    ModelError
        For an invalid specification, schema or list of labels.

    Examples
    --------
    >>> model = Model(features={"age": "number", "vip": "boolean"}, labels=["stays", "leaves"])
    >>> model.learn_one({"age": 31, "vip": True}, "stays")
    >>> model.predict_one({"age": 45, "vip": True})
    'stays'
    """

    def __repr__(self) -> str:
        """Show the task, the parts and the number of events."""
        rule, bank = self.spec["rule"]["kind"], self.spec["bank"]["kind"]
        return (
            f"Model({self.task!r}, rule {rule!r}, bank {bank!r}, {len(self.kinds)} features, "
            f"{int(self.booster.progress.events):,} events learned)"
        )

    def _repr_html_(self) -> str:
        """Show the task, the parts, the progressive loss and the most important features."""
        return model_table(self)

    def plot(self) -> Any:
        """Return a figure of matplotlib (extra `lab`): loss of every prefix, importance or edges.

        Raises
        ------
        ModelError
            If matplotlib is not installed, or no event was learned.
        """
        return model_picture(self)

    @property
    def progress(self) -> Any:
        """The progress: `events`, `mean_loss` of predictions made before learning, and more."""
        return self.booster.progress

    def fit(self, rows: Any, y: Any, w: Any = None) -> Self:
        """Learn rows in order with a new model of the same task, specification and features.

        Parameters
        ----------
        rows, y, w
            As for `learn_many`, which continues instead.

        Returns
        -------
        Self
            This model.

        Raises
        ------
        ModelError
            As for `learn_many`; what was learned before is gone.
        """
        if self.booster.progress.events:
            labels = AUTO if self.labels.is_open else self.classes_ or None
            most = self.labels.max_classes if self.labels.is_open else MAX_CLASSES
            schema = declared_features(self.encoder.schema)
            self.__init__(self.task, self.spec, schema, labels, most)  # type: ignore[misc]
            self.__dict__.pop("_predicted_rows", None)
        self.learn_many(rows, y, w)
        return self

    def predict(self, rows: Any) -> Any:
        """Return numbers or the most probable labels, (B,), as `predict_many`.

        Of a `Table`, as the service passes it, the scores (B, m).
        """
        return super().predict(rows) if isinstance(rows, Table) else self.predict_many(rows)

    def predict_proba(self, rows: Any) -> Mat:
        """Return probabilities (B, C) in the order of `classes_`, as `predict_proba_many`."""
        return self.predict_proba_many(rows)

    def learn_one(self, x: Mapping[str, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event: features `x`, label `y`, importance `w`."""
        self.learn_many([as_row(x)], [y], [w])

    def learn_many(self, rows: Any, y: Any, w: Any = None, *, delay: int = 0) -> Mat:
        """Learn events in order and return the predictions made before each was learned.

        Of a row that was predicted before labels of other rows were learned, it is that prediction.

        Parameters
        ----------
        rows
            B dicts, or a DataFrame of pandas, polars, pyarrow or what else narwhals knows.
        y
            Labels, (B,).
        w
            Importances >= 0, (B,); 1 for every event by default.
        delay
            How many rows later a label comes. A row is predicted without the labels of at least so
            many rows before it, and teaches what it could know; the last labels are learned at the
            end. 0: every label comes before the next row.

        Returns
        -------
        Mat
            Numbers (B,), or probabilities (B, C) in the order of `classes_`; 0 before a class came.

        Raises
        ------
        ModelError
            For an invalid feature, label or importance; then nothing was learned.
        """
        rows, y = as_rows(rows), as_labels(y)
        check_rows(rows)
        weights = check_weights(np.ones(len(rows)) if w is None else w)
        encoded, labels = encode_growing(self.labels, y, weights)
        if not len(rows) == len(encoded) == len(weights):
            importances = "" if w is None else f", {len(weights)} importances in w"
            raise ModelError(
                f"y: {len(encoded)} labels{importances} for {len(rows)} rows; pass as many of each"
            )
        auto, kinds = self.encoder.schema.auto, self.encoder.kinds
        additions = find_new_features(kinds, rows, weights) if auto else []
        table = None if additions else self._tabulate(rows)  # raises before anything is learned
        if table is None or table.odd:
            self._check_kinds(rows, weights, additions)
        self.check_classes(labels)
        if delay:
            return self._learn_delayed(rows, np.asarray(y), weights, check_delay(delay))
        predicted = []
        for part, place, new in split_rows(rows, additions):
            span = slice(place.first, place.first + len(part))
            part_table = self._tabulate(part, place) if table is None else table
            predicted += self.learn_classes(part_table, encoded[span], weights[span], labels)
            if new:
                self.add_features(new)
        self._predicted_rows.labels += 1
        if self.identifiers:
            self._warn_of_identifiers()
        return self._joined(predicted)

    def _joined(self, predicted: list[Mat]) -> Mat:
        """Return predictions one after the other, those of classes added meanwhile 0 before."""
        if self.labels.is_open:
            predicted = [padded(part, len(self.classes_), 0.0) for part in predicted]
        return np.concatenate(predicted)

    def learn_classes(self, table: Table, y: Vec, w: Vec, labels: Labels) -> list[Mat]:
        """Learn events, and add each class before its first one; `labels` has all of them."""
        predicted: list[Mat] = []
        first, B = 0, len(y)
        while (C := len(self.classes_)) < len(labels.classes):
            new = np.flatnonzero(y[first:] >= C)  # the first one has a weight above 0
            if not len(new):
                break
            if new[0]:
                span = slice(first, first + int(new[0]))
                part = slice_table(table, span.start, span.stop)
                predicted += self._learn_table(part, y[span], w[span])
                first = span.stop
            self.add_class(labels.classes[C])
        if first == 0:
            return predicted + self._learn_table(table, y, w)
        return predicted + self._learn_table(slice_table(table, first, B), y[first:], w[first:])

    def check_classes(self, labels: Labels) -> None:
        """Raise for more classes than memory suffices for, before any event is learned."""
        count = len(labels.classes)
        if count > len(self.classes_) and not self.affords_classes(count):
            raise ModelError(
                f"y: brings {count} classes, and bank.max_memory does not suffice for them; begin "
                "a new model with more"
            )

    def _learn_table(self, table: Table, y: Vec, w: Vec) -> list[Mat]:
        """Learn events, and correct inferred kinds between them; return the predictions."""
        if not self.encoder.schema.open:
            return self._learn_as_predicted(table, y, w)
        predicted: list[Mat] = []
        for part, span in self.parts(table, w):
            predicted += self._learn_as_predicted(part, y[span], w[span])
        return predicted

    def _warn_of_identifiers(self) -> None:
        """Warn of numbers that may name things, once for each."""
        for name in self.identifiers:
            warnings.warn(
                f"features.{name}: its values are large whole numbers in no order, most of them "
                "once: if they name things, start a new model with "
                f'features={{"{name}": "category", "*": "auto"}}, or leave them out',
                stacklevel=3,
            )
        self.identifiers = ()

    def _learn_delayed(self, rows: Any, y: NDArray[Any], w: Vec, delay: int) -> Mat:
        """Learn B checked events, each label `delay` rows or up to a sixteenth of them later."""
        B, step = len(rows), max(1, delay // 16)
        predicted = []
        for first in range(0, B + delay, step):
            if first < B:
                self._predict_and_remember(self._tabulate_known(rows[first : first + step]))
            due = slice(max(0, first - delay), max(0, first + step - delay))
            if len(y[due]):
                predicted.append(self.learn_many(rows[due], y[due], w[due]))
        return self._joined(predicted)

    def _learn_as_predicted(self, table: Table, y: Vec, w: Vec) -> list[Mat]:
        """Learn events, those with late labels as they were predicted; return the predictions."""
        rows = self._predicted_rows.pop(table)
        if not any(rows):
            return [self.learn_part(table, y, w).predictions]
        predicted: list[Mat] = []
        for size, run in groupby(range(len(rows)), lambda k: _size(rows[k])):
            places = [*run]
            first, last = places[0], places[-1]
            span = slice(first, last + 1)
            part = slice_table(table, first, last + 1)
            if size == (0, 0):
                outcome = self.learn_part(part, y[span], w[span])
            else:
                late = [row for row in (rows[k] for k in places) if row is not None]
                X, parts, scores = (np.array(values) for values in zip(*late, strict=True))
                _, codes = self.encoder.capture(part)
                X = padded(X, len(self.encoder.columns), np.nan)
                outcome = self.learn_captured(Captured(X, codes, parts, scores), y[span], w[span])
            predicted.append(outcome.predictions)
        return predicted

    def predict_one(self, x: Mapping[str, Any]) -> Label:
        """Return the number or the most probable label for features `x`."""
        predicted: Label = to_python(self.predict_many([as_row(x)])[0])
        return predicted

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Label, float]:
        """Return the probability of every label for features `x`."""
        return dict(
            zip(self.classes_, self.predict_proba_many([as_row(x)])[0].tolist(), strict=True)
        )

    def predict_many(self, rows: Any) -> NDArray[Any]:
        """Return numbers or the most probable labels, (B,)."""
        predicted = self.predictions(self._predict_and_remember(self._tabulate_known(rows)))
        if self.task == "regression":
            return predicted
        if not self.classes_:
            return np.full(len(predicted), None)
        labels: NDArray[Any] = class_array(self.classes_)[self.classify(predicted)]
        return labels

    def predict_proba_many(self, rows: Any) -> Mat:
        """Return probabilities (B, C) in the order of `classes_`.

        Raises
        ------
        ModelError
            For a regression and for the loss hinge, which have no probabilities.
        """
        if not self.has_probabilities:
            subject = "a regression" if self.task == "regression" else "the loss hinge"
            raise ModelError(f"task: {subject} has no probabilities; call predict_many")
        return self.predictions(self._predict_and_remember(self._tabulate_known(rows)))

    def predict_interval_one(self, x: Mapping[str, Any], level: float = 0.9) -> tuple[float, float]:
        """Return the interval that holds the label for features `x` with probability `level`."""
        low, high = self.predict_interval_many([as_row(x)], level)[0].tolist()
        return low, high

    def predict_interval_many(self, rows: Any, level: float = 0.9) -> Mat:
        """Return low and high (B, 2), between which a label lies with probability `level`.

        The coverage holds over the stream, also after a drift, but not for every kind of row.
        Before 20 events both ends are infinite.

        Raises
        ------
        ModelError
            For a classification, and for a level below 0.5 or above 0.99.

        Examples
        --------
        >>> model = Model("regression", features={"x": "number"})
        >>> y = [k % 7 for k in range(90)]
        >>> predicted = model.learn_many([{"x": value} for value in y], y)
        >>> low, high = model.predict_interval_one({"x": 3}, 0.9)
        >>> low < 3.0 < high
        True
        """
        predicted = self.predictions(self._predict_and_remember(self._tabulate_known(rows)))
        return self.intervals_around(predicted, level)

    def explain_one(self, x: Mapping[str, Any], label: Label | None = None) -> Reason:
        """Return the explanation of the score of features `x`; see `explain_many`."""
        return self.explain_many([as_row(x)], label)[0]

    def explain_many(self, rows: Any, label: Label | None = None) -> list[Reason]:
        """Return the explanation of the score of every event, (B,).

        Parameters
        ----------
        rows
            B dicts, or a DataFrame.
        label
            The class whose score is explained, where there are several; by default the predicted
            class of each event. Two classes have one score, that of the positive one.

        Raises
        ------
        ModelError
            For a bank whose scores cannot be explained, and for an unknown label.
        """
        if self.task == "multiclass" and not self.classes_:
            raise ModelError("labels: no class is known yet; learn an event first")
        explained = self.explain(self._tabulate_known(rows))
        if label is not None:
            if self.task == "regression":
                raise ModelError("label: a regression has one score, without a label; leave it out")
            (chosen,) = encode_many(self.labels, [label]).astype(np.int64)
        if self.task != "multiclass":
            return [reason for (reason,) in explained]
        if label is not None:
            return [of_classes[chosen] for of_classes in explained]
        scores = np.array([[reason.score for reason in of_classes] for of_classes in explained])
        predicted = self.classify(self.predictions(scores))
        return [of_classes[k] for of_classes, k in zip(explained, predicted, strict=True)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a file, by a temporary file in the same folder.

        Raises
        ------
        ModelError
            When `path` is a folder or its folder does not exist.
        """
        file.save(path, self.to_arrays(), self.describe())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the model of a file; it continues exactly where it stopped.

        Raises
        ------
        FormatError
            For a file that is damaged or holds no model.
        """
        return cls.from_arrays(*file.load(path))

    @cached_property
    def _predicted_rows(self) -> PredictedRows:
        return PredictedRows()

    def _predict_and_remember(self, table: Table) -> Mat:
        """Return the scores (B, m) of B events, and remember the last ones for late labels."""
        if self.serving_only:
            scored: Mat = self.predict(table)
            return scored
        B = len(table.numbers)
        first = max(0, B - room(self.encoder.width))
        scores = [self.predict(slice_table(table, 0, first))] if first else []
        for part in self.chunks(slice_table(table, first, B)):
            X = self.encoder.encode_many(part)
            predicted, parts = capture_many(self.booster, X)
            self._predicted_rows.add(part, X[:, : len(self.encoder.columns)], parts, predicted)
            # Of classes to come there is a score, but no prediction.
            known = len(self.classes_) if self.labels.is_open else predicted.shape[1]
            scores.append(predicted[:, :known])
        return np.concatenate(scores)

    def _tabulate_known(self, rows: Any) -> Table:
        """Return the known features of rows to predict."""
        rows = as_rows(rows)
        check_frame(self.encoder.kinds, rows)
        return self._tabulate(rows)

    def _tabulate(self, rows: Any, part: BatchSlice | None = None) -> Table:
        return tabulate(self.encoder.layout, rows, lenient=self.encoder.schema.auto, part=part)

    def _check_kinds(self, rows: Any, w: Vec, additions: Additions) -> None:
        """Raise for rows that cannot be learned with their new features and corrected kinds, before
        any is learned.
        """
        encoder = self.encoder
        if isinstance(encoder, Columns):
            encoder = encoder.copied()
        for part, place, new in split_rows(rows, additions):
            table = tabulate(encoder.layout, part, lenient=True, part=place)
            encoder = _rehearse(encoder, table, w[place.first : place.first + len(part)], place)
            if new:
                assert isinstance(encoder, Columns)
                encoder = encoder.extended(new)
        m = self._memory_shares
        check(self.spec, reserve_width(self.spec, len(encoder.columns), m), m)


def _rehearse(encoder: Encoder, table: Table, w: Vec, place: BatchSlice) -> Encoder:
    """Return the encoder after the evidence of a table, as if memory sufficed for all kinds."""
    while isinstance(encoder, Columns) and encoder.schema.open:
        _, change, table = next_part(encoder, table, w, place)
        w, place = w[change.rows :], place._replace(first=place.first + change.rows)
        if change.kinds:
            before = encoder.layout
            encoder = encoder.extended(change.kinds)
            table = recast(table, before, encoder.layout)
        elif not len(w):
            break
    return encoder


def _size(row: PredictedRow | None) -> tuple[int, int]:
    """Return how many numbers a predicted row and its captured parts have; 0 for none."""
    return (0, 0) if row is None else (len(row.X), len(row.parts))
