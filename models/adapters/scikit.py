"""scikit-learn estimators over a `Model`: fit, partial_fit, predict, predict_proba.

Numeric features in columns; each is standardised as it is learned. The events of a call are learned
in the order of its rows.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from models.build import build
from models.encoding import Table
from models.model import Model
from models.one_vs_rest import binary_task
from models.types import Mat, ModelError, Vec, plain

Words = str | dict[str, Any]


class _Online(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: parameters, columns as features, passes over the rows."""

    # Checks of scikit-learn that an online learner cannot pass, and why.
    cannot_hold: ClassVar[dict[str, str]] = {
        "check_sample_weight_equivalence_on_dense_data": (
            "a weight makes one step longer, a repeated row makes several steps"
        ),
    }

    def __init__(
        self,
        rule: Words = "sgb",
        bank: Words = "linear",
        loss: Words | None = None,
        seed: int = 1,
        epochs: int = 10,
    ) -> None:
        self.rule = rule
        self.bank = bank
        self.loss = loss
        self.seed = seed
        self.epochs = epochs

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Start anew and learn the rows in order, `epochs` times.

        Parameters
        ----------
        X
            (B, d) finite numbers.
        y
            (B,) labels.
        sample_weight
            (B,) importances >= 0; 1 where left out.

        Raises
        ------
        ValueError
            For rows, labels, weights or parameters that cannot be.
        """
        X, y, w = self._read(X, y, sample_weight, reset=True)
        self._begin(y)
        for _ in range(self.epochs):
            self._learn(X, y, w)
        return self

    def _spec(self, task: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"rule": self.rule, "bank": self.bank, "seed": self.seed}
        return spec if self.loss is None else {**spec, "loss": self.loss}

    def _read(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[Mat, NDArray[Any], Vec]:
        _check_epochs(self.epochs)
        numeric = self._numeric_labels
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=reset, y_numeric=numeric)
        weights = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        return rows, labels, weights

    def _new_model(self, task: str, classes: int | None = None) -> Model:
        schema = {f"f{j}": "number" for j in range(self.n_features_in_)}
        labels = None if classes is None else list(range(classes))
        return Model(task, self._spec(task), schema, labels)

    def _rows(self, X: ArrayLike) -> Table:
        check_is_fitted(self)
        return _table(validate_data(self, X, dtype=np.float64, reset=False))

    _numeric_labels: ClassVar[bool] = True

    def _begin(self, y: NDArray[Any]) -> None:
        raise NotImplementedError

    def _learn(self, X: Mat, y: NDArray[Any], w: Vec) -> None:
        raise NotImplementedError


class Regressor(RegressorMixin, _Online):  # type: ignore[misc]
    """Online gradient boosting for numbers, as a scikit-learn estimator.

    Parameters
    ----------
    rule, bank, loss
        As in `models.build`: a kind, or a dict with its parameters; loss None is squared.
    seed
        Where every random draw starts.
    epochs
        Passes of `fit` over its rows, 10 where left out; `partial_fit` makes one.

    Examples
    --------
    >>> import models
    >>> regressor = models.Regressor(epochs=200).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0])
    >>> regressor.predict([[1.0]]).round(1).tolist()
    [2.0]
    """

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows in order, going on from where the last call stopped; see `fit`."""
        fresh = not hasattr(self, "model_")
        rows, labels, weights = self._read(X, y, sample_weight, reset=fresh)
        if fresh:
            self._begin(labels)
        self._learn(rows, labels, weights)
        return self

    def predict(self, X: ArrayLike) -> Vec:
        """Return the predictions (B,) for X (B, d)."""
        rows = self._rows(X)
        return self.model_.predictions(self.model_.predict_table(rows))

    def _begin(self, y: NDArray[Any]) -> None:
        self.model_ = self._new_model("regression")

    def _learn(self, X: Mat, y: NDArray[Any], w: Vec) -> None:
        self.model_.learn_table(_table(X), np.asarray(y, np.float64), w)


class Classifier(ClassifierMixin, _Online):  # type: ignore[misc]
    """Online gradient boosting for classes, as a scikit-learn estimator.

    Parameters
    ----------
    rule, bank, loss
        As in `models.build`: a kind, or a dict with its parameters; loss None is logistic, or
        softmax for more than two classes.
    seed
        Where every random draw starts.
    epochs
        Passes of `fit` over its rows, 10 where left out; `partial_fit` makes one.
    multiclass
        `one_vs_rest` for a binary rule or loss where there are more than two classes.

    Examples
    --------
    >>> import models
    >>> classifier = models.Classifier().partial_fit([[0.0], [1.0]], ["no", "yes"])
    >>> classifier.classes_.tolist()
    ['no', 'yes']
    """

    _numeric_labels: ClassVar[bool] = False

    def __init__(
        self,
        rule: Words = "sgb",
        bank: Words = "linear",
        loss: Words | None = None,
        seed: int = 1,
        epochs: int = 10,
        multiclass: str | None = None,
    ) -> None:
        super().__init__(rule, bank, loss, seed, epochs)
        self.multiclass = multiclass

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows in order, going on from where the last call stopped; see `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes
            Every class there will be; needed in the first call unless its labels show them all.

        Raises
        ------
        ValueError
            For a class that was not among them, beside what `fit` raises for.
        """
        fresh = not hasattr(self, "model_")
        rows, labels, weights = self._read(X, y, sample_weight, reset=fresh)
        if fresh:
            self._begin(labels if classes is None else np.asarray(classes))
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"classes: {classes!r} is not the {self.classes_!r} of the first call")
        self._learn(rows, labels, weights)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest class (B,) for X (B, d); of equals the first, as scikit-learn does
        it everywhere, where `Model` takes the positive one.
        """
        shares = self._shares(X)
        chosen: NDArray[Any] = self.classes_[shares.argmax(axis=1)]
        return chosen

    def predict_proba(self, X: ArrayLike) -> Mat:
        """Return the probability (B, C) of every class, in the order of `classes_`."""
        return self._shares(X)

    def _shares(self, X: ArrayLike) -> Mat:
        rows = self._rows(X)
        if self.model_ is None:
            return np.ones((len(rows.numbers), 1))
        shares = self.model_.predictions(self.model_.predict_table(rows))
        return shares

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._refusal("multiclass", 3) is None
        return tags

    def _refusal(self, task: str, classes: int) -> ModelError | None:
        """Return why there is no model of the parameters for a task, None where there is one."""
        d, m = getattr(self, "n_features_in_", 1), classes if task == "multiclass" else 1
        try:
            build(self._spec(task), d, m, task=task)
        except ModelError as err:
            return err
        return None

    def _spec(self, task: str) -> dict[str, Any]:
        spec = super()._spec(task)
        wrapped = self.multiclass is not None and task == "multiclass"
        return {**spec, "multiclass": self.multiclass} if wrapped else spec

    def _begin(self, y: NDArray[Any]) -> None:
        check_classification_targets(y)
        classes = np.unique(y)
        C = len(classes)
        if self.multiclass is not None:
            binary_task(self.multiclass, "multiclass")
        refusal = self._refusal("multiclass", C) if C > 2 else None
        if refusal is not None and self._refusal("binary", 2) is None:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{C} classes; {refusal}, or take multiclass='one_vs_rest'"
            ) from refusal
        # One class alone is always right; there is nothing to learn.
        self.model_ = None if C == 1 else self._new_model("binary" if C == 2 else "multiclass", C)
        self.classes_ = classes

    def _learn(self, X: Mat, y: NDArray[Any], w: Vec) -> None:
        check_classification_targets(y)
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(
                f"y: {plain(y[~known][0])!r} is not one of the classes {self.classes_.tolist()}; "
                "name every class in the first partial_fit"
            )
        if self.model_ is not None:
            encoded = np.searchsorted(self.classes_, y).astype(np.float64)
            self.model_.learn_table(_table(X), encoded, w)


def _check_epochs(epochs: object) -> None:
    if not isinstance(epochs, int) or epochs < 1:
        raise ValueError(f"epochs: {epochs!r} is not a whole number from 1 on")


def _table(X: Mat) -> Table:
    return Table(np.ascontiguousarray(X), np.empty((len(X), 0)), [])
