"""TableModel: labels, encoder and booster in one, over tables of columns, as the service calls it.

`Model` adds rows, labels as they are written, and files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kaboost.models.booster import (
    add_features,
    capture_many,
    learn_captured,
    learn_many,
    losses,
    mark_categorical,
    predictions,
    score_many,
    warm_growth,
    with_class,
    with_shares,
)
from kaboost.models.build import (
    AnyBooster,
    build,
    build_open,
    check,
    from_arrays,
    serving_arrays,
    to_arrays,
)
from kaboost.models.capacity import affordable_features, fits_memory, reserve_width
from kaboost.models.evaluation.intervals import Intervals, bounds, intervals, update_many
from kaboost.models.evaluation.outcome import Outcome, join
from kaboost.models.explain.interface import REFUSAL, deviations, explain_many
from kaboost.models.explain.reasons import Reason, Share, reasons, shares
from kaboost.models.features import labels as task_labels
from kaboost.models.features.columns import Columns
from kaboost.models.features.evidence import Change
from kaboost.models.features.label_outliers import OUTLIER_SPREADS
from kaboost.models.features.labels import Label, Labels
from kaboost.models.features.onehot import Encoder, Table, slice_table
from kaboost.models.features.rows import BatchSlice, recast
from kaboost.models.features.schema import AUTO, Schema, describe_schema, from_description
from kaboost.models.losses import LOSSES, has_probability
from kaboost.models.one_vs_rest import OneVsRest, known_scores
from kaboost.models.parts import BANKS
from kaboost.models.reboosted.classes.ensemble import ClassTrees
from kaboost.models.reboosted.component import rates
from kaboost.models.spec import normalise_spec
from kaboost.models.state import tree
from kaboost.models.state.format import Arrays
from kaboost.models.types import Ints, Mat, ModelError, Vec
from kaboost.models.verbs import diagnostics, served_loss

CHUNK_NUMBERS = 1 << 17  # encoded numbers predicted at once, so that they stay in the cache
SMALLEST_PROBABILITY = 1e-6  # of a label in the log-loss, as for votes


def encoder_of(spec: Mapping[str, Any]) -> type[Encoder]:
    """Return the encoder class for the bank of a filled-in specification."""
    return Columns if BANKS[spec["bank"]["kind"]].takes_raw_columns else Encoder


class Captured(NamedTuple):
    """B events as they were predicted, until their labels come."""

    X: Mat  # (B, d) encoded features
    codes: Ints  # (B, c) slots of category values
    parts: Mat  # (B, S) what the booster captures
    scores: Mat  # (B, m) that were predicted


class TableModel:
    """A booster over named features that learns tables of labelled events, in order.

    Parameters
    ----------
    task, spec, features, labels
        As for `Model`.

    Raises
    ------
    ModelError
        For an invalid specification, schema or list of labels.
    """

    identifiers: tuple[str, ...] = ()  # features that may name things, until they are reported
    # Shown every part of events that is learned, with the layout of its table: for evaluation.
    observer: Callable[[Table, Vec, Vec, Outcome], None] | None = None

    def __init__(
        self,
        task: str = "binary",
        spec: Mapping[str, Any] | None = None,
        features: Mapping[str, str] | Schema | str = AUTO,
        labels: Sequence[Label] | str | None = None,
        max_classes: int = task_labels.MAX_CLASSES,
    ) -> None:
        self._describe(task, spec, features, task_labels.labels(task, labels, max_classes))
        if self.encoder.schema.auto:
            columns = len(self.encoder.columns)
            self.encoder.reserved = reserve_width(self.spec, columns, self.labels.m)
        width, m = self.encoder.width, self.labels.m
        if self.labels.is_open:
            check(self.spec, width, m, task=task)
            self.booster: AnyBooster = build_open(self.spec, width, m)
        else:
            self.booster = build(self.spec, width, m, task=task)
        mark_categorical(self.booster, self.encoder.categorical_columns)

    def _describe(
        self,
        task: str,
        spec: Mapping[str, Any] | None,
        features: Mapping[str, str] | Schema | str,
        labels: Labels,
    ) -> None:
        """Set everything but the booster."""
        self.task = task
        self.labels = labels
        self.spec = normalise_spec(spec, task)
        lowest = LOSSES[self.spec["loss"]["kind"]].traits.lowest_label
        self.labels = self.labels._replace(least=max(self.labels.least, lowest))
        self.encoder = encoder_of(self.spec)(features)
        self.intervals: Intervals | None = intervals() if task == "regression" else None
        self.serving_only = False

    @property
    def classes_(self) -> tuple[Label, ...]:
        """The labels of a classification, in the order of its probabilities."""
        return self.labels.classes

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every feature so far, declared or inferred."""
        return dict(self.encoder.kinds)

    def learn(self, table: Table, y: Vec, w: Vec) -> Outcome:
        """Learn B events in order and return the predictions made before each was learned.

        Classes that are learned as they come are to be added before; see `add_class`.

        Parameters
        ----------
        table
            Features of B events.
        y
            Encoded labels, as `labels.encode` returns them, (B,).
        w
            Importances >= 0, (B,); an event of weight 0 is predicted and not learned.

        Raises
        ------
        ModelError
            When the model came from a snapshot, which lacks the arrays that learning needs.
        """
        if not self.encoder.schema.open:
            return self.learn_part(table, y, w)
        outcomes = [self.learn_part(part, y[span], w[span]) for part, span in self.parts(table, w)]
        return outcomes[0] if len(outcomes) == 1 else join(outcomes)

    def warm_growth(self) -> None:
        """Compile what new features and classes take, where they may come; nothing changes."""
        if self.encoder.schema.auto or self.labels.is_open:
            warm_growth(self.booster)

    def learn_part(self, table: Table, y: Vec, w: Vec) -> Outcome:
        """Learn B events between which no kind is corrected; as for `learn`."""
        self._require_learning()
        scores = learn_many(self.booster, self.encoder.learn_many(table, w, y, self._far), y, w)
        outcome = self._assess(self.outcome(scores, y), y, w)
        if self.observer is not None:
            self.observer(table, y, w, outcome)
        return outcome

    def parts(self, table: Table, w: Vec) -> Iterator[tuple[Table, slice]]:
        """Yield a table of B events in parts, to be learned or captured before the next part.

        Between two parts inferred kinds are corrected, by what the events so far say of them.
        """
        self._require_learning()
        first = 0
        while True:
            part, change, table = next_part(
                self.encoder, table, w[first:], BatchSlice(first, len(w))
            )
            span = slice(first, first + change.rows)
            if change.rows or len(w) == 0:
                yield part, span
            self.identifiers += change.identifiers
            first = span.stop
            if change.kinds:
                table = self._correct(change.kinds, table)
            elif first == len(w):
                return

    def _correct(self, kinds: Mapping[str, str], table: Table) -> Table:
        """Correct inferred kinds, as far as memory suffices; return the table by the new ones."""
        before = self.encoder.layout
        refused = kinds.keys() - self.affordable_features(kinds).keys()
        self._columns().keep_kinds(refused)
        self.add_features({name: kind for name, kind in kinds.items() if name not in refused})
        odd = [cell for cell in table.odd if cell[1] not in refused]
        return recast(table._replace(odd=odd), before, self.encoder.layout)

    def capture(self, table: Table) -> Captured:
        """Predict B events whose labels come later, and return what `learn_captured` needs then.

        What the encoder learns without labels is learned now; nothing else changes.

        Raises
        ------
        ModelError
            When the model came from a snapshot, which lacks the arrays that learning needs.
        """
        self._require_learning()
        X, codes = self.encoder.capture(table)
        scores, parts = capture_many(self.booster, X)
        width = len(self.encoder.columns)
        return Captured(X[:, :width], codes, parts, scores)

    def learn_captured(self, captured: Captured, y: Vec, w: Vec) -> Outcome:
        """Learn B events in the order of their labels, and return their predictions of `capture`.

        Parameters
        ----------
        captured
            What `capture` returned for them; features that were added since are missing.
        y, w
            As for `learn`.

        Raises
        ------
        ModelError
            When the model came from a snapshot, which lacks the arrays that learning needs.
        """
        self._require_learning()
        X = padded(captured.X, self.encoder.width, math.nan).copy()  # a part of it is replaced
        codes = self.encoder.current_codes(captured.codes, captured.X.shape[1])
        parts = np.array(captured.parts, order="C")  # kernels know no read-only one
        times = parts[:, -1].copy() if parts.shape[1] else np.zeros(len(y))
        self.encoder.learn_labels(X, codes, w, y, times, self._far)
        learn_captured(self.booster, X, parts, y, w)
        return self._assess(self.captured_outcome(captured, y), y, w)

    def captured_outcome(self, captured: Captured, y: Vec) -> Outcome:
        """Return the outcome of captured predictions for labels y (B,).

        Before any event the answer to a request is the first class, whose probability is that of
        the other one: a score of 0.
        """
        outcome = self.outcome(self.captured_scores(captured), y)
        if self.task != "binary":
            return outcome
        errors = np.where(outcome.scores[:, 0] == 0.0, y != 0.0, outcome.errors)
        return outcome._replace(errors=errors.astype(np.float64))

    def captured_scores(self, captured: Captured) -> Mat:
        """Return the scores (B, m) that were predicted, with those of classes added since."""
        if isinstance(self.booster, OneVsRest | ClassTrees):
            return known_scores(self.booster, captured.scores)
        return np.array(captured.scores, order="C")

    def _assess(self, outcome: Outcome, y: Vec, w: Vec) -> Outcome:
        """Return the outcome of scores that were made before the labels, and learn intervals."""
        if self.intervals is not None:
            update_many(self.intervals, outcome.predictions, y, w)
        return outcome

    @property
    def _far(self) -> float:
        return OUTLIER_SPREADS if self.task == "regression" else math.inf

    def _require_learning(self) -> None:
        if self.serving_only:
            raise ModelError(
                "model: its arrays only serve; load a checkpoint or a saved model to learn"
            )

    def predict(self, table: Table) -> Mat:
        """Return the scores (B, m) of B events; the model does not change."""
        scores = [
            score_many(self.booster, self.encoder.encode_many(part)) for part in self.chunks(table)
        ]
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def chunks(self, table: Table) -> Iterator[Table]:
        """Yield a table in parts whose encoded numbers stay in the cache."""
        B, rows = len(table.numbers), max(1, CHUNK_NUMBERS // max(self.encoder.width, 1))
        if B <= rows:
            yield table
        else:
            yield from (slice_table(table, first, first + rows) for first in range(0, B, rows))

    def predictions(self, scores: Mat) -> Mat:
        """Return the predictions of scores (B, m): numbers (B,), or probabilities (B, C)."""
        linked = predictions(self.booster, scores)
        if self.task == "binary" and not self.has_probabilities:
            linked = 0.5 + 0.5 * linked  # from [-1, 1] to [0, 1]: a score, not a probability
        if self.task == "regression":
            return linked[:, 0]
        if self.task == "multiclass":
            return linked
        both = np.empty((len(linked), 2))
        both[:, 1] = linked[:, 0]
        both[:, 0] = 1.0 - both[:, 1]
        return both

    def classify(self, probabilities: Mat) -> Ints:
        """Return the class index (B,) of probabilities (B, C): the most probable class.

        Of equal probabilities the first class is returned; of two classes the positive one, from
        1/2 on, as sign(0) = +1 everywhere (specification, section 0).
        """
        if self.task == "binary":
            return (probabilities[:, 1] >= 0.5).astype(np.int64)
        if not self.classes_:  # where they are learned
            return np.zeros(len(probabilities), np.int64)
        classes: Ints = probabilities.argmax(axis=1)
        return classes

    def intervals_around(self, predicted: Vec, level: float) -> Mat:
        """Return low and high (B, 2) around predictions (B,), so that a part `level` of all labels
        lies inside; infinite before 20 events.

        Raises
        ------
        ModelError
            For a classification, and for a level below 0.5 or above 0.99.
        """
        if self.intervals is None:
            raise ModelError(
                "interval: a classification has probabilities instead of intervals; leave it out"
            )
        ends = bounds(self.intervals, predicted, level)
        if self.labels.least == 0.0:  # counts
            np.maximum(ends, 0.0, out=ends)
        return ends

    @cached_property
    def has_probabilities(self) -> bool:
        """Whether the model predicts probabilities: classification with any loss but hinge."""
        return self.task != "regression" and (
            has_probability(self.booster.loss) or self._scores_are_votes()
        )

    def _scores_are_votes(self) -> bool:
        """Return whether the rule's scores are votes, which have their own log-loss."""
        return served_loss.dispatch(type(self.booster.rule)) is not served_loss.dispatch(object)

    def outcome(self, scores: Mat, y: Vec) -> Outcome:
        """Return predictions, losses and errors of scores (B, m) for labels y (B,).

        The losses compare across models: half the squared difference for numbers, log-loss without
        l2 for classes. A model without probabilities reports the loss that it learns.
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
        if log_loss or not self.has_probabilities or self._scores_are_votes():
            loss: Any = self.booster.loss  # a NamedTuple, whatever its fields
            bare = self.booster._replace(loss=loss._replace(l2=0.0))
            return losses(bare, scores, y), errors
        if not self.classes_:
            return np.zeros(len(y)), errors
        of_label = predicted[np.arange(len(y)), y.astype(np.int64)]
        return -np.log(np.clip(of_label, SMALLEST_PROBABILITY, 1.0)), errors

    def _positive_probability(self, predicted: Mat) -> Vec | None:
        if self.task != "binary" or not self.has_probabilities:
            return None
        return predicted[:, 1].copy()  # contiguous: kernels are compiled for one layout, not two

    def add_features(self, new: Mapping[str, str]) -> None:
        """Add features of inferred kinds to the schema and widen the booster for them.

        Raises
        ------
        ModelError
            When memory does not suffice; then nothing changed.
        """
        assert isinstance(self.encoder, Columns)  # the only encoder that infers kinds
        encoder = self.encoder.extended(new)
        encoder.reserved = self._reserve_width(len(encoder.columns))
        if encoder.width > int(self.booster.shape[0]):
            self.booster = add_features(self.booster, self.spec, encoder.width)
        self.encoder = encoder
        mark_categorical(self.booster, encoder.categorical_columns)

    def first_values(self) -> dict[str, int]:
        """Return how many values the inferred features have had that had few so far."""
        encoder = self.encoder
        if not isinstance(encoder, Columns):
            return {}
        counts = encoder.evidence.counts[:, 0].tolist()
        pairs = zip(encoder.schema.inferred, counts, strict=True)
        return {name: count for name, count in pairs if name in encoder.schema.open}

    def affordable_features(self, new: Mapping[str, str]) -> dict[str, str]:
        """Return the first of the new features, as many as memory suffices for."""
        used, allocated = len(self.encoder.columns), int(self.booster.shape[0])
        return affordable_features(self.spec, self._memory_shares, used, allocated, new)

    def _reserve_width(self, columns: int) -> int:
        return reserve_width(self.spec, columns, self._memory_shares)

    @property
    def _memory_shares(self) -> int:
        """How many outputs share the memory."""
        if self.labels.is_open and isinstance(self.booster, OneVsRest | ClassTrees):
            return self.booster.shares
        return self.labels.m

    def affords_classes(self, classes: int) -> bool:
        """Return whether memory suffices for so many classes, at most `labels.max_classes`."""
        return self._needed_shares(classes) is not None

    def add_class(self, label: Label) -> None:
        """Add a class that is learned from now on, what `labels.new_class` returned.

        So far it was one of the classes to come, which one booster stands for.

        Raises
        ------
        ModelError
            When memory does not suffice; then nothing changed.
        """
        self._require_learning()
        assert isinstance(self.booster, OneVsRest | ClassTrees)
        after = self.labels.with_class(label)
        shares = self._needed_shares(len(after.classes))
        if shares is None:
            raise ModelError(
                f"label: {label!r} is class number {len(after.classes)}, and bank.max_memory "
                f"{self.spec['bank']['max_memory']:g} MB hold no more; begin a new model with more"
            )
        if shares > self.booster.shares:
            self.booster = with_shares(self.booster, self.spec, shares)
        self.booster = with_class(self.booster, after.max_classes)
        self.labels = after

    def _needed_shares(self, classes: int) -> int | None:
        """Return how many boosters are to share the memory, for so many classes and those to come;
        None where it does not suffice. They double, as each time all windows are copied.
        """
        shares, most = self._memory_shares, self.labels.max_classes
        needed = min(classes + 1, most)
        if needed <= shares:
            return shares
        while shares < needed:
            shares *= 2
        width = int(self.booster.shape[0])
        affordable = (n for n in (min(shares, most), needed) if fits_memory(self.spec, width, n))
        return next(affordable, None)

    @property
    def explicable(self) -> bool:
        """Whether scores can be explained: those of reboosted trees can."""
        return isinstance(self.encoder, Columns)

    def explain(self, table: Table) -> list[list[Reason]]:
        """Return the explanation of every score (B, m); the model does not change.

        Raises
        ------
        ModelError
            For a bank whose scores cannot be explained; the message names one that can.
        """
        columns = self._columns()
        explanation = explain_many(self.booster, columns.encode_many(table))
        return reasons(columns, self._lag_rates(), explanation)

    def importance(self) -> list[Share]:
        """Return features and label lags in falling order of importance.

        A share is that of the variance of a feature's contribution, as `explain_many` returns it,
        over sampled recent events; that of label lags over labels that are drawn independently,
        with the mean and deviation of recent ones.

        Raises
        ------
        ModelError
            For a bank without trees; the message names one that has trees.
        """
        columns = self._columns()
        return shares(columns, self._lag_rates(), deviations(self.booster))

    def _lag_rates(self) -> Sequence[float]:
        return rates("label_lags", self.spec["bank"].get("label_lags"))

    def _columns(self) -> Columns:
        if not isinstance(self.encoder, Columns):
            raise ModelError(REFUSAL)
        return self.encoder

    def to_arrays(self) -> Arrays:
        """Return every array of the state by its dotted name; no copy."""
        return {**to_arrays(self.booster), **self._other_arrays()}

    def serving_arrays(self) -> Arrays:
        """Return the arrays that predictions and the rule's diagnostics need; no copy."""
        shown = {f"shown.{name}": values for name, values in diagnostics(self.booster.rule).items()}
        return {**serving_arrays(self.booster), **self._other_arrays(), **shown}

    def describe(self) -> dict[str, Any]:
        """Return task, specification, schema and labels as plain JSON values."""
        return {
            "task": self.task,
            "spec": self.spec,
            **describe_schema(self.encoder.schema),
            "labels": list(self.classes_),
            **({"max_classes": self.labels.max_classes} if self.labels.is_open else {}),
        }

    @classmethod
    def describe_new(
        cls,
        task: str = "binary",
        spec: Mapping[str, Any] | None = None,
        features: Mapping[str, str] | Schema | str = AUTO,
        labels: Sequence[Label] | str | None = None,
        max_classes: int = task_labels.MAX_CLASSES,
    ) -> dict[str, Any]:
        """Return what `describe` returns of a new model, without building its booster.

        Examples
        --------
        >>> TableModel.describe_new("regression", features={"x": "number"})["schema"]
        [['x', 'number']]
        """
        model = cls.__new__(cls)
        model._describe(task, spec, features, task_labels.labels(task, labels, max_classes))
        return model.describe()

    @classmethod
    def from_arrays(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Return the model over these arrays, not copies; read-only or serving ones cannot learn.

        Parameters
        ----------
        description
            What `describe` returned.
        arrays
            What `to_arrays` or `serving_arrays` returned, by name.

        Raises
        ------
        ModelError
            When the arrays do not match the description.
        """
        schema = from_description(description)
        task, spec, labels = (description[key] for key in ("task", "spec", "labels"))
        model = cls.__new__(cls)
        most = description.get("max_classes", 0)
        model._describe(task, spec, schema, task_labels.restored(task, labels, most))
        state = tree.from_arrays(model.encoder.state, arrays, "encoder")
        template, model.encoder = model.encoder, type(model.encoder)(schema, state)
        if isinstance(template, Columns) and isinstance(model.encoder, Columns) and schema.auto:
            evidence = tree.from_arrays(template.evidence, arrays, "kinds")
            model.encoder.with_evidence(evidence)
        model.booster = from_arrays(model.spec, arrays)
        model.encoder.reserved = int(model.booster.shape[0])
        if model.intervals is not None and any(name.startswith("intervals.") for name in arrays):
            model.intervals = tree.from_arrays(model.intervals, arrays, "intervals")
        names = {**to_arrays(model.booster), **model._encoder_arrays()}
        model.serving_only = not all(
            name in arrays and arrays[name].flags.writeable for name in names
        )
        return model

    def _encoder_arrays(self) -> Arrays:
        arrays = tree.to_arrays(self.encoder.state, "encoder")
        if isinstance(self.encoder, Columns) and self.encoder.schema.auto:
            arrays |= tree.to_arrays(self.encoder.evidence, "kinds")
        return arrays

    def _other_arrays(self) -> Arrays:
        """Return the arrays of encoder and intervals."""
        arrays = self._encoder_arrays()
        if self.intervals is not None:
            arrays |= tree.to_arrays(self.intervals, "intervals")
        return arrays


def next_part(
    encoder: Encoder, table: Table, w: Vec, part: BatchSlice
) -> tuple[Table, Change, Table]:
    """Return the events before the next change of kinds, the change, and the other events; `part`
    says where they stand in a batch, for messages.
    """
    if not isinstance(encoder, Columns) or not encoder.schema.open:
        return table, Change(len(w), {}, frozenset(), ()), table
    change = encoder.take_evidence(table, w, part)
    if change.rows == len(w):
        return table, change, slice_table(table, len(w), len(w))
    return slice_table(table, 0, change.rows), change, slice_table(table, change.rows, len(w))


def padded(values: Any, width: int, missing: float) -> Any:
    """Return values (B, n) with as many columns as `width`, those of later features missing."""
    if values.shape[1] == width:
        return np.ascontiguousarray(values)
    wide = np.full((len(values), width), missing, values.dtype)
    wide[:, : values.shape[1]] = values[:, :width]
    return wide
