"""State of trees whose leaves hold a value per class, and views of one class of it.

C counts the classes, and one more where classes are learned as they come: it stands for all that
are still to come. Scores of classes are logits; the probabilities of a structure's leaf learner
are their softmax.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import inlined
from kaboost.models.kernels.memory import zeros
from kaboost.models.kernels.random import State
from kaboost.models.reboosted.calibration import Calibration
from kaboost.models.reboosted.linear import LinearFilters
from kaboost.models.reboosted.stacking import Stack
from kaboost.models.reboosted.state import Codes, Places, Records, Runs, TreeBuild
from kaboost.models.types import Ints, Vec
from kaboost.models.verbs import learning_only

LEARNERS = 5  # of leaves; the last one does not learn
FIT_LEAVES = 7  # step of a build between growing its tree and adding it to the prefixes

Singles = NDArray[np.float32]


class ClassBuild(NamedTuple):
    """The tree of one structure that is being grown: the fields of `TreeBuild`, and those of
    classes.

    The tree is grown for the gradients along one random direction of the logits.
    """

    cursor: Records
    scale: Records
    generator: State
    codes: Codes
    gradients: Vec  # (r,) along the direction
    hessians: Vec  # (r,) along the direction
    weights: Vec
    packed: Ints
    order: Places
    spare: Places
    columns: Runs
    half_bins: Ints
    first_bins: Runs
    histograms: Ints
    nodes: Records
    gains: Vec
    code_nodes: Ints
    served_nodes: Ints
    node_values: Vec  # (M,) along the direction
    leaf_values: Vec  # (leaves,) along the direction
    split_gain: Vec
    sums: Ints
    positions: Places
    direction: Vec  # (C,)
    class_gradients: Singles  # (r, C)
    class_hessians: Singles  # (r, C)
    class_sums: Vec  # (2C,) scratch: gradients, hessians of a leaf; at first labels of the window
    class_base: Vec  # (C,) logits of the window's labels
    class_values: Singles  # (M, C) of the tree's leaves, by node


AnyBuild = Any  # for type checkers: a ClassBuild where kernels expect the fields of a TreeBuild


class ClassSums(NamedTuple):
    """Running sums of classes."""

    means: Vec  # (C,) running mean of the labels, 1 for its events and 0 for others
    last: Vec  # (C,) the same with the first rate of the label means: by default, the last label
    gradient_squares: Singles  # (K, C) since AdaGrad's sums were last updated


@learning_only.register
def _(part: ClassBuild) -> tuple[str, ...]:
    return part._fields


@learning_only.register
def _(part: ClassSums) -> tuple[str, ...]:
    return ("gradient_squares",)


def class_sums(K: int, C: int) -> ClassSums:
    """Return the sums before any event."""
    return ClassSums(np.zeros(C), np.zeros(C), np.zeros((K, C), np.float32))


def class_build(build: TreeBuild | ClassBuild, C: int) -> ClassBuild:
    """Return a build of trees of C classes that is not started, over the arrays of another one."""
    r, M = len(build.gradients), len(build.gains)
    shared: dict[str, Any] = {name: getattr(build, name) for name in TreeBuild._fields}
    return ClassBuild(
        **shared,
        direction=np.zeros(C),
        class_gradients=zeros((r, C), np.float32),
        class_hessians=zeros((r, C), np.float32),
        class_sums=np.zeros(2 * C),
        class_base=np.zeros(C),
        class_values=np.zeros((M, C), np.float32),
    )


@inlined
def class_filters(filters: LinearFilters, c: int) -> LinearFilters:
    """Return the linear learners of class c; statistics of columns are shared."""
    return LinearFilters(
        filters.weights[c],
        filters.variances[c],
        filters.mean,
        filters.variance,
        filters.counts,
        filters.scaled,
        filters.energy[c],
        filters.scale,
        filters.events,
        filters.mean_weights[c],
        filters.categorical,
    )


@inlined
def class_stack(stack: Stack, c: int) -> Stack:
    """Return the stacking of class c."""
    return Stack(
        stack.weights[c], stack.covariance[c], stack.score_losses[c], stack.mixture_losses[c]
    )


# What only learning reads is missing in snapshots: served parts name the weights in its place.
@inlined
def served_filters(filters: LinearFilters, c: int) -> LinearFilters:
    """Return what predictions need of the linear learners of class c."""
    return LinearFilters(
        filters.weights[c],
        filters.weights[c],
        filters.mean,
        filters.variance,
        filters.counts,
        filters.scaled,
        filters.energy[c],
        filters.scale,
        filters.events,
        filters.mean_weights[c],
        filters.categorical,
    )


@inlined
def served_stack(stack: Stack, c: int) -> Stack:
    """Return what predictions need of the stacking of class c."""
    return Stack(stack.weights[c], stack.weights[c], stack.score_losses[c], stack.mixture_losses[c])


@inlined
def class_calibration(calibration: Calibration, c: int) -> Calibration:
    """Return the calibration of class c."""
    return Calibration(calibration.knots[c], calibration.squares[c], calibration.losses[c])
