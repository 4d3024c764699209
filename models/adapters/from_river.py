"""RiverModel: an estimator of the library River with the interface of `Model`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kaboost.models.adapters import river_spec
from kaboost.models.evaluation.intervals import intervals, update_many
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.features import labels as task_labels
from kaboost.models.features.datetimes import CLOCK_FIELDS, clock_fields_many
from kaboost.models.features.labels import Label
from kaboost.models.features.onehot import Encoder, Table
from kaboost.models.model import Model
from kaboost.models.state.format import Arrays
from kaboost.models.types import LOSS_LIMIT, WEIGHT_LIMIT, Mat, ModelError, Vec

PROBABILITY_FLOOR = 1e-15  # probabilities are clipped to [this, 1 - this], as in River's LogLoss
NO_FILE_MESSAGE = (
    "model: a River model can only be pickled, which Kaboost does not; learn its events again, or "
    "take a Kaboost model"
)


EXAMPLE_VALUES: dict[str, tuple[Any, Any]] = {  # two values of each kind
    "number": (1.0, 2.5),
    "boolean": (True, False),
    "category": ("a", "b"),
    "datetime": ("2026-11-20T10:00:00", "2027-01-01"),
    "text": ("one word", "another"),
}


class RiverProgress(NamedTuple):
    """The progress of a model without weak learners, for reports."""

    events: NDArray[np.int64]  # () events of positive weight
    prefix_losses: Vec  # (0,)
    edges: Vec  # (0,)


class _Booster(NamedTuple):
    progress: RiverProgress
    rule: None = None


class RiverModel(Model):
    """An estimator of River that learns labelled events one by one, in order.

    It has no arrays, so `save` and `load` raise. River gets the features of an event without the
    missing ones: numbers as floats, booleans, categories and texts as str, a missing text as an
    empty one, and a datetime as hour, weekday and month. Labels are False and True for a binary
    task, class indices for several classes, numbers for a regression.

    Parameters
    ----------
    task
        `regression`, `binary` or `multiclass`.
    spec
        As for `river_spec.normalise_spec`.
    features
        Feature name to `number`, `boolean`, `category`, `datetime` or `text`.
    labels
        As for `Model`.

    Raises
    ------
    ModelError
        For an invalid specification, schema or list of labels.

    Examples
    --------
    >>> model = RiverModel(spec={"river": "naive_bayes.GaussianNB"}, features={"x": "number"})
    >>> for k in range(20):
    ...     model.learn_one({"x": k}, int(k >= 10))
    >>> model.predict_one({"x": 15})
    1
    """

    def __init__(
        self,
        task: str = "binary",
        spec: Mapping[str, Any] | None = None,
        features: Mapping[str, str] | None = None,
        labels: Sequence[Label] | str | None = None,
    ) -> None:
        if not isinstance(features, Mapping) or not river_spec.is_river(spec):
            raise ModelError("spec, features: give {river: name} and a schema")
        assert spec is not None
        self.task = task
        self.labels = task_labels.labels(task, labels)
        if self.labels.is_open:
            raise ModelError(
                "task.labels: auto is not for River models; list the labels, or take a Kaboost "
                "model"
            )
        self.spec = river_spec.normalise_spec(spec, task)
        self.encoder = Encoder(features)  # for the schema only: River encodes
        self.estimator = river_spec.build_estimator(self.spec)
        self.takes_weight = river_spec.takes_weight(self.spec)
        self.weights_ignored = 0  # events of a weight that the estimator cannot take
        self.failed_at = 0  # index of the event being learned, in the last table
        self.turn: AbstractContextManager[Any] = nullcontext()  # entered around every event
        self.serving_only = False
        self.intervals = intervals() if task == "regression" else None
        self.booster: Any = _Booster(
            RiverProgress(np.zeros((), np.int64), np.zeros(0), np.zeros(0))
        )
        C = len(self.labels.classes)
        self._keys: list[Any] = [False, True] if task == "binary" else list(range(C))

    @property
    def events(self) -> int:
        """Events of positive weight that were learned."""
        return int(self.booster.progress.events)

    @cached_property
    def has_probabilities(self) -> bool:
        """Whether the model predicts probabilities: always, if only 0 and 1."""
        return self.task != "regression"

    def learn_part(self, table: Table, y: Vec, w: Vec) -> Outcome:
        """Learn B events in order and return the predictions made before each was learned.

        Events of weight 0 are predicted only. Other weights are passed to River as `w` where the
        estimator takes one; elsewhere an event is learned once, and counted in `weights_ignored`
        if its weight is not 1.
        """
        rows = self._rows(table, len(y))
        scores = np.empty((len(y), self.labels.m))
        for k, x in enumerate(rows):
            with self.turn:
                self.failed_at = k
                scores[k] = self._score(x)
                if w[k] > 0.0:
                    self._learn(x, y[k], min(float(w[k]), WEIGHT_LIMIT))
                    if self.intervals is not None:
                        update_many(self.intervals, scores[k], y[k : k + 1], w[k : k + 1])
        return self.outcome(scores, y)

    def predict(self, table: Table) -> Mat:
        """Return the scores (B, m) of B events.

        A score is the number of a regression, the log-odds of a binary task's positive class, the
        logarithm of every class's probability.
        """
        B = len(table.numbers)
        scores = np.empty((B, self.labels.m))
        for k, x in enumerate(self._rows(table, B)):
            scores[k] = self._score(x)
        return scores

    def _predict_and_remember(self, table: Table) -> Mat:
        """Return the scores; River learns a late label as it comes."""
        return self.predict(table)

    def predictions(self, scores: Mat) -> Mat:
        """Return the predictions of scores (B, m): numbers (B,), or probabilities (B, C)."""
        if self.task == "regression":
            return scores[:, 0]
        if self.task == "multiclass":
            return np.exp(scores)
        positive = 1.0 / (1.0 + np.exp(-scores[:, 0]))
        return np.column_stack([1.0 - positive, positive])

    def _losses_and_errors(self, scores: Mat, predicted: Mat, y: Vec) -> tuple[Vec, Vec]:
        if self.task == "regression":
            with np.errstate(over="ignore", invalid="ignore"):
                return np.minimum(0.5 * (predicted - y) ** 2, LOSS_LIMIT), abs(predicted - y)
        of_label = predicted[np.arange(len(y)), y.astype(np.int64)]
        errors = self.classify(predicted) != y
        return -np.log(np.maximum(of_label, PROBABILITY_FLOOR)), errors.astype(np.float64)

    def rehearse(self) -> None:
        """Learn and predict a few example events of this schema with a new estimator.

        Raises
        ------
        ModelError
            When the estimator cannot learn such events.
        """
        twin = RiverModel(self.task, self.spec, self.encoder.kinds, self.classes_ or None)
        kinds = self.encoder.kinds.items()
        rows = [{name: EXAMPLE_VALUES[kind][k] for name, kind in kinds} for k in (0, 1)] + [{}]
        labels: Sequence[Any] = self.classes_ or (0.0, 1.0)
        try:
            for label in [*labels, *labels]:
                twin.learn_many(rows, [label] * len(rows))
        except river_spec.RIVER_ERRORS as err:
            raise ModelError(
                f"model.river: {self.spec['river']} cannot learn events of features.schema "
                f"({type(err).__name__}: {err}){self._hint()}"
            ) from err

    # State and files.

    def to_arrays(self) -> Arrays:
        """Return no arrays: River's state has none."""
        return {}

    def serving_arrays(self) -> Arrays:
        """Return no arrays, as `to_arrays`."""
        return {}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Raise: there is no file format for River models.

        Raises
        ------
        ModelError
            Always.
        """
        raise ModelError(NO_FILE_MESSAGE)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Raise, as `save`."""
        raise ModelError(NO_FILE_MESSAGE)

    @classmethod
    def from_arrays(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Raise, as `save`."""
        raise ModelError(NO_FILE_MESSAGE)

    # One event.

    def _rows(self, table: Table, B: int) -> list[dict[str, Any]]:
        """Return the features of B events by name, without those that are missing."""
        encoder = self.encoder
        times = [f"{name} {field}" for name in encoder.times for field in CLOCK_FIELDS]
        rows: list[dict[str, Any]] = [{} for _ in range(B)]
        for k, values in enumerate(table.numbers.tolist()):
            rows[k].update((n, v) for n, v in zip(encoder.numbers, values, strict=True) if v == v)
        for k, values in enumerate(table.booleans.tolist()):
            known = zip(encoder.booleans, values, strict=True)
            rows[k].update((n, v == 1.0) for n, v in known if v == v)
        for k, values in enumerate(clock_fields_many(table.times).tolist() if times else ()):
            rows[k].update((n, v) for n, v in zip(times, values, strict=True) if v == v)
        for name, column in zip(encoder.categories, table.categories, strict=True):
            for row, value in zip(rows, column, strict=True):
                if value is not None:
                    row[name] = value
        for name, column in zip(encoder.texts, table.texts, strict=True):
            for row, value in zip(rows, column, strict=True):
                row[name] = value or ""  # word counters fail for None
        return rows

    def _learn(self, x: dict[str, Any], y: float, w: float) -> None:
        label: Any = float(y) if self.task == "regression" else self._keys[int(y)]
        if self.takes_weight:
            self.estimator.learn_one(x, label, w=w)
        else:
            self.weights_ignored += w != 1.0
            self.estimator.learn_one(x, label)
        self.booster.progress.events[()] += 1

    def _score(self, x: dict[str, Any]) -> Any:
        if self.task == "regression":
            predicted = self.estimator.predict_one(x)
            return 0.0 if predicted is None else float(predicted)
        shares = self._shares(x)
        if self.task == "multiclass":
            return [math.log(p) for p in shares]
        return math.log(shares[1]) - math.log(shares[0])

    def _shares(self, x: dict[str, Any]) -> list[float]:
        """Return the probability of every class; uniform before any event."""
        try:
            predicted = self.estimator.predict_proba_one(x)
        except NotImplementedError:  # it predicts a class without probabilities
            predicted = {self.estimator.predict_one(x): 1.0}
        shares = [min(max(float(predicted.get(key, 0.0)), 0.0), 1e300) for key in self._keys]
        total = sum(shares)
        if math.isnan(total):
            return [total] * len(shares)  # it has diverged; callers report nan
        if total == 0.0:
            return [1.0 / len(shares)] * len(shares)
        low, high = PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR
        return [min(max(p / total, low), high) for p in shares]

    def _hint(self) -> str:
        kinds = set(self.encoder.kinds.values())
        if "text" in kinds:
            return (
                "; texts are passed unchanged: start the steps with feature_extraction.BagOfWords"
            )
        if "category" in kinds and not any(s["on"] == "category" for s in self.spec["steps"]):
            return "; if it takes no texts, set one_hot: true next to river"
        return "; see its parameters in River's documentation"
