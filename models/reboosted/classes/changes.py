"""More classes, more features, or other sizes, for trees of classes that have learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.booster import add_features, predictions, warm_growth, with_class, with_shares
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.add_features import with_features as with_more_features
from kaboost.models.reboosted.background import NO_STOP
from kaboost.models.reboosted.classes.commit import commit_tree
from kaboost.models.reboosted.classes.ensemble import SHARED_COLUMNS, ClassTrees
from kaboost.models.reboosted.classes.learn import grow_in_background, learn_scratch
from kaboost.models.reboosted.classes.state import ClassBuild, class_build
from kaboost.models.reboosted.component import sizes_of
from kaboost.models.reboosted.ensemble import resized_progress
from kaboost.models.reboosted.feature_scale import with_features as with_more_scales
from kaboost.models.reboosted.imputation import with_features as with_more_imputation
from kaboost.models.reboosted.linear import LinearFilters
from kaboost.models.reboosted.linear import with_features as with_more_columns
from kaboost.models.reboosted.memory import affordable_window
from kaboost.models.reboosted.state import CLASS_LANES, IDLE, UNASSIGNED, Reboosted, Trees
from kaboost.models.reboosted.trees.cost import SLICE_NS
from kaboost.models.reboosted.trees.rebinning import update_bins


@add_features.register
def _(booster: ClassTrees, full: Mapping[str, Any], d: int) -> ClassTrees:
    planned = {**full, "classes": booster.shares, "columns": booster.columns}
    sizes = sizes_of(planned)
    affordable_window(sizes, d)  # raises before anything changes
    _finish_builds(booster)
    trees, builds = with_more_features(booster.trees, sizes, d)
    return booster._replace(
        trees=trees,
        builds=tuple(class_build(one, booster.columns) for one in builds),
        linear=_with_columns(booster.linear, d),
        shape=np.array([d, *booster.shape[1:]], np.int64),
        progress=resized_progress(booster.progress, trees),
        features=with_more_scales(booster.features, d),
        imputation=with_more_imputation(booster.imputation, d),
    )


def _with_columns(old: LinearFilters, d: int) -> LinearFilters:
    """Return the linear learners of all classes over d columns."""
    made = [
        with_more_columns(class_view(old, c, SHARED_COLUMNS), d) for c in range(len(old.weights))
    ]
    own = {
        name: np.array([getattr(one, name) for one in made])
        for name in LinearFilters._fields
        if name not in SHARED_COLUMNS
    }
    return made[0]._replace(**own)


def class_view(part: Any, c: int, shared: tuple[str, ...] = ()) -> Any:
    """Return what a part has of class c, over the same arrays."""
    values = {name: value for name, value in part._asdict().items() if name not in shared}
    return part._replace(**{name: _of_class(value, c) for name, value in values.items()})


def _of_class(array: Any, c: int) -> Any:
    """Return class c of an array; what only learning reads is empty in a snapshot."""
    return array[c, ...] if len(array) else np.empty((0,) * (array.ndim - 1))


@with_shares.register
def _(booster: ClassTrees, full: Mapping[str, Any], shares: int) -> ClassTrees:
    shape = np.array([*booster.shape[:-1], shares], np.int64)
    made: ClassTrees = add_features(booster._replace(shape=shape), full, int(booster.shape[0]))
    return made


@with_class.register
def _(booster: ClassTrees, max_classes: int) -> ClassTrees:
    shape = np.array([booster.shape[0], booster.outputs + 1, booster.shares], np.int64)
    if booster.columns == max_classes:  # none is left to come: the last one is that of this class
        return booster._replace(shape=shape)
    _finish_builds(booster)
    bank, sums, late = booster.trees, booster.sums, booster.late
    trees = bank._replace(
        structures=tuple(_with_column(one, booster.columns) for one in bank.structures),
        base_score=_repeated(bank.base_score, 1),
        window=bank.window._replace(prefix=_repeated(bank.window.prefix, 2)),
    )
    own = [name for name in LinearFilters._fields if name not in SHARED_COLUMNS]
    linear = {name: _repeated(getattr(booster.linear, name), 0) for name in own}
    return booster._replace(
        trees=trees,
        builds=tuple(class_build(one, booster.columns + 1) for one in booster.builds),
        linear=booster.linear._replace(**linear),
        stack=_all_repeated(booster.stack),
        calibration=_all_repeated(booster.calibration),
        late=_all_repeated(late),
        sums=sums._replace(
            means=_repeated(sums.means, 0),
            last=_repeated(sums.last, 0),
            gradient_squares=_repeated(sums.gradient_squares, 1),
        ),
        shape=shape,
    )


def _repeated(array: Any, axis: int) -> Any:
    """Return the array with its last entries along an axis twice."""
    last = np.take(array, [-1], axis=axis)
    return np.ascontiguousarray(np.concatenate([array, last], axis=axis))


def _all_repeated(part: Any) -> Any:
    return type(part)(*(_repeated(array, 0) for array in part))


def _with_column(trees: Trees, C: int) -> Trees:
    """Return trees whose leaf rows (N, leaves, 7C + 1) have the last class twice."""
    lanes = trees.rows[:, :, : CLASS_LANES * C].reshape(*trees.rows.shape[:2], CLASS_LANES, C)
    wide = _repeated(lanes, 3).reshape(*trees.rows.shape[:2], CLASS_LANES * (C + 1))
    return trees._replace(rows=np.concatenate([wide, trees.rows[:, :, -1:]], axis=2))


@warm_growth.register
def _(booster: ClassTrees) -> None:
    _commit_builds(booster.trees, booster.builds, 0)
    predictions(booster, np.empty((0, 1)))


def _finish_builds(booster: ClassTrees) -> None:
    """Finish all trees and bins that are being made."""
    status = booster.trees.schedule.status
    for k in np.flatnonzero(status != UNASSIGNED):
        grow_in_background(booster, learn_scratch(booster), int(k), NO_STOP)
    _commit_builds(booster.trees, booster.builds, len(status))


@kernel
def _commit_builds(bank: Reboosted, builds: tuple[ClassBuild, ...], structures: int) -> None:
    """Commit the grown trees of the first structures, and finish the bins that are being made."""
    schedule, bins, t = bank.schedule, bank.bins, int(bank.schedule.time[()])
    for k in range(structures):
        while schedule.status[k] != UNASSIGNED:
            commit_tree(bank, builds[k], k, t, SLICE_NS)
    while structures > 0 and bins.progress[0].step != IDLE:
        update_bins(bins, bank.window.codes, t, schedule.status)
