"""River estimators over a `Model`: learn_one, predict_one, predict_proba_one.

Features may come and go and have any name; they share a fixed number of columns, see `NamedSlots`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from river import base
from river.base.typing import ClfTarget as Label

from kaboost.models.adapters.class_weights import ClassWeight, ClassWeights
from kaboost.models.adapters.slots import NamedSlots
from kaboost.models.booster import learn_many, score_many
from kaboost.models.features.labels import is_missing
from kaboost.models.model import Model
from kaboost.models.types import Mat, ModelError, Vec, to_python

Words = str | dict[str, Any]


class _Online:
    """What both estimators share: columns for features, a model over them, weights."""

    # Checks of River that these estimators cannot pass, and why.
    cannot_hold: ClassVar[dict[str, str]] = {}

    rule: Words
    bank: Words
    loss: Words | None
    seed: int
    slots: int
    shared: int

    def _unit_test_skips(self) -> set[str]:
        return set(self.cannot_hold)

    def _begin(self, task: str, classes: int | None = None, multiclass: str | None = None) -> None:
        for name, low in (("slots", 1), ("shared", 0)):
            count = getattr(self, name)
            if not isinstance(count, int) or count < low:
                raise ModelError(f"{name}: {count!r} is not a whole number from {low} on")
        spec: dict[str, Any] = {"rule": self.rule, "bank": self.bank, "seed": self.seed}
        optional = {"loss": self.loss, "multiclass": multiclass}
        spec.update((word, value) for word, value in optional.items() if value is not None)
        schema = {str(j): "number" for j in range(self.slots + self.shared)}
        self._model = Model(task, spec, schema, None if classes is None else list(range(classes)))
        self._columns = NamedSlots(self._model.encoder, self.slots)

    def _learn(self, x: Mapping[Any, Any], y: float, w: float) -> None:
        if w > 0.0:
            X = self._columns.learn_one(x)
            learn_many(self._model.booster, X, np.array([y]), np.array([w]))

    def _predictions(self, x: Mapping[Any, Any]) -> Vec | Mat:
        scores = score_many(self._model.booster, self._columns.encode_one(x))
        return self._model.predictions(scores)


class Regressor(_Online, base.Regressor):
    """Online gradient boosting for numbers, as a River estimator.

    Parameters
    ----------
    rule, bank, loss
        As in `kaboost.build`: a kind, or a dict with its parameters; loss None is squared.
    seed
        Seed of all random draws.
    slots
        Columns for features in order of first sight: one for a number or a boolean, one for every
        value of a text.
    shared
        Columns for all later features, by a fixed hash; at 0 these features are ignored.

    Examples
    --------
    >>> from kaboost.models.adapters.to_river import Regressor
    >>> regressor = Regressor(slots=8)
    >>> for k in range(200):
    ...     regressor.learn_one({"size": k % 7, "garden": k % 2 == 0}, 2.0 * (k % 7))
    >>> round(regressor.predict_one({"size": 3, "garden": True}), 1)
    6.0
    """

    def __init__(
        self,
        rule: Words = "sgb",
        bank: Words = "linear",
        loss: Words | None = None,
        seed: int = 1,
        slots: int = 64,
        shared: int = 8,
    ) -> None:
        self.rule = rule
        self.bank = bank
        self.loss = loss
        self.seed = seed
        self.slots = slots
        self.shared = shared
        self._begin("regression")

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn one event: features `x`, number `y`, importance `w`.

        Raises
        ------
        ModelError
            For an invalid feature, number or importance; then nothing was learned.
        """
        self._learn(x, _label(self._model, y), _weight(w))

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the number for features `x`."""
        return float(self._predictions(x)[0])


class Classifier(_Online, base.Classifier):
    """Online gradient boosting for classes, as a River estimator.

    Parameters
    ----------
    rule, bank, loss
        As in `kaboost.build`: a kind, or a dict with its parameters; loss None is logistic, or
        softmax for more than two labels.
    seed
        Seed of all random draws.
    slots
        Columns for features in order of first sight: one for a number or a boolean, one for every
        value of a text.
    shared
        Columns for all later features, by a fixed hash; at 0 these features are ignored.
    labels
        How many labels there may be, or the labels themselves. Of two, the first is the negative
        one: false or 0, any other in order of first sight.
    multiclass
        `one_vs_rest` for a binary rule or loss where there are more than two labels.
    class_weight
        Label to factor on the importance of its events, or `balanced`: events over labels times
        events of the label, so far.

    Examples
    --------
    >>> from kaboost.models.adapters.to_river import Classifier
    >>> classifier = Classifier(slots=8)
    >>> for k in range(200):
    ...     classifier.learn_one({"age": k % 50, "from": "PT" if k % 3 else "BR"}, k % 3 == 0)
    >>> classifier.predict_one({"age": 31, "from": "BR"})
    True
    """

    def __init__(
        self,
        rule: Words = "sgb",
        bank: Words = "linear",
        loss: Words | None = None,
        seed: int = 1,
        slots: int = 64,
        shared: int = 8,
        labels: int | tuple[Label, ...] = 2,
        multiclass: str | None = None,
        class_weight: ClassWeight = None,
    ) -> None:
        self.rule = rule
        self.bank = bank
        self.loss = loss
        self.seed = seed
        self.slots = slots
        self.shared = shared
        self.labels = labels
        self.multiclass = multiclass
        self.class_weight = class_weight
        self._class_weights = ClassWeights(class_weight)
        self._classes = Classes(labels)
        C = self._classes.limit
        self._begin("multiclass" if self._multiclass else "binary", C, multiclass)

    @property
    def _multiclass(self) -> bool:
        return self._classes.limit > 2

    def learn_one(self, x: Mapping[Any, Any], y: Label, w: float = 1.0) -> None:
        """Learn one event: features `x`, label `y`, importance `w`.

        Raises
        ------
        ModelError
            For an invalid feature, label or importance; then no weak learner has changed.
        """
        weight = _weight(w)
        if weight > 0.0:
            code = self._classes.admit(y)
            if self.class_weight is not None:
                labels = dict(self._classes.known())
                classes = [labels.get(i) for i in range(self._classes.limit)]
                weight *= float(self._class_weights.learn(classes, np.array([code]))[0])
            self._learn(x, float(code), weight)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every label seen so far for features `x`."""
        shares = self._predictions(x)[0].tolist()
        known = {label: shares[i] for i, label in self._classes.known()}
        total = sum(known.values())
        if total == 0.0:
            return {label: 1.0 / len(known) for label in known}
        return {label: share / total for label, share in known.items()}

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the most probable label for features `x`, None before any label is known.

        Of two equally probable labels it is the positive one.
        """
        shares = self.predict_proba_one(x)
        if self._multiclass or len(shares) < 2:
            return max(shares, key=shares.__getitem__, default=None)
        negative, positive = shares
        return positive if shares[positive] >= 0.5 else negative


class Classes:
    """The labels of a classifier: declared, or in order of first sight.

    Parameters
    ----------
    labels
        Their maximal number, or all of them.

    Raises
    ------
    ModelError
        For fewer than two.

    Examples
    --------
    >>> classes = Classes(2)
    >>> classes.admit("stays"), classes.admit("leaves"), classes.known()
    (0, 1, [(0, 'stays'), (1, 'leaves')])
    """

    def __init__(self, labels: int | tuple[Label, ...]) -> None:
        declared = () if isinstance(labels, int) else tuple(map(to_python, labels))
        self.limit = labels if isinstance(labels, int) else len(declared)
        if self.limit < 2 or len(set(declared)) < len(declared):
            raise ModelError(f"labels: {labels!r} is not two or more; give a number or the labels")
        self._index: dict[Label, int] = {label: i for i, label in enumerate(declared)}

    def admit(self, y: Any) -> int:
        """Return the index of a label; add a new one up to the limit."""
        label = to_python(y)
        if is_missing(label):
            raise ModelError(f"label: {label!r} is missing; leave the row out until it has one")
        index = self._index.get(label)
        if index is None:
            index = self._free(label)
            self._index[label] = index
        return index

    def known(self) -> list[tuple[int, Label]]:
        """Return the labels by their index; of two, false and true unless another one came."""
        places = {i: label for label, i in self._index.items()}
        if self.limit == 2 and all(label in (0, 1) for label in self._index):
            kind = type(next(iter(self._index), False))
            places = {0: kind(0), 1: kind(1)}
        return sorted(places.items())

    def _free(self, label: Label) -> int:
        taken = set(self._index.values())
        if len(taken) == self.limit:
            raise ModelError(
                f"labels: {label!r} is one more than the {self.limit} that were seen or declared, "
                f"{list(self._index)}; name them all, or how many there are, as labels"
            )
        if self.limit == 2 and label in (0, 1) and int(label) not in taken:
            return int(label)
        return min(set(range(self.limit)) - taken)


def _label(model: Model, y: Any) -> float:
    try:
        return model.labels.encode(to_python(y))
    except ValueError as err:
        raise ModelError(str(err)) from err


def _weight(w: float) -> float:
    if not 0.0 <= w < math.inf:
        raise ModelError(f"w: {w!r} is negative or not finite; give a number >= 0")
    return float(w)
