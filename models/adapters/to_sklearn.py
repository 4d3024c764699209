"""scikit-learn estimators over a `Model`: fit, partial_fit, predict, predict_proba.

Features are columns of numbers, nan where a value is missing, and of texts, which are categories;
numbers are standardised for banks other than reboosted trees. `fit` learns rows in a random order,
since many tables are sorted by label; `partial_fit` in the order of the table.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import check_array, check_consistent_length, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kaboost.models.adapters.class_weights import ClassWeight, ClassWeights
from kaboost.models.adapters.sklearn_columns import Kinds, Rows, has_texts, kinds_of, read_rows
from kaboost.models.build import check
from kaboost.models.features.frames import as_pandas
from kaboost.models.features.labels import AUTO, class_array, encode_growing
from kaboost.models.features.onehot import Table
from kaboost.models.model import Model
from kaboost.models.one_vs_rest import ONE_VS_REST, binary_task
from kaboost.models.spec import TREES
from kaboost.models.types import Mat, ModelError, Vec, to_python

Words = str | dict[str, Any]

FINITE = "allow-nan"
PASSES = 10  # of `fit`, for banks other than reboosted trees, which keep rows


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
        rule: Words | None = None,
        bank: Words | None = None,
        loss: Words | None = None,
        seed: int = 1,
        epochs: int | None = None,
        shuffle: bool = True,
    ) -> None:
        self.rule = rule
        self.bank = bank
        self.loss = loss
        self.seed = seed
        self.epochs = epochs
        self.shuffle = shuffle

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the rows `epochs` times with a new model.

        Parameters
        ----------
        X
            (B, d) numbers and texts; nan is missing, infinite numbers are refused. A column with
            texts that are no numbers, and a categorical one of pandas, is a category.
        y
            (B,) labels.
        sample_weight
            (B,) importances >= 0; 1 by default.

        Raises
        ------
        ValueError
            For invalid rows, labels, weights or parameters.
        """
        rows, y, w = self._read(X, y, sample_weight, reset=True)
        self._begin(y)
        w = w * self._fit_weights(y)
        r, order = np.random.default_rng(self.seed), np.arange(len(rows))
        for _ in range(self._passes()):
            order = r.permutation(len(rows)) if self.shuffle else order
            self._learn(rows.take(order), y[order], w[order])
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _spec(self, task: str) -> dict[str, Any]:
        parts = {"rule": self.rule, "bank": self.bank, "loss": self.loss}
        return {word: value for word, value in parts.items() if value is not None} | {
            "seed": self.seed
        }

    def _passes(self) -> int:
        if self.epochs is not None:
            return self.epochs
        model: Model | None = self.model_  # None where there is only one class
        return 1 if model is not None and model.spec["bank"]["kind"] == TREES else PASSES

    def _read(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[Rows, NDArray[Any], Vec]:
        _check_epochs(self.epochs)
        X = as_pandas(X)
        numeric = self._numeric_labels
        if (not reset and self.kinds_ is not None) or (reset and has_texts(X)):
            rows = self._read_texts(X, reset=reset)
            labels = check_array(y, ensure_2d=False, dtype=np.float64 if numeric else None)
            check_consistent_length(rows.numbers, labels)
        else:
            X, labels = validate_data(
                self, X, y, dtype=np.float64, reset=reset, y_numeric=numeric,
                ensure_all_finite=FINITE,
            )  # fmt: skip
            self.kinds_ = None if reset else self.kinds_
            rows = Rows(np.asarray(X, np.float64), [])
        weights = _check_sample_weight(sample_weight, rows.numbers, ensure_non_negative=True)
        return rows, labels, weights

    def _new_model(self, task: str, classes: int | str | None = None) -> Model:
        kinds = self.kinds_ or ("number",) * self.n_features_in_
        schema = {f"f{j}": kind for j, kind in enumerate(kinds)}
        labels = list(range(classes)) if isinstance(classes, int) else classes
        return Model(task, self._spec(task), schema, labels)

    def _rows(self, X: ArrayLike) -> Table:
        check_is_fitted(self)
        X = as_pandas(X)
        if self.kinds_ is not None:
            return self._read_texts(X, reset=False).table()
        rows = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=FINITE)
        return Rows(rows, []).table()

    def _read_texts(self, X: Any, *, reset: bool) -> Rows:
        """Return the rows of a table with texts; on reset its columns decide the kinds."""
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self.kinds_ = kinds_of(X)
        assert self.kinds_ is not None
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return read_rows(X, self.kinds_, list(map(str, names)))

    @property
    def feature_importances_(self) -> Vec:
        """The importance (d,) of every column: its part of the variance of all contributions.

        Raises
        ------
        AttributeError
            Before the first fit, and for banks without trees.
        """
        model: Model | None = getattr(self, "model_", None)
        if model is None:
            raise AttributeError("feature_importances_: there are none before fit; call it first")
        try:
            found = {share.name: share.share for share in model.importance()}
        except ModelError as err:
            raise AttributeError(f"feature_importances_: {err}") from err
        shares = np.array([found[f"f{j}"] for j in range(self.n_features_in_)])
        total = shares.sum()
        return shares / total if total > 0.0 else shares

    def _fit_weights(self, y: NDArray[Any]) -> Vec:
        """Return factors (B,) on the weights of the rows of `fit`."""
        return np.ones(len(y))

    _numeric_labels: ClassVar[bool] = True

    def _begin(self, y: NDArray[Any]) -> None:
        raise NotImplementedError

    kinds_: Kinds | None  # of the columns, None where all are numbers

    def _learn(self, rows: Rows, y: NDArray[Any], w: Vec) -> None:
        raise NotImplementedError


class Regressor(RegressorMixin, _Online):  # type: ignore[misc]
    """Online gradient boosting for numbers, as a scikit-learn estimator.

    Parameters
    ----------
    rule, bank, loss
        As in `kaboost.models.build`: a kind, or a dict with its parameters; None is the default of
        `Model`, reboosted trees and squared loss.
    seed
        Seed of all random draws.
    epochs
        Passes of `fit` over its rows; None is 1 for reboosted trees and 10 for other banks.
        `partial_fit` makes one.
    shuffle
        Whether every pass of `fit` draws a new order of the rows; False for rows in time order.

    Examples
    --------
    >>> import kaboost
    >>> regressor = kaboost.Regressor(bank="linear", epochs=200)
    >>> regressor = regressor.fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0])
    >>> regressor.predict([[1.0]]).round(1).tolist()
    [2.0]
    """

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows in order, continuing the last call; see `fit`."""
        fresh = not hasattr(self, "model_")
        rows, labels, weights = self._read(X, y, sample_weight, reset=fresh)
        if fresh:
            self._begin(labels)
        self._learn(rows, labels, weights)
        return self

    def predict(self, X: ArrayLike) -> Vec:
        """Return the predictions (B,) for X (B, d)."""
        rows = self._rows(X)
        return self.model_.predictions(self.model_.predict(rows))

    def _begin(self, y: NDArray[Any]) -> None:
        self.model_ = self._new_model("regression")

    def _learn(self, rows: Rows, y: NDArray[Any], w: Vec) -> None:
        self.model_.learn(rows.table(), np.asarray(y, np.float64), w)


class Classifier(ClassifierMixin, _Online):  # type: ignore[misc]
    """Online gradient boosting for classes, as a scikit-learn estimator.

    Parameters
    ----------
    rule, bank, loss
        As in `kaboost.models.build`: a kind, or a dict with its parameters; None is the default of
        `Model`, reboosted trees and logistic loss; a booster for every class of several.
    seed
        Seed of all random draws.
    epochs
        Passes of `fit` over its rows; None is 1 for reboosted trees and 10 for other banks.
        `partial_fit` makes one.
    shuffle
        Whether every pass of `fit` draws a new order of the rows; False for rows in time order.
    multiclass
        `one_vs_rest` for a binary rule, bank or loss where there are more classes;
        `shared_trees` for reboosted trees with a value per class at every leaf.
    class_weight
        Class to factor on the weights of its rows, or `balanced`: rows over classes times rows of
        the class, in `partial_fit` of the rows so far.

    Examples
    --------
    >>> import kaboost
    >>> classifier = kaboost.Classifier().partial_fit([[0.0], [1.0]], ["no", "yes"])
    >>> classifier.classes_.tolist()
    ['no', 'yes']
    """

    _numeric_labels: ClassVar[bool] = False
    model_: Model | None  # None where there is only one class
    classes_: NDArray[Any]
    class_weights_: ClassWeights

    def __init__(
        self,
        rule: Words | None = None,
        bank: Words | None = None,
        loss: Words | None = None,
        seed: int = 1,
        epochs: int | None = None,
        multiclass: str | None = None,
        shuffle: bool = True,
        class_weight: ClassWeight = None,
    ) -> None:
        super().__init__(rule, bank, loss, seed, epochs, shuffle)
        self.multiclass = multiclass
        self.class_weight = class_weight

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows in order, continuing the last call; see `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes
            All classes; needed in the first call unless its labels contain them all. Or `auto` in
            the first call: at most 50 classes are learned as they come, and `classes_` has them in
            order of first sight.

        Raises
        ------
        ValueError
            For a class that was not among them, and as for `fit`.
        """
        fresh = not hasattr(self, "model_")
        rows, labels, weights = self._read(X, y, sample_weight, reset=fresh)
        grows = isinstance(classes, str) and classes == AUTO
        if fresh and grows:
            self.model_ = self._new_model("multiclass", AUTO)
            self.class_weights_ = ClassWeights(self.class_weight)
        if not fresh and classes is None:
            grows = self.model_ is not None and self.model_.labels.is_open
        if grows:
            return self._learn_growing(rows, labels, weights)
        if fresh:
            self._begin(labels if classes is None else np.asarray(classes))
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"classes: {classes!r} is not the {self.classes_!r} of the first call")
        self._check_known(labels)
        codes = np.searchsorted(self.classes_, labels)
        self._learn(rows, labels, weights * self.class_weights_.learn(self._labels, codes))
        return self

    def _learn_growing(self, rows: Rows, y: NDArray[Any], w: Vec) -> Self:
        """Learn rows whose labels may begin classes."""
        check_classification_targets(y)
        model = self.model_
        if model is None or not model.labels.is_open:
            raise ValueError("classes: 'auto' is for the first call; leave it out")
        codes, known = encode_growing(model.labels, y, w)
        model.check_classes(known)
        factors = self.class_weights_.learn(list(known.classes), codes.astype(np.int64))
        model.learn_classes(rows.table(), codes, w * factors, known)
        self.classes_ = class_array(model.classes_)
        return self

    @property
    def _labels(self) -> list[Any]:
        return list(map(to_python, self.classes_))

    def _fit_weights(self, y: NDArray[Any]) -> Vec:
        if self.class_weight is None:
            return np.ones(len(y))
        return np.asarray(compute_sample_weight(self.class_weight, y), np.float64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class (B,) for X (B, d).

        Of equally probable classes it is the first, as in all of scikit-learn; `Model` returns the
        positive one.
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
        shares = self.model_.predictions(self.model_.predict(rows))
        return shares

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._refusal("multiclass", 3) is None
        return tags

    def _refusal(self, task: str, classes: int) -> ModelError | None:
        """Return why no model can be built for a task; None if one can."""
        d, m = getattr(self, "n_features_in_", 1), classes if task == "multiclass" else 1
        try:
            check(self._spec(task), d, m, task=task)
        except ModelError as err:
            return err
        return None

    def _fits_wrapped(self, classes: int) -> bool:
        wrapped = clone(self).set_params(multiclass=ONE_VS_REST)
        wrapped.n_features_in_ = self.n_features_in_
        return wrapped._refusal("multiclass", classes) is None

    def _spec(self, task: str) -> dict[str, Any]:
        spec, wrapper = super()._spec(task), self.multiclass
        bank = self.bank.get("kind") if isinstance(self.bank, dict) else self.bank
        if bank == TREES:  # one output: the default model is wrapped as well, by default
            wrapper = wrapper or ONE_VS_REST
        wrapped = wrapper is not None and task == "multiclass"
        return {**spec, "multiclass": wrapper} if wrapped else spec

    def _begin(self, y: NDArray[Any]) -> None:
        check_classification_targets(y)
        classes = np.unique(y)
        C = len(classes)
        if self.multiclass is not None:
            binary_task(self.multiclass, "multiclass")
        refusal = self._refusal("multiclass", C) if C > 2 else None
        if refusal is not None and self._fits_wrapped(C):
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{C} classes; {refusal}, or take multiclass='one_vs_rest'"
            ) from refusal
        # Of one class there is nothing to learn.
        self.model_ = None if C == 1 else self._new_model("binary" if C == 2 else "multiclass", C)
        self.classes_ = classes
        self.class_weights_ = ClassWeights(self.class_weight)

    def _check_known(self, y: NDArray[Any]) -> None:
        """Raise for a class that was not there in the first call."""
        check_classification_targets(y)
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(
                f"y: {to_python(y[~known][0])!r} is not one of the classes "
                f"{self.classes_.tolist()}; name every class in the first partial_fit"
            )

    def _learn(self, rows: Rows, y: NDArray[Any], w: Vec) -> None:
        if self.model_ is not None:
            encoded = np.searchsorted(self.classes_, y).astype(np.float64)
            self.model_.learn(rows.table(), encoded, w)


def _check_epochs(epochs: object) -> None:
    if epochs is None:
        return
    if isinstance(epochs, bool) or not isinstance(epochs, int | np.integer) or epochs < 1:
        raise ValueError(f"epochs: {epochs!r} is not a whole number from 1 on")
