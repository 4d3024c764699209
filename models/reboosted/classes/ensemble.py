"""The parts of reboosted trees of several classes, and those of them that serve predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.evaluation.progress import Progress
from kaboost.models.reboosted.calibration import Calibration, calibration
from kaboost.models.reboosted.classes.state import ClassBuild, ClassSums, class_build, class_sums
from kaboost.models.reboosted.component import sizes_of
from kaboost.models.reboosted.ensemble import LINEAR_SCORES, fresh_stack, tree_progress
from kaboost.models.reboosted.feature_scale import FeatureScale, feature_scale
from kaboost.models.reboosted.imputation import Imputation, imputation
from kaboost.models.reboosted.initial import bank, tree_builds
from kaboost.models.reboosted.label_scale import LabelScale, label_scale
from kaboost.models.reboosted.late_mixture import LateMixture, late_mixture
from kaboost.models.reboosted.linear import LinearFilters, linear_filters
from kaboost.models.reboosted.stacking import Stack
from kaboost.models.reboosted.state import Reboosted, Trees
from kaboost.models.types import Ints, Loss, Vec

SHARED_COLUMNS = ("mean", "variance", "counts", "scaled", "scale", "events", "categorical")


class ClassTrees(NamedTuple):
    """A Booster of C classes: trees with a value per class at every leaf; linear learners, stacking
    and calibration of each class over them. A class without an event yet may be the last of all
    arrays: it stands for those to come.
    """

    trees: Reboosted  # rows (N, leaves, 7C + 1), base scores (K, C), prefixes (K, R, C)
    builds: tuple[ClassBuild, ...]  # (K,) trees that are being grown
    linear: LinearFilters  # weights, variances, energy and mean weights begin with an axis of C
    stack: Stack  # every array begins with an axis of C
    calibration: Calibration  # the same
    labels: LabelScale  # of importances and lateness; the rest is constant
    sums: ClassSums
    loss: Loss  # of one class against the rest
    progress: Progress  # losses are those of the softmax
    shape: Ints  # (2,) d and C; where classes are learned, (3,) with how many memory is for
    calibrated: Ints  # () 1 where log-odds are calibrated
    late: LateMixture  # every array begins with an axis of C
    features: FeatureScale
    imputation: Imputation

    @property
    def outputs(self) -> int:
        """The number of classes so far."""
        return int(self.shape[1])

    @property
    def columns(self) -> int:
        """The number of classes that arrays hold, C: one more where classes can come."""
        return len(self.sums.means)

    @property
    def shares(self) -> int:
        """How many classes memory is planned for."""
        return int(self.shape[-1])

    @property
    def rule(self) -> None:
        """None: every structure is plain SGB over its trees, which are refit as a whole."""
        return None

    @property
    def learners(self) -> int:
        """The number of trees of the longest structure."""
        return int(self.progress.edge_total.shape[1])


class ServedClasses(NamedTuple):
    """The parts of `ClassTrees` that its predictions need."""

    leaf_rates: Vec  # (E,)
    depth: Ints  # (K,)
    structures: tuple[Trees, ...]  # (K,)
    base_score: Vec  # (K, C)
    label_means: Vec  # (5,)
    linear: LinearFilters
    stack: Stack
    calibration: Calibration
    last: Vec  # (C,)
    calibrated: bool


def served_classes(booster: ClassTrees) -> ServedClasses:
    """Return what predictions need of the booster."""
    bank = booster.trees
    return ServedClasses(
        leaf_rates=bank.params.leaf_rates,
        depth=bank.params.depth,
        structures=bank.structures,
        base_score=bank.base_score,
        label_means=bank.label_means,
        linear=booster.linear,
        stack=booster.stack,
        calibration=booster.calibration,
        last=booster.sums.last,
        calibrated=bool(booster.calibrated),
    )


def class_trees(full: Mapping[str, Any], loss: Loss, shape: Ints, *, closed: bool) -> ClassTrees:
    """Return trees of classes before any event, from a filled-in specification.

    Parameters
    ----------
    full, loss
        The specification, with how many classes memory is planned for, and the binary loss.
    shape
        Of the booster.
    closed
        Whether no class can come: there is none that stands for those to come.
    """
    d, C = int(shape[0]), int(shape[1]) + (not closed)
    sizes = sizes_of(full)._replace(columns=C)
    trees = bank(sizes, d, full["seed"])
    K = len(trees.structures)
    scores = K * len(trees.params.leaf_rates) + LINEAR_SCORES
    labels = label_scale()
    labels.residual[...] = 1.0
    return ClassTrees(
        trees=trees,
        builds=tuple(class_build(one, C) for one in tree_builds(sizes, trees.params, d)),
        linear=by_class(linear_filters(d), C, SHARED_COLUMNS),
        stack=by_class(fresh_stack(trees), C),
        calibration=by_class(calibration(), C),
        labels=labels,
        sums=class_sums(K, C),
        loss=loss,
        progress=tree_progress(trees),
        shape=shape,
        calibrated=np.array(int(full["bank"]["calibrate"])),
        late=by_class(late_mixture(scores), C),
        features=feature_scale(d),
        imputation=imputation(d),
    )


def by_class(part: Any, C: int, shared: tuple[str, ...] = ()) -> Any:
    """Return a part of one class as that of C classes which all are as it is."""
    return part._replace(
        **{
            name: np.repeat(value[None], C, axis=0)
            for name, value in part._asdict().items()
            if name not in shared
        }
    )
