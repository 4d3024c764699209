"""What reboosted trees are made of: the trees that serve, and the window, bins and builds that
learning needs beside them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.memory import zeros
from kaboost.models.kernels.random import State, generator
from kaboost.models.reboosted.linear import state_bytes as lines
from kaboost.models.reboosted.trees.traverse import PREFIX_BLOCK
from kaboost.models.types import Ints, Mat, ModelError, Vec
from kaboost.models.verbs import learning_only

Bytes = NDArray[np.uint8]
Keys = NDArray[np.int32]  # of floats: models/reboosted/trees/binning.py
Rows = NDArray[np.float32]  # leaf rows are many: half the memory, twice as many in the cache

LANES = 8  # float32 in a leaf row: value, four leaf learners' offsets, events, AdaGrad's root, sum
NUMBERS, LOG_ODDS, LOGARITHMS = 0, 1, 2  # what scores are
VALUE, COVER, ROOT, SQUARES = 0, 5, 6, 7  # places in a leaf row
CODES = 64  # codes of a feature: up to 62 for numbers, the last one for what is missing
MISSING = CODES - 1
MOST_CUTS = CODES - 3  # halved, the codes of numbers still leave one for what is missing
LABEL_MEANS = 5  # decayed means of labels that stand beside the features
BLOCK_EVENTS = 8192  # the window is a multiple of this
BACKGROUND_MIN_NS = 1_000_000.0  # ns of a tree from which on it may be grown beside the events
MAX_EVENTS_AHEAD, EVENTS_AHEAD_DIVISOR = (
    4096,
    8,
)  # most events that come in while a tree is grown; part of the window
SAMPLE_ROWS = 8192  # rows kept as they are, evenly over the window: where new bins come from
HISTOGRAM_BYTES = 1 << 24  # most bytes for the histograms of a tree; leaves beyond it cannot split
HISTOGRAM_MEMORY_DIVISOR = 8  # and they take no more than this part of a class's memory
MAX_FEATURES = (
    (1 << 15) - 1 - LABEL_MEANS
)  # a node has 16 bits for a feature and for where missing goes


class Structure(NamedTuple):
    """How one sequence of trees is grown; specification of reboosted trees, 1."""

    window: int  # events it looks back; 0 for all that are kept
    trees: int
    leaves: int
    depth: int
    eta: float
    least_rows: int  # a tree sees this many events, or `part` of the window if that is more
    part: float
    lags: bool  # whether it sees the decayed means of labels
    bins: int  # 64, or 32 for histograms of half the size
    share: float  # of the build, before losses say more
    least_h: float  # smallest hessian of a child
    lam: float  # added to hessians


STRUCTURES = (
    Structure(0, 80, 64, 8, 0.12, 8000, 0.3, True, 64, 2.0, 20.0, 5.0),
    Structure(0, 100, 256, 12, 0.1, 8000, 0.3, False, 64, 2.0, 1.0, 1.0),
    Structure(8000, 64, 16, 5, 0.15, 2000, 0.25, True, 32, 1.0, 3.0, 2.0),
    Structure(1000, 64, 16, 4, 0.15, 500, 0.5, False, 32, 1.0, 1.0, 1.0),
)


class Trees(NamedTuple):
    """The N trees of one structure: all that its answers need.

    A node is one number: the key of its cut in the upper 32 bits, then 16 for the feature, then 16
    for its left child; the right child is the next. A leaf is its own left child, nothing lies
    beyond its cut, and its number stands for the feature. Features from d on are the same features,
    but missing ones go left.
    """

    nodes: Ints  # (N, M) M = 2 leaves - 1
    rows: NDArray[np.float32]  # (N, leaves, 8) what a leaf says, its offsets, its share of events


class TreeBuild(NamedTuple):
    """The tree of one structure that is being grown, over r rows and at most c histograms."""

    cursor: Ints  # (20,) the step it is at, and its counters: models/reboosted/trees/rebuild.py
    scale: Vec  # (8,) largest slope and hessian, their packed units, sums of y0, y0, a residual
    generator: State  # () of the generator of its rows
    codes: Bytes  # (r d,) of the chosen columns, row by row with no gap: few columns stay in cache
    gradients: Vec  # (r,)
    hessians: Vec  # (r,)
    weights: Vec  # (r,)
    packed: Ints  # (r,) slope and hessian in one number
    order: NDArray[np.int32]  # (r,) rows, leaf by leaf
    spare: NDArray[np.int32]  # (r,)
    columns: NDArray[np.uint64]  # (d,) chosen features
    half_bins: Ints  # (d,) 1 where two codes share a bin
    first_bins: NDArray[np.uint64]  # (d + 1,) first cell of every chosen column in a histogram
    histograms: NDArray[np.int64]  # (c, 64 d) histograms
    nodes: NDArray[np.int64]  # (M, 10) of the tree so far
    gains: Vec  # (M,) of its leaves, -1 where they cannot split
    code_nodes: Ints  # (M,) its nodes as the window is walked
    served_nodes: Ints  # (M,) its nodes as they will serve
    node_values: Vec  # (M,) what its leaves will say
    leaf_values: Vec  # (leaves,) the same by the leaf's number
    split_gain: Vec  # (d,) gain of every chosen column
    sums: Ints  # (64,) scratch
    positions: NDArray[np.int32]  # (256,) scratch


class Window(NamedTuple):
    """The last R events; the event of number t stands at t mod R."""

    codes: Bytes  # (R, d)
    labels: Vec  # (R,) float64, because float32 loses small differences of large labels
    weights: Vec  # (R,)
    prefix: Mat  # (K, R) score of the trees before the cursor


class Bins(NamedTuple):
    """Cuts of every feature, and the sample they come from."""

    edges: Keys  # (d, 64) ascending, the largest key beyond the last
    counts: Ints  # (d,)
    lowest: Keys  # (d,) ever seen
    highest: Keys  # (d,)
    has_missing: Ints  # (d,) 1 where a value was ever missing
    sample: Keys  # (S, d)
    stride: Ints  # () every so many events go to the sample
    rebin_at: Ints  # () number of the event after which bins are made anew
    new_feature_at: Ints  # () event at which a feature last came up that had been missing till then
    progress: Ints  # (4,) step, feature, event, and last event of the re-coding
    new_edges: Keys  # (d, 64) edges to come
    new_counts: Ints  # (d,)
    new_codes: Bytes  # (d, 64) new code of every old one
    column: Keys  # (S,) scratch of one feature, like the rest
    spare: Keys  # (S,)
    digit_counts: Ints  # (257,)


class Schedule(NamedTuple):
    """Who is regrown when."""

    time: Ints  # () events seen
    cursor: Ints  # (K,) next tree of the sweep
    grown: Ints  # (K,) trees grown so far
    status: Ints  # (K,) 0, or how a tree is being grown: models/reboosted/trees/rebuild.py
    commit_at: Ints  # (K,) event from which on a tree that is grown apart takes its place
    earliest_commit: Ints  # (K,) the first event that could be, if the loss rose
    budget_ns: Vec  # () ns of work an event that the schedule is set for
    credit: Vec  # (K,) regrown when it reaches 1
    credit_per_event: Vec  # (K,) credit an event
    share: Vec  # (K,) of the work
    drift_at: Ints  # () event at which the loss last rose clearly; 0 for never
    warning_at: Ints  # () event at which it last rose enough to doubt the stack's weights
    loss_statistics: Vec  # (3,) fast and slow mean of the loss, slow variance
    structure_losses: Mat  # (K, E) decayed loss of every leaf learner's score
    mean_square_gradient: Vec  # (K,) running mean of squared slopes
    gradient_squares: Vec  # (K,) sum of them since AdaGrad's sums last took it
    spent_ns: (
        Vec  # () ns of work on bins and trees that the cost model counted for the last event, by
    )
    # the thread that learns; 0 once the state was saved
    mean_columns: Vec  # () running mean of how many columns of an event are there, lags included
    feature_gains: Mat  # (K, d) of every feature, decayed
    columns_used: Ints  # (K,) features of the last tree
    bins_scanned: Ints  # (K,) of its histograms that were looked at
    leaf_count: Ints  # (K,) of the last tree
    generator: State  # () of the generator


class StructureParams(NamedTuple):
    """What the structures are, as numbers."""

    window: Ints  # (K,)
    depth: Ints  # (K,)
    leaves: Ints  # (K,)
    min_rows: Ints  # (K,)
    bins: Ints  # (K,)
    features: Ints  # (K,) it sees the first so many
    row_fraction: Vec  # (K,)
    eta: Vec  # (K,)
    share: Vec  # (K,) sums to 1
    min_hessian: Vec  # (K,)
    l2: Vec  # (K,)
    leaf_rates: Vec  # (5,) of the leaf learners; the first is AdaGrad's, the last 0
    label_mean_rates: Vec  # (5,)
    budget_ns: Vec  # () work an event in ns
    background_min_ns: Vec  # () ns of a tree from which on it may be grown beside the events
    link: Ints  # () what scores are: 0 numbers, 1 log-odds, 2 logarithms


class Reboosted(NamedTuple):
    """K structures of regrown trees with one window."""

    params: StructureParams
    structures: tuple[Trees, ...]  # (K,)
    base_score: Vec  # (K,) where each structure starts
    label_means: Vec  # (5,)
    window: Window
    bins: Bins
    schedule: Schedule


@learning_only.register
def _(part: Window | Bins | TreeBuild | Schedule) -> tuple[str, ...]:
    return part._fields


class Sizes(NamedTuple):
    """What the sizes of the state follow from."""

    structures: tuple[Structure, ...]
    rates: tuple[float, ...]  # of the leaf learners
    lag_rates: tuple[float, ...]
    budget: float
    memory: int  # bytes
    events: int  # the longest window
    link: int  # see Plan
    classes: int = 1  # that share the memory


def bank(setup: Sizes, d0: int, seed: int) -> Reboosted:
    """Return trees that have seen nothing, over d0 features and the five lags."""
    d, R = d0 + LABEL_MEANS, affordable_window(setup, d0)
    K = len(setup.structures)
    return Reboosted(
        params=_structure_params(setup, d, R),
        structures=tuple(_trees(each) for each in setup.structures),
        base_score=np.zeros(len(setup.structures)),
        label_means=np.zeros(LABEL_MEANS),
        window=Window(zeros((R, d), np.uint8), zeros((R,)), zeros((R,)), zeros((K, R))),
        bins=_bins(d, min(SAMPLE_ROWS, R)),
        schedule=_schedule(setup, d, seed),
    )


def tree_builds(setup: Sizes, params: StructureParams, d0: int) -> tuple[TreeBuild, ...]:
    """Return K builds at rest; they stand beside the bank, because few kernels need them."""
    R = int(params.window.max())
    return tuple(_tree_build(setup, each, d0 + LABEL_MEANS, R) for each in setup.structures)


def affordable_window(setup: Sizes, d0: int) -> int:
    """Return the longest window whose whole state stays under the memory bound, of which each of
    several classes has its part.
    """
    if d0 > MAX_FEATURES:
        raise ModelError(
            f"features: reboosted_trees takes at most {MAX_FEATURES} columns, not {d0}; hash them, "
            "or take bank linear"
        )
    most, memory = setup.events, setup.memory // setup.classes
    for R in range(most, 0, -BLOCK_EVENTS):
        if state_bytes(setup, d0, R) <= memory:
            return R
    whose = f" for each of {setup.classes} classes" if setup.classes > 1 else ""
    raise ModelError(
        f"bank.max_memory: {setup.memory / 1e6:g} MB hold no window of {BLOCK_EVENTS} events of "
        f"{d0} features{whose}; give {_enough(setup, d0)} or more, fewer features, or bank linear"
    )


def _enough(setup: Sizes, d0: int) -> int:
    """Return the megabytes that hold the shortest window: more of them have larger histograms."""
    R, told = min(BLOCK_EVENTS, setup.events), setup
    while setup.classes * state_bytes(told, d0, R) > told.memory:
        needed = setup.classes * state_bytes(told, d0, R)
        told = setup._replace(memory=(needed // 1_000_000 + 1) * 1_000_000)
    return told.memory // 1_000_000


@kernel
def events_ahead(R: int) -> int:
    """Return how many events may come into a ring of R while a tree is grown from older ones."""
    return min(MAX_EVENTS_AHEAD, R // EVENTS_AHEAD_DIVISOR)


def state_bytes(setup: Sizes, d0: int, R: int) -> int:
    """Return the bytes of the state over a window of R events."""
    d, K = d0 + LABEL_MEANS, len(setup.structures)
    total = (
        lines(d0)
        + R * (d + 16 + 8 * K)
        + min(SAMPLE_ROWS, R) * (4 * d + 8)
        + d * (64 * 9 + 40 + 8 * K)
    )
    for each in setup.structures:
        M, r = 2 * each.leaves - 1, _rows(each, R)
        total += each.trees * (M * 8 + each.leaves * 4 * LANES) + M * 120
        total += r * (d + 40) + _histogram_count(setup, each, d) * d * CODES * 8 + d * 32
    return total


def _rows(one: Structure, R: int) -> int:
    """Return the most rows a tree can see."""
    m = min(one.window or R, R)
    return min(max(one.least_rows, int(one.part * m)), m)


def _histogram_count(setup: Sizes, one: Structure, d: int) -> int:
    room = min(HISTOGRAM_BYTES, setup.memory // setup.classes // HISTOGRAM_MEMORY_DIVISOR)
    return max(2, min(one.leaves, room // (d * CODES * 8)))


def _trees(one: Structure) -> Trees:
    nodes = np.full((one.trees, 2 * one.leaves - 1), np.int64(2**31 - 1) << 32, np.int64)
    made = Trees(nodes, np.empty((one.trees, one.leaves, LANES), np.float32))
    reset_structure(made)
    return made


def reset_structure(trees: Trees) -> None:
    """Let the leaves of trees that were never grown have learned nothing."""
    trees.rows[...] = 0.0
    trees.rows[:, 0, ROOT] = 1.0


def _tree_build(setup: Sizes, one: Structure, d: int, R: int) -> TreeBuild:
    r, M = _rows(one, R), 2 * one.leaves - 1
    return TreeBuild(
        cursor=np.zeros(20, np.int64),
        scale=np.zeros(8),
        generator=generator(0),
        codes=zeros((r * d,), np.uint8),
        gradients=np.zeros(r),
        hessians=np.zeros(r),
        weights=np.zeros(r),
        packed=np.zeros(r, np.int64),
        order=np.zeros(r, np.int32),
        spare=np.zeros(r, np.int32),
        columns=np.zeros(d, np.uint64),
        half_bins=np.zeros(d, np.int64),
        first_bins=np.zeros(d + 1, np.uint64),
        histograms=zeros((_histogram_count(setup, one, d), d * CODES), np.int64),
        nodes=np.zeros((M, 10), np.int64),
        gains=np.zeros(M),
        code_nodes=np.zeros(M, np.int64),
        served_nodes=np.zeros(M, np.int64),
        node_values=np.zeros(M),
        leaf_values=np.zeros(one.leaves),
        split_gain=np.zeros(d),
        sums=np.zeros(64, np.int64),
        positions=np.zeros(PREFIX_BLOCK, np.int32),
    )


def _bins(d: int, S: int) -> Bins:
    largest = np.iinfo(np.int32).max
    return Bins(
        edges=np.full((d, CODES), largest, np.int32),
        counts=np.zeros(d, np.int64),
        lowest=np.full(d, largest, np.int32),
        highest=np.full(d, -largest, np.int32),
        has_missing=np.zeros(d, np.int64),
        sample=zeros((S, d), np.int32),
        stride=np.ones((), np.int64),
        rebin_at=np.full((), 100, np.int64),
        new_feature_at=np.zeros((), np.int64),
        progress=np.zeros(4, np.int64),
        new_edges=np.full((d, CODES), largest, np.int32),
        new_counts=np.zeros(d, np.int64),
        new_codes=np.zeros((d, CODES), np.uint8),
        column=np.zeros(S, np.int32),
        spare=np.zeros(S, np.int32),
        digit_counts=np.zeros(257, np.int64),
    )


def _schedule(setup: Sizes, d: int, seed: int) -> Schedule:
    K = len(setup.structures)
    shares = np.array([one.share for one in setup.structures])
    return Schedule(
        time=np.zeros((), np.int64),
        cursor=np.zeros(K, np.int64),
        grown=np.zeros(K, np.int64),
        status=np.zeros(K, np.int64),
        commit_at=np.zeros(K, np.int64),
        earliest_commit=np.zeros(K, np.int64),
        budget_ns=np.full((), setup.budget),
        credit=np.zeros(K),
        credit_per_event=np.zeros(K),
        share=shares / shares.sum(),
        drift_at=np.zeros((), np.int64),
        warning_at=np.zeros((), np.int64),
        loss_statistics=np.zeros(3),
        structure_losses=np.zeros((K, len(setup.rates))),
        mean_square_gradient=np.zeros(K),
        gradient_squares=np.zeros(K),
        spent_ns=np.zeros(()),
        mean_columns=np.zeros(()),
        feature_gains=np.zeros((K, d)),
        columns_used=np.full(K, d, np.int64),
        bins_scanned=np.full(K, d * CODES // 2, np.int64),
        leaf_count=np.ones(K, np.int64),
        generator=generator(seed),
    )


def _structure_params(setup: Sizes, d: int, R: int) -> StructureParams:
    def of(field: str, kind: Any) -> Any:
        return np.array([getattr(one, field) for one in setup.structures], kind)

    window, share, most = of("window", np.int64), of("share", np.float64), R - events_ahead(R)
    return StructureParams(
        window=np.where(window == 0, most, np.minimum(window, most)),
        depth=of("depth", np.int64),
        leaves=of("leaves", np.int64),
        min_rows=of("least_rows", np.int64),
        bins=of("bins", np.int64),
        features=np.where(of("lags", np.int64) > 0, d, d - LABEL_MEANS),
        row_fraction=of("part", np.float64),
        eta=of("eta", np.float64),
        share=share / share.sum(),
        min_hessian=of("least_h", np.float64),
        l2=of("lam", np.float64),
        leaf_rates=np.array(setup.rates),
        label_mean_rates=np.array(setup.lag_rates),
        budget_ns=np.array(setup.budget),
        background_min_ns=np.array(BACKGROUND_MIN_NS),
        link=np.array(setup.link, np.int64),
    )
