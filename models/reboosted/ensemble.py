"""The parts of a booster of reboosted trees, and those of them that serve predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.evaluation.progress import Progress, progress
from kaboost.models.reboosted.calibration import Calibration, calibration
from kaboost.models.reboosted.component import sizes_of
from kaboost.models.reboosted.feature_scale import FeatureScale, feature_scale
from kaboost.models.reboosted.imputation import Imputation, imputation
from kaboost.models.reboosted.initial import bank, tree_builds
from kaboost.models.reboosted.label_scale import LabelScale, label_scale
from kaboost.models.reboosted.late_mixture import LateMixture, late_mixture
from kaboost.models.reboosted.linear import LINEAR_LEARNERS, LinearFilters, linear_filters
from kaboost.models.reboosted.stacking import Stack, stack
from kaboost.models.reboosted.state import Reboosted, TreeBuild, Trees
from kaboost.models.types import Ints, Loss, Vec

LINEAR_SCORES = LINEAR_LEARNERS + 1  # scores of no trees: the linear learners', the last label
# Their initial stacking weights, tuned as the variances in linear.py.
LINEAR_START_WEIGHTS = (0.1, 0.1, 0.2)


class ReboostedTrees(NamedTuple):
    """A Booster: trees, linear learners, stacking and calibration over them, loss and progress."""

    trees: Reboosted
    builds: tuple[TreeBuild, ...]  # (K,) trees that are being grown
    linear: LinearFilters
    stack: Stack  # over n scores: of K structures' leaf learners, then LINEAR_SCORES
    calibration: Calibration
    labels: LabelScale
    loss: Loss
    progress: Progress  # (K, N+1) prefixes and (K, N) edges; N trees of the longest structure
    shape: Ints  # (2,) d and 1
    calibrated: Ints  # () 1 where log-odds are calibrated
    late: LateMixture  # of the scores, served instead while labels come late
    features: FeatureScale
    imputation: Imputation

    @property
    def outputs(self) -> int:
        """The number of outputs: 1."""
        return 1

    @property
    def rule(self) -> None:
        """None: every structure is plain SGB over its trees, which are refit as a whole."""
        return None

    @property
    def learners(self) -> int:
        """The number of trees of the longest structure."""
        return int(self.progress.edge_total.shape[1])


class ServedTrees(NamedTuple):
    """The arrays of `Reboosted` that its scores need."""

    leaf_rates: Vec  # (E,)
    depth: Ints  # (K,)
    structures: tuple[Trees, ...]  # (K,)
    base_score: Vec  # (K,)
    label_means: Vec  # (5,)


class ServedModel(NamedTuple):
    """The parts of `ReboostedTrees` that its predictions need."""

    trees: ServedTrees
    linear: LinearFilters
    stack: Stack
    calibration: Calibration
    labels: LabelScale
    link: int
    calibrated: bool


def served_trees(trees: Reboosted) -> ServedTrees:
    """Return what scores need of the trees."""
    params = trees.params
    return ServedTrees(
        params.leaf_rates, params.depth, trees.structures, trees.base_score, trees.label_means
    )


def served_model(booster: ReboostedTrees) -> ServedModel:
    """Return what predictions need of the booster."""
    return ServedModel(
        trees=served_trees(booster.trees),
        linear=booster.linear,
        stack=booster.stack,
        calibration=booster.calibration,
        labels=booster.labels,
        link=int(booster.trees.params.link),
        calibrated=bool(booster.calibrated),
    )


def reboosted_trees(full: Mapping[str, Any], loss: Loss, d: int) -> ReboostedTrees:
    """Return reboosted trees before any event, from a filled-in specification."""
    sizes = sizes_of(full)
    trees = bank(sizes, d, full["seed"])
    return ReboostedTrees(
        trees=trees,
        builds=tree_builds(sizes, trees.params, d),
        linear=linear_filters(d),
        stack=fresh_stack(trees),
        calibration=calibration(),
        labels=label_scale(),
        loss=loss,
        progress=tree_progress(trees),
        shape=np.array([d, 1], np.int64),
        calibrated=np.array(int(full["bank"]["calibrate"])),
        features=feature_scale(d),
        imputation=imputation(d),
        late=late_mixture(len(trees.structures) * len(trees.params.leaf_rates) + LINEAR_SCORES),
    )


def fresh_stack(trees: Reboosted) -> Stack:
    """Return the stacking of the trees' and the linear learners' scores before any event."""
    n = len(trees.structures) * len(trees.params.leaf_rates)
    made = stack(n + LINEAR_SCORES)
    made.weights[:, :n] = (1.0 - sum(LINEAR_START_WEIGHTS)) / n
    made.weights[:, n : n + LINEAR_SCORES] = LINEAR_START_WEIGHTS
    return made


def tree_progress(trees: Reboosted) -> Progress:
    """Return the progress of every prefix and tree of K structures; nan where there is none."""
    counts = [structure.nodes.shape[0] for structure in trees.structures]
    flat = progress(max(counts))
    wide = {
        name: np.zeros((len(counts), *array.shape))
        for name, array in flat._asdict().items()
        if array.ndim == 1
    }
    for k, count in enumerate(counts):
        wide["prefix_loss_sum"][k, count + 1 :] = np.nan
    return flat._replace(**wide)


def resized_progress(old: Progress, trees: Reboosted) -> Progress:
    """Return the progress of trees whose numbers have changed, where they have.

    A new tree was empty so far: the prefix with it has the losses of the one without.
    """
    before = np.isfinite(old.prefix_loss_sum).sum(axis=1) - 1
    counts = np.array([structure.nodes.shape[0] for structure in trees.structures])
    if np.array_equal(before, counts):
        return old
    made = tree_progress(trees)
    for k, (n, count) in enumerate(zip(before, counts, strict=True)):
        source = np.minimum(np.arange(count + 1), n)
        made.prefix_loss_sum[k, : count + 1] = old.prefix_loss_sum[k, source]
        for name in ("edge_total", "edge_missed"):
            getattr(made, name)[k, : min(n, count)] = getattr(old, name)[k, : min(n, count)]
    scalars = {name: array for name, array in old._asdict().items() if array.ndim == 0}
    return made._replace(**scalars)
