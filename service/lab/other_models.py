"""Other models on the same events: each predicts an event before it learns it."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kaboost.models.adapters.from_river import PROBABILITY_FLOOR, RiverModel
from kaboost.models.adapters.river_spec import RIVER_ERRORS
from kaboost.models.features.labels import Labels
from kaboost.models.features.onehot import Encoder, Table
from kaboost.models.features.schema import Layout
from kaboost.models.types import Mat, ModelError, Vec
from kaboost.service.errors import ConfigError
from kaboost.service.lab.extras import missing_extra

FIRST_ROWS = 500  # of LightGBM's first training; then at twice as many, and so on
# Of a label, for the log-loss of every model: River's are clipped to it before anything else.
SMALLEST_PROBABILITY = PROBABILITY_FLOOR
LIGHTGBM, RIVER = "lightgbm", "river:"
ROUNDS = 100
NUMBERS_ONLY = ("linear_model", "neighbors")  # of River's modules: features are scaled for them


class Part(NamedTuple):
    """B events that were learned in one call."""

    table: Table
    layout: Layout
    labels: Labels
    y: Vec  # (B,)
    w: Vec  # (B,)


class OtherModel(Protocol):
    """A model that is compared."""

    name: str

    def learn(self, part: Part) -> tuple[Vec, Vec]:
        """Return losses and errors (B,) of events, each predicted before it was learned."""


def make_other_models(names: Sequence[str], task: str) -> list[OtherModel]:
    """Return the models of some names.

    Raises
    ------
    ConfigError
        For an unknown name, and where a package is missing.
    """
    return [_make(name, task) for name in names]


def _make(name: str, task: str) -> OtherModel:
    if name == LIGHTGBM:
        try:
            import lightgbm
        except ImportError as err:
            raise missing_extra(f"--against {name}:", "lightgbm", err) from err
        return LightGBM(task, lightgbm.train, lightgbm.Dataset)
    if name.startswith(RIVER):
        try:
            return River(task, name.removeprefix(RIVER))
        except ModelError as err:
            raise ConfigError(f"--against {name}: {err}") from err
    raise ConfigError(
        f"--against {name}: is not known; write lightgbm, or river:MODULE.CLASS such as "
        "river:forest.ARFClassifier"
    )


class River:
    """An estimator of River that learns event by event."""

    def __init__(self, task: str, estimator: str) -> None:
        self.name = f"{RIVER}{estimator}"
        self._task = task
        self._spec: dict[str, Any] = {"river": estimator, "params": {}}
        if estimator.partition(".")[0] in NUMBERS_ONLY:
            self._spec |= {"scale": True, "one_hot": True}
        self._model: RiverModel | None = None
        self._kinds: Any = None
        RiverModel(task, self._spec, {"x": "number"}, ["a", "b"] if task != "regression" else None)

    def learn(self, part: Part) -> tuple[Vec, Vec]:
        """Return losses and errors (B,)."""
        if self._model is None:
            labels = None if self._task == "regression" else part.labels.classes
            try:
                self._model = RiverModel(self._task, self._spec, part.layout.kinds, labels)
            except ModelError as err:
                raise ConfigError(f"--against {self.name}: {err}") from err
        if part.layout.kinds != self._kinds:
            self._model.encoder = Encoder(dict(part.layout.kinds))
            self._kinds = part.layout.kinds
        try:
            outcome = self._model.learn_part(part.table, part.y, part.w)
        except RIVER_ERRORS as err:
            raise ConfigError(
                f"--against {self.name}: fails at these events: {err}; compare with another one"
            ) from err
        return outcome.losses, outcome.errors


class LightGBM:
    """LightGBM, trained again on all events so far whenever they have doubled.

    Before its first training it predicts the shares of the classes, or the mean.
    """

    name = LIGHTGBM

    def __init__(self, task: str, train: Callable[..., Any], dataset: Callable[..., Any]) -> None:
        self._task, self._train, self._dataset = task, train, dataset
        self._columns: dict[str, list[Vec]] = {}
        self._codes: dict[str, dict[str, int]] = {}
        self._y: list[Vec] = []
        self._w: list[Vec] = []
        self._rows = 0
        self._next = FIRST_ROWS
        self._model: Any = None
        self._known: list[str] = []  # columns of the model
        self._classes = 0  # that it was trained with
        self._counts = np.zeros(0)
        self._sums = np.zeros(2)  # of weights, and of weighted numbers

    def learn(self, part: Part) -> tuple[Vec, Vec]:
        """Return losses and errors (B,)."""
        B, first = len(part.y), 0
        losses, errors = np.zeros(B), np.zeros(B)
        columns = self._matrix(part)
        while first < B:
            last = min(B, first + self._next - self._rows)
            span = slice(first, last)
            piece = {name: values[span] for name, values in columns.items()}
            y, w = part.y[span], part.w[span]
            losses[span], errors[span] = self._assess(piece, y, w, len(part.labels.classes))
            self._keep(piece, y, w)
            if self._rows == self._next:
                self._fit(len(part.labels.classes))
                self._next *= 2
            first = last
        return losses, errors

    def _matrix(self, part: Part) -> dict[str, Vec]:
        """Return the features that LightGBM takes: texts are left out."""
        found: dict[str, Vec] = {}
        table = part.table
        for name, (kind, j) in part.layout.places.items():
            if kind == "number":
                found[name] = table.numbers[:, j]
            elif kind == "boolean":
                found[name] = table.booleans[:, j]
            elif kind == "datetime":
                found |= _clock(name, table.times[:, j])
            elif kind == "category":
                codes = self._codes.setdefault(name, {})
                values = table.categories[j]
                found[name] = np.array([
                    math.nan if v is None else codes.setdefault(v, len(codes)) for v in values
                ])  # fmt: skip
        return {name: values.astype(np.float32) for name, values in found.items()}

    def _assess(self, columns: dict[str, Vec], y: Vec, w: Vec, C: int) -> tuple[Vec, Vec]:
        """Return losses and errors (B,) of events that are not learned yet."""
        predicted = self._predict(columns, y, w, C)
        if self._task == "regression":
            off = predicted[:, 0] - y
            return 0.5 * off * off, abs(off)
        places = y.astype(np.int64)
        of_label = predicted[np.arange(len(y)), places]
        return -np.log(np.clip(of_label, SMALLEST_PROBABILITY, 1.0)), (
            predicted.argmax(axis=1) != places
        ).astype(np.float64)

    def _predict(self, columns: dict[str, Vec], y: Vec, w: Vec, C: int) -> Mat:
        if self._model is None:
            return self._prior(y, w, C)
        X = np.stack([columns.get(name, np.full(len(y), np.nan)) for name in self._known], axis=1)
        predicted = np.asarray(self._model.predict(X))
        if self._task == "binary":
            return np.stack([1.0 - predicted, predicted], axis=1)
        if self._task == "regression":
            return predicted[:, None]
        # Classes that came after its training have the share of one that was never seen.
        padded = np.full((len(y), C), 1.0 / (self._rows + C))
        padded[:, : self._classes] = predicted
        return np.asarray(padded / padded.sum(axis=1, keepdims=True))

    def _prior(self, y: Vec, w: Vec, C: int) -> Mat:
        """Return the shares of classes (B, C) or the mean (B, 1) before each event."""
        if self._task == "regression":
            total = np.cumsum(np.stack([w, w * y]), axis=1) + self._sums[:, None]
            before = np.concatenate([self._sums[:, None], total[:, :-1]], axis=1)
            self._sums = total[:, -1] if len(y) else self._sums
            means: Mat = (before[1] / np.maximum(before[0], 1e-300))[:, None]
            return means
        self._counts = np.pad(self._counts, (0, C - len(self._counts)))
        ones = w[:, None] * (y[:, None] == np.arange(C))
        after = np.cumsum(ones, axis=0) + self._counts
        before = after - ones + 1.0
        self._counts = after[-1] if len(y) else self._counts
        shares: Mat = before / before.sum(axis=1, keepdims=True)
        return shares

    def _keep(self, columns: dict[str, Vec], y: Vec, w: Vec) -> None:
        for name, values in columns.items():
            blocks = self._columns.setdefault(name, [])
            missing = self._rows - sum(map(len, blocks)) if not blocks else 0
            if missing:
                blocks.append(np.full(missing, np.nan, np.float32))
            blocks.append(values)
        for name in self._columns.keys() - columns.keys():
            self._columns[name].append(np.full(len(y), np.nan, np.float32))
        self._y.append(y.copy())
        self._w.append(w.copy())
        self._rows += len(y)

    def _fit(self, C: int) -> None:
        self._known = list(self._columns)
        if not self._known:
            return
        X = np.stack([np.concatenate(self._columns[name]) for name in self._known], axis=1)
        y, w = np.concatenate(self._y), np.concatenate(self._w)
        if self._task != "regression" and len(np.unique(y[w > 0.0])) < 2:
            return  # nothing to train on yet
        objective = {"binary": {"objective": "binary"}, "regression": {"objective": "regression"}}
        params = {**objective.get(self._task, {"objective": "multiclass", "num_class": C}),
                  "verbosity": -1, "seed": 1, "deterministic": True}  # fmt: skip
        categories = [k for k, name in enumerate(self._known) if name in self._codes]
        data = self._dataset(X, y, weight=w, categorical_feature=categories, params=params)
        self._model = self._train(params, data, ROUNDS)
        self._classes = C


def _clock(name: str, seconds: Vec) -> dict[str, Vec]:
    """Return hour, weekday and time of a datetime, as the model's own features have them."""
    day = np.floor(seconds / 86_400.0)
    return {
        f"{name} hour": (seconds - day * 86_400.0) / 3600.0,
        f"{name} weekday": np.mod(day + 3.0, 7.0),
        f"{name} days": day,
    }
