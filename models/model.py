"""Model: labels, encoder and booster in one, for people and for the service."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaboost.models.booster import (
    add_features,
    learn_many,
    losses,
    mark_categorical,
    predictions,
    score_many,
)
from kaboost.models.build import build, check, from_arrays, serving_arrays, to_arrays
from kaboost.models.evaluation import intervals as residual_intervals
from kaboost.models.evaluation.intervals import Intervals, update_many
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.explain.interface import REFUSAL, explain_many, gains
from kaboost.models.explain.reasons import Reason, Share, reasons, shares
from kaboost.models.features import labels as task_labels
from kaboost.models.features.columns import WIDTHS, Columns, reserved_width
from kaboost.models.features.label_outliers import OUTLIER_SPREADS
from kaboost.models.features.labels import Label
from kaboost.models.features.onehot import Encoder, Table, slice_table
from kaboost.models.features.rows import (
    BatchSlice,
    check_frame,
    check_rows,
    find_new_features,
    tabulate,
)
from kaboost.models.features.schema import AUTO, Schema, describe_schema, from_description
from kaboost.models.losses import LOSSES, has_probability
from kaboost.models.parts import BANKS
from kaboost.models.reboosted.component import rates
from kaboost.models.spec import normalise_spec
from kaboost.models.state import tree
from kaboost.models.state.format import Arrays, FormatError, pack, unpack
from kaboost.models.types import Ints, Mat, ModelError, Vec, as_float64, to_python
from kaboost.models.verbs import diagnostics, served_loss

CHUNK_NUMBERS = 1 << 17  # of encoded features predicted at once: they stay in a cache
SMALLEST_PROBABILITY = 1e-6  # of a label in its log-loss, as for votes


def encoder_of(spec: Mapping[str, Any]) -> type[Encoder]:
    """Return what encodes features for the bank of a filled-in specification."""
    return Columns if BANKS[spec["bank"]["kind"]].takes_raw_columns else Encoder


def _scores_are_votes(booster: Any) -> bool:
    """Return whether the rule's scores are votes, which have a log-loss of their own."""
    return served_loss.dispatch(type(booster.rule)) is not served_loss.dispatch(object)


class Model:
    """A booster over named features that learns labelled events one by one, in order.

    Parameters
    ----------
    task
        `regression`, `binary` or `multiclass`.
    spec
        Model specification; None is the default model of the task.
    features
        Feature name to `number`, `boolean`, `category`, `datetime` or `text`; or `auto`, which
        infers one of the first three from a feature's first value, as `"*": "auto"` does for those
        that a mapping does not name.
    labels
        Classes, the negative one first for binary. None is 0 and 1 (or false and true) there,
        and refused for multiclass.

    Raises
    ------
    ModelError
        For a specification, features or labels that cannot be.

    Examples
    --------
    >>> model = Model(features={"age": "number", "vip": "boolean"}, labels=["stays", "leaves"])
    >>> model.learn_one({"age": 31, "vip": True}, "stays")
    >>> model.predict_one({"age": 45, "vip": True})
    'stays'
    """

    def __init__(
        self,
        task: str = "binary",
        spec: Mapping[str, Any] | None = None,
        features: Mapping[str, str] | Schema | str = AUTO,
        labels: Sequence[Label] | None = None,
    ) -> None:
        self._describe(task, spec, features, labels)
        if self.encoder.schema.auto:
            self.encoder.reserved = self._reserved_width(len(self.encoder.columns))
        self.booster = build(self.spec, self.encoder.width, self.labels.m, task=task)
        mark_categorical(self.booster, self.encoder.categorical_columns)

    def _describe(
        self,
        task: str,
        spec: Mapping[str, Any] | None,
        features: Mapping[str, str] | Schema | str,
        labels: Sequence[Label] | None,
    ) -> None:
        """Set everything but the booster."""
        self.task = task
        self.labels = task_labels.labels(task, labels)
        self.spec = normalise_spec(spec, task)
        lowest = LOSSES[self.spec["loss"]["kind"]].traits.lowest_label
        self.labels = self.labels._replace(least=max(self.labels.least, lowest))
        self.encoder = encoder_of(self.spec)(features)
        self.intervals = _intervals(task)
        self.serving_only = False

    @property
    def classes_(self) -> tuple[Label, ...]:
        """The labels of a classification, in the order of its probabilities."""
        return self.labels.classes

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every feature so far, declared or inferred."""
        return dict(self.encoder.kinds)

    def __repr__(self) -> str:
        """Show the task, the parts, and how much was seen."""
        rule, bank = self.spec["rule"]["kind"], self.spec["bank"]["kind"]
        return (
            f"Model({self.task!r}, rule {rule!r}, bank {bank!r}, {len(self.kinds)} features, "
            f"{int(self.booster.progress.events):,} events learned)"
        )

    # What the service calls: encoded labels, grouped columns, whole batches.

    def learn(self, table: Table, y: Vec, w: Vec) -> Outcome:
        """Learn B events in order; return what was predicted before each was learned.

        Parameters
        ----------
        table
            Features of B events.
        y
            What `labels.encode` made of the labels, (B,).
        w
            Importances >= 0, (B,); at 0 an event is predicted and nothing moves.

        Raises
        ------
        ModelError
            When the model came from a snapshot, which holds only what a prediction needs.
        """
        if self.serving_only:
            raise ModelError(
                "model: its arrays only serve; load a checkpoint or a saved model to learn"
            )
        far = OUTLIER_SPREADS if self.task == "regression" else math.inf
        scores = learn_many(self.booster, self.encoder.learn_many(table, w, y, far), y, w)
        outcome = self.outcome(scores, y)
        if self.intervals is not None:
            update_many(self.intervals, outcome.predictions, y, w)
        return outcome

    def predict(self, table: Table) -> Mat:
        """Return the scores (B, m) of B events; nothing changes."""
        B, rows = len(table.numbers), max(1, CHUNK_NUMBERS // max(self.encoder.width, 1))
        if B <= rows:
            return score_many(self.booster, self.encoder.encode_many(table))
        parts = (slice_table(table, first, first + rows) for first in range(0, B, rows))
        return np.concatenate(
            [score_many(self.booster, self.encoder.encode_many(part)) for part in parts]
        )

    def predictions(self, scores: Mat) -> Mat:
        """Return what scores (B, m) stand for: numbers (B,), or probabilities (B, C) by class."""
        linked = predictions(self.booster, scores)
        if self.task == "binary" and not self.has_probabilities:
            linked = 0.5 + 0.5 * linked  # the sign, as certain as its size
        if self.task == "regression":
            return linked[:, 0]
        if self.task == "multiclass":
            return linked
        both = np.empty((len(linked), 2))
        both[:, 1] = linked[:, 0]
        both[:, 0] = 1.0 - both[:, 1]
        return both

    def intervals_around(self, predicted: Vec, level: float) -> Mat:
        """Return low and high (B, 2) around predictions (B,), so that `level` of all labels lie
        inside; infinite before 20 events.

        Raises
        ------
        ModelError
            For a classification, whose probabilities say it, and for a level below 0.5 or above
            0.99.
        """
        if self.intervals is None:
            raise ModelError(
                "interval: classes have none, their probabilities say how sure the model is; "
                "leave it out"
            )
        found = residual_intervals.bounds(self.intervals, predicted, level)
        if self.labels.least == 0.0:  # counts
            np.maximum(found, 0.0, out=found)
        return found

    @cached_property
    def has_probabilities(self) -> bool:
        """Whether classes get probabilities: every loss of classes but hinge gives them."""
        return self.task != "regression" and (
            has_probability(self.booster.loss) or _scores_are_votes(self.booster)
        )

    def add_features(self, found: Mapping[str, str]) -> None:
        """Take features into the schema, of kinds that were inferred.

        Raises
        ------
        ModelError
            There is no memory for so many features; then nothing changed.
        """
        assert isinstance(self.encoder, Columns)  # no other lets features join
        encoder = self.encoder.extended(found)
        encoder.reserved = self._reserved_width(len(encoder.columns))
        if encoder.width > int(self.booster.shape[0]):
            self.booster = add_features(self.booster, self.spec, encoder.width)
        self.encoder = encoder
        mark_categorical(self.booster, encoder.categorical_columns)

    def affordable_features(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return as many of the features as there is room for, the first ones.

        There is room while one more of the widest inferred kind fits into the memory of the bank:
        so it depends on what joined, not on how.
        """
        assert isinstance(self.encoder, Columns)
        before, room = len(self.encoder.columns), int(self.booster.shape[0])
        after = accumulate((WIDTHS[kind] for kind in found.values()), initial=before)
        needed = [width + WIDTHS["category"] for width in after][: len(found)]
        full = bisect_left(
            needed, True, key=lambda width: width > room and not self._fits_memory(width)
        )
        return dict(islice(found.items(), full))

    def outcome(self, scores: Mat, y: Vec) -> Outcome:
        """Return predictions, losses and errors of scores (B, m) for labels y (B,).

        Losses do not depend on the loss that is learned: half the square for numbers, log-loss for
        classes, without l2. A model without probabilities has the loss that it learns.
        """
        predicted = self.predictions(scores)
        losses, errors = self._losses_and_errors(scores, predicted, y)
        return Outcome(scores, predicted, losses, errors, self._positive_probability(predicted))

    def _losses_and_errors(self, scores: Mat, predicted: Mat, y: Vec) -> tuple[Vec, Vec]:
        if self.task == "regression":
            with np.errstate(over="ignore"):
                return 0.5 * (predicted - y) * (predicted - y), abs(predicted - y)
        errors = (self.classify(predicted) != y).astype(np.float64)
        log_loss = LOSSES[self.spec["loss"]["kind"]].traits.log_loss
        if log_loss or not self.has_probabilities or _scores_are_votes(self.booster):
            bare = self.booster._replace(loss=self.booster.loss._replace(l2=0.0))
            return losses(bare, scores, y), errors
        of_label = predicted[np.arange(len(y)), y.astype(np.int64)]
        return -np.log(np.clip(of_label, SMALLEST_PROBABILITY, 1.0)), errors

    def _positive_probability(self, predicted: Mat) -> Vec | None:
        if self.task != "binary" or not self.has_probabilities:
            return None
        return predicted[:, 1].copy()  # contiguous: kernels are compiled for one layout, not two

    def classify(self, probabilities: Mat) -> Ints:
        """Return the class index (B,) that probabilities (B, C) stand for.

        The likeliest, the first of equals; of two classes the positive one from 1/2 on, as
        sign(0) = +1 everywhere (specification, section 0).
        """
        positive: Ints = (probabilities[:, 1] >= 0.5).astype(np.int64)
        return positive if self.task == "binary" else probabilities.argmax(axis=1)

    @property
    def explicable(self) -> bool:
        """Whether scores can be explained: those of reboosted trees can."""
        return isinstance(self.encoder, Columns)

    def explain(self, table: Table) -> list[list[Reason]]:
        """Return why each of B events gets its scores, (B, m); nothing changes.

        Raises
        ------
        ModelError
            For a bank whose scores cannot be explained; the message names one that can.
        """
        encoder = self._columns()
        found = explain_many(self.booster, encoder.encode_many(table))
        return reasons(encoder, self._lag_rates(), found)

    def importance(self) -> list[Share]:
        """Return features and label lags by how much they matter to the model as it stands.

        A share is that of the variance which all cuts by a feature explain, over the events that
        each tree was grown from, in what the trees add to the score now.

        Raises
        ------
        ModelError
            For a bank without trees to ask; the message names one that has.
        """
        columns = self._columns()
        return shares(columns, self._lag_rates(), gains(self.booster))

    # What people call: dicts or a DataFrame, labels as they are.

    def learn_one(self, x: Mapping[str, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event: features `x`, label `y`, importance `w`."""
        self.learn_many([x], [y], [w])

    def learn_many(self, rows: Any, y: Any, w: Any = None) -> Mat:
        """Learn events in order and return what was predicted before each was learned.

        Parameters
        ----------
        rows
            B dicts, or a DataFrame.
        y
            Labels, (B,).
        w
            Importances >= 0, (B,); 1 where left out.

        Returns
        -------
        Mat
            Numbers (B,), or probabilities (B, C) in the order of `classes_`.

        Raises
        ------
        ModelError
            For a feature, label or importance that cannot be; then nothing was learned.
        """
        check_rows(rows)
        encoded = self._encode_labels(y)
        weights = _check_weights(np.ones(len(rows)) if w is None else w)
        if not len(rows) == len(encoded) == len(weights):
            importances = "" if w is None else f", {len(weights)} importances in w"
            raise ModelError(
                f"y: {len(encoded)} labels{importances} for {len(rows)} rows; pair them"
            )
        joining = (
            find_new_features(self.encoder.kinds, rows, weights) if self.encoder.schema.auto else []
        )
        if joining:
            self._check_joining(rows, joining)
        predicted, first = [], 0
        for k, found in [*joining, (len(rows), {})]:
            part = rows.iloc[first:k] if hasattr(rows, "iloc") else rows[first:k]
            table = self._tabulate(part, BatchSlice(first, len(rows)))
            outcome = self.learn(table, encoded[first:k], weights[first:k])
            predicted.append(outcome.predictions)
            if found:
                self.add_features(found)
            first = k
        return np.concatenate(predicted)

    def predict_one(self, x: Mapping[str, Any]) -> Label:
        """Return the number or the likeliest label for features `x`."""
        predicted: Label = to_python(self.predict_many([x])[0])
        return predicted

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Label, float]:
        """Return the probability of every label for features `x`."""
        return dict(zip(self.classes_, self.predict_proba_many([x])[0].tolist(), strict=True))

    def predict_many(self, rows: Any) -> NDArray[Any]:
        """Return numbers or the likeliest labels, (B,)."""
        predicted = self.predictions(self.predict(self._tabulate_known(rows)))
        if self.task == "regression":
            return predicted
        labels: NDArray[Any] = _array(self.classes_)[self.classify(predicted)]
        return labels

    def predict_proba_many(self, rows: Any) -> Mat:
        """Return probabilities (B, C) in the order of `classes_`.

        Raises
        ------
        ModelError
            For a regression and for the loss hinge, which have none.
        """
        if not self.has_probabilities:
            what = "a regression" if self.task == "regression" else "the loss hinge"
            raise ModelError(f"task: {what} has no probabilities; call predict_many")
        return self.predictions(self.predict(self._tabulate_known(rows)))

    def predict_interval_one(self, x: Mapping[str, Any], level: float = 0.9) -> tuple[float, float]:
        """Return low and high, between which labels for features `x` lie with that probability."""
        low, high = self.predict_interval_many([x], level)[0].tolist()
        return low, high

    def predict_interval_many(self, rows: Any, level: float = 0.9) -> Mat:
        """Return low and high (B, 2), between which a label lies with probability `level`.

        The share holds over the stream, also after a drift, not for every single kind of row.
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
        predicted = self.predictions(self.predict(self._tabulate_known(rows)))
        return self.intervals_around(predicted, level)

    def explain_one(self, x: Mapping[str, Any], label: Label | None = None) -> Reason:
        """Return why features `x` get their score; see `explain_many`."""
        return self.explain_many([x], label)[0]

    def explain_many(self, rows: Any, label: Label | None = None) -> list[Reason]:
        """Return why events get their scores.

        Parameters
        ----------
        rows
            B dicts, or a DataFrame.
        label
            Of several classes the one whose score is meant; the predicted one of each event where
            left out. Two classes have one score, that of the positive one.

        Raises
        ------
        ModelError
            For a bank whose scores cannot be explained, and a label that there is none of.
        """
        found = self.explain(self._tabulate_known(rows))
        if label is not None:
            if self.task == "regression":
                raise ModelError("label: a regression has one score, of no label; leave it out")
            (chosen,) = self._encode_labels([label]).astype(np.int64)
        if self.task != "multiclass":
            return [one for (one,) in found]
        if label is not None:
            return [each[chosen] for each in found]
        scores = np.array([[one.score for one in each] for each in found])
        return [
            each[k] for each, k in zip(found, self.classify(self.predictions(scores)), strict=True)
        ]

    # The state, and a file of it.

    def to_arrays(self) -> Arrays:
        """Return every array of the state by its dotted name; no copy."""
        return {**to_arrays(self.booster), **self._other_arrays()}

    def serving_arrays(self) -> Arrays:
        """Return the arrays that a prediction needs, and what the rule shows of itself; no copy."""
        shown = {f"shown.{name}": values for name, values in diagnostics(self.booster.rule).items()}
        return {**serving_arrays(self.booster), **self._other_arrays(), **shown}

    def describe(self) -> dict[str, Any]:
        """Return what the arrays alone do not say, as plain JSON values."""
        return {
            "task": self.task,
            "spec": self.spec,
            **describe_schema(self.encoder.schema),
            "labels": list(self.classes_),
        }

    @classmethod
    def describe_new(
        cls,
        task: str = "binary",
        spec: Mapping[str, Any] | None = None,
        features: Mapping[str, str] | Schema | str = AUTO,
        labels: Sequence[Label] | None = None,
    ) -> dict[str, Any]:
        """Return what `describe` returns of a new model, without building its booster.

        Examples
        --------
        >>> Model.describe_new("regression", features={"x": "number"})["schema"]
        [['x', 'number']]
        """
        model = cls.__new__(cls)
        model._describe(task, spec, features, labels)
        return model.describe()

    @classmethod
    def from_arrays(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Model:
        """Return the model over these very arrays; read-only or serving ones cannot learn.

        Raises
        ------
        ModelError
            When the arrays are not those of the description.
        """
        schema = from_description(description)
        task, spec, labels = (description[word] for word in ("task", "spec", "labels"))
        model = cls.__new__(cls)
        model._describe(task, spec, schema, labels or None)
        state = tree.from_arrays(model.encoder.state, arrays, "encoder")
        model.encoder = type(model.encoder)(schema, state)
        model.booster = from_arrays(model.spec, arrays)
        model.encoder.reserved = int(model.booster.shape[0])
        if model.intervals is not None and any(name.startswith("intervals.") for name in arrays):
            model.intervals = tree.from_arrays(model.intervals, arrays, "intervals")
        names = {**to_arrays(model.booster), **tree.to_arrays(state, "encoder")}
        model.serving_only = not all(
            name in arrays and arrays[name].flags.writeable for name in names
        )
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a file, by way of a temporary one beside it.

        Raises
        ------
        ModelError
            Where a folder stands in its place, or there is none to write to.
        """
        target = Path(path)
        if target.is_dir():
            raise ModelError(f"{path}: is a folder; name a file in it")
        if not target.parent.is_dir():
            raise ModelError(f"{path}: there is no folder {target.parent}; make it first")
        temporary = target.with_name(f".{target.name}.tmp")
        temporary.write_bytes(pack(self.to_arrays(), {"kind": "model", "model": self.describe()}))
        temporary.replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Return the model of a file; it goes on exactly where it stopped.

        Raises
        ------
        FormatError
            For a file that is damaged or holds no model.
        """
        try:
            header, arrays = unpack(Path(path).read_bytes())
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from error
        if "model" not in header:
            raise FormatError(
                f"{path}: holds no model; load a saved model, a snapshot or a checkpoint"
            )
        return cls.from_arrays(
            header["model"], {name: array.copy() for name, array in arrays.items()}
        )

    def _reserved_width(self, columns: int) -> int:
        """Return how many columns to keep for so many: as many more as memory has room for.

        Raises
        ------
        ModelError
            Where there is none for those there are, or something else is wrong with the model.
        """
        width = reserved_width(columns)
        if self._fits_memory(width):
            return width
        check(self.spec, columns or width, self.labels.m)
        widths = range(columns, width)  # as wide as fits: widening takes a tenth of a second
        return widths[bisect_left(widths, True, key=lambda n: not self._fits_memory(n)) - 1]

    def _fits_memory(self, width: int) -> bool:
        try:
            check(self.spec, width, self.labels.m)
        except ModelError:
            return False
        return True

    def _lag_rates(self) -> Sequence[float]:
        return rates("label_lags", self.spec["bank"].get("label_lags"))

    def _tabulate_known(self, rows: Any) -> Table:
        """Return the known features of rows to predict."""
        check_frame(self.encoder.kinds, rows)
        return self._tabulate(rows)

    def _tabulate(self, rows: Any, part: BatchSlice | None = None) -> Table:
        return tabulate(self.encoder.layout, rows, lenient=self.encoder.schema.auto, part=part)

    def _check_joining(self, rows: Any, joining: Sequence[tuple[int, Mapping[str, str]]]) -> None:
        """Raise what the features that come up in rows will raise, before anything is learned."""
        assert isinstance(self.encoder, Columns)
        schema, first = self.encoder.schema, 0
        for k, found in [*joining, (len(rows), {})]:
            part = rows.iloc[first:k] if hasattr(rows, "iloc") else rows[first:k]
            tabulate(schema.kinds, part, lenient=True, part=BatchSlice(first, len(rows)))
            schema, first = schema.with_inferred(found), k
        check(self.spec, self._reserved_width(len(Columns.columns_of(schema))), self.labels.m)

    def _other_arrays(self) -> Arrays:
        """Return the arrays of all but the booster."""
        arrays = tree.to_arrays(self.encoder.state, "encoder")
        if self.intervals is not None:
            arrays |= tree.to_arrays(self.intervals, "intervals")
        return arrays

    def _columns(self) -> Columns:
        if not isinstance(self.encoder, Columns):
            raise ModelError(REFUSAL)
        return self.encoder

    def _encode_labels(self, y: Any) -> Vec:
        try:
            given = list(y)
        except TypeError as error:
            kind = type(y).__name__
            raise ModelError(f"y: a {kind} is no list of labels; pass one label a row") from error
        found = np.empty(len(given))
        for k, label in enumerate(given):
            try:
                found[k] = self.labels.encode(to_python(label))
            except ValueError as error:
                raise ModelError(f"y[{k}]: {error}" if len(given) > 1 else str(error)) from error
        return found


def _intervals(task: str) -> Intervals | None:
    """Return what numbers get and classes do not."""
    return residual_intervals.intervals() if task == "regression" else None


def _check_weights(w: Any) -> Vec:
    if np.asarray(w).dtype.kind in "US":
        raise ModelError("w: holds what is no number (a text); give numbers")
    weights = as_float64("w", w)
    if weights.ndim != 1:
        raise ModelError(f"w: has shape {weights.shape}; give one importance >= 0 a row")
    wrong = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
    if len(wrong):
        k = wrong[0]
        place = f"w[{k}]" if len(weights) > 1 else "w"
        raise ModelError(
            f"{place}: the importance {weights[k]:g} is negative or not finite; give a number >= 0"
        )
    return weights


def _array(classes: tuple[Label, ...]) -> NDArray[Any]:
    """Return classes as an array that keeps each label's own type."""
    mixed = len(set(map(type, classes))) > 1
    return np.array(classes, dtype=object if mixed else None)
