"""State of the default model's trees: the trees that serve, and what only learning needs beside
them: window, bins, schedule and builds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.random import State
from kaboost.models.types import Ints, Mat, Vec
from kaboost.models.verbs import learning_only

Codes = NDArray[np.uint8]
Keys = NDArray[np.int32]  # of floats: kaboost.models.reboosted.trees.binning
Places = NDArray[np.int32]
Rows = NDArray[np.float32]  # leaf rows are many: half the memory, twice as many in the cache
Runs = NDArray[np.uint64]
Records = NDArray[Any]  # of one of the record types below; files hold them as plain numbers

LANES = 8  # float32 in a leaf row: value, four leaf learners' offsets, events, AdaGrad's root, sum
VALUE, COVER, ROOT, SQUARES = 0, 5, 6, 7  # places in a leaf row
# A leaf row of C classes: values, four leaf learners' offsets, AdaGrad's roots and sums, C of each,
# then the number of events.
CLASS_LANES, CLASS_ROOTS, CLASS_SQUARES = 7, 5, 6
NUMBERS, LOG_ODDS, LOGARITHMS = 0, 1, 2  # scales of scores
CODES = 64  # codes of a feature: up to 62 for numbers, the last one for missing values
MISSING = CODES - 1
MOST_CUTS = CODES - 3  # halved, the codes of numbers still leave one for missing values
LABEL_MEANS = 5  # decayed means of labels that are features as well
MAX_FEATURES = (1 << 15) - 1 - LABEL_MEANS  # a node has 16 bits for a feature and its direction

# Step of a build; of the growth of its tree; of making bins; status of a structure's build.
NOT_STARTED, FIT_BASE_SCORE, RESET_PREFIX, DRAW_ROWS, GROW_TREE, ADD_TO_PREFIX, GROWN = range(7)
CHOOSE_LEAF, COUNT_ROWS, CLEAR_HISTOGRAM, FIND_CUTS = range(4)
IDLE, REQUESTED, CUTTING, CODING = range(4)
UNASSIGNED, INLINE, BACKGROUND, READY = range(4)


def _record(kind: Any, *names: str) -> np.dtype[Any]:
    """Return the type of records of numbers of one kind, whose fields are attributes of an element
    in compiled and in plain code.
    """
    return np.dtype((np.record, np.dtype([(name, kind) for name in names], align=True)))


BUILD_CURSOR = _record(
    np.int64,
    "step",  # NOT_STARTED to GROWN
    "drawn",  # rows so far
    "rows",  # of the tree
    "columns",  # it looks at
    "first",  # event of the window
    "done",  # event up to which the step has come
    "all_features",  # 1 where the tree sees all
    "events",  # of the window
    "grow_step",  # CHOOSE_LEAF to FIND_CUTS
    "nodes",
    "leaves",
    "histograms",  # in use
    "progress",  # cells, rows or columns up to which the step of growth has come
    "small",  # leaf whose histogram is counted
    "large",  # its sibling; for the root the root
    "histogram",  # that is counted
    "bins",  # of a column of many codes: 64 or 32
    "bins_scanned",  # of a whole histogram, in units of time
    "end",  # event after the last of the window
)
BUILD_SCALE = _record(
    np.float64,
    "max_gradient",
    "max_hessian",
    "gradient_unit",  # of one packed
    "hessian_unit",
    "mean_weight",  # when the tree was started
    "weight_sum",  # of the window's labels, in units of it
    "label_sum",
    "base_score",
    "residual",  # typical size when the tree was started
)
BUILD_NODE = _record(
    np.int64,
    "start",  # first row in `order`
    "stop",
    "histogram",  # -1 for none
    "depth",
    "sums",  # packed gradient and hessian
    "best_cut",  # gain, bin and direction; 0 for none
    "left",  # child; 0 for a leaf
    "column",  # of the best cut
    "bin",
    "missing_left",
)
BINS_PROGRESS = _record(
    np.int64,
    "step",  # IDLE to CODING
    "feature",
    "event",
    "moved",  # 1 where bins are made for features that moved only
)


class Trees(NamedTuple):
    """The N trees of one structure: all that its scores need.

    A node is one number: the key of its cut in the upper 32 bits, then 16 for the feature, then 16
    for its left child; the right child is the next. A leaf is its own left child, no key lies
    beyond its cut, and its number stands for the feature. Features from d on are the same features,
    but missing values go left.
    """

    nodes: Ints  # (N, M) M = 2 leaves - 1
    rows: Rows  # (N, leaves, 8) values, offsets and cover of leaves


class TreeBuild(NamedTuple):
    """The tree of one structure that is being grown, over r rows and at most c histograms."""

    cursor: Records  # (1,) of BUILD_CURSOR: its step, and counters
    scale: Records  # (1,) of BUILD_SCALE
    generator: State  # () of the random rows
    codes: Codes  # (r d,) of the chosen columns, row by row with no gap: few columns stay in cache
    gradients: Vec  # (r,)
    hessians: Vec  # (r,)
    weights: Vec  # (r,)
    packed: Ints  # (r,) gradient and hessian in one number
    order: Places  # (r,) rows, leaf by leaf
    spare: Places  # (r,) scratch
    columns: Runs  # (d,) chosen features
    half_bins: Ints  # (d,) 1 where two codes share a bin
    first_bins: Runs  # (d + 1,) first cell of every chosen column in a histogram
    histograms: Ints  # (c, 64 d)
    nodes: Records  # (M,) of BUILD_NODE: the tree so far
    gains: Vec  # (M,) of its leaves, -1 where they cannot split
    code_nodes: Ints  # (M,) its nodes for codes of the window
    served_nodes: Ints  # (M,) its nodes for keys, as they will serve
    node_values: Vec  # (M,) values of its leaves by node
    leaf_values: Vec  # (leaves,) the same by the leaf's number
    split_gain: Vec  # (d,) sum of the gains of every chosen column
    sums: Ints  # (64,) scratch
    positions: Places  # (256,) scratch


class Window(NamedTuple):
    """The last R events; the event of number t stands at t mod R."""

    codes: Codes  # (R, d)
    labels: Vec  # (R,) float64, because float32 loses small differences of large labels
    weights: Vec  # (R,)
    prefix: Mat  # (K, R) score of the trees before the cursor


class Bins(NamedTuple):
    """Cuts of every feature, and the sample they come from."""

    edges: Keys  # (d, 64) ascending, the largest key beyond the last
    counts: Ints  # (d,) edges
    lowest: Keys  # (d,) ever seen
    highest: Keys  # (d,)
    has_missing: Ints  # (d,) 1 where a value was ever missing
    sample: Keys  # (S, d)
    stride: Ints  # () events from one row of the sample to the next
    rebin_at: Ints  # () event after which bins are made again
    new_feature_at: Ints  # () event with the latest first value of a feature
    recent: Keys  # (Q, d) of the last Q events; the event of number t stands at t mod Q
    moved: Ints  # (d,) 1 where bins are made because the feature moved
    check_at: Ints  # (d,) event from which on the feature may ask for bins again
    check_gap: Ints  # (d,) events until then, the next time
    progress: Records  # (1,) of BINS_PROGRESS
    new_edges: Keys  # (d, 64) edges to come
    new_counts: Ints  # (d,)
    new_codes: Codes  # (d, 64) new code of every old one
    column: Keys  # (S,) scratch of one feature, like the rest
    spare: Keys  # (S,)
    digit_counts: Ints  # (257,)


class Schedule(NamedTuple):
    """When each structure's next tree is rebuilt."""

    time: Ints  # () events seen
    cursor: Ints  # (K,) next tree of the sweep
    grown: Ints  # (K,) trees so far
    status: Ints  # (K,) UNASSIGNED, INLINE, BACKGROUND or READY
    commit_at: Ints  # (K,) event at which a tree that is grown in the background is committed
    earliest_commit: Ints  # (K,) first event at which it could be, after a drift
    budget_ns: Vec  # () ns of work an event that the schedule is set for
    credit: Vec  # (K,) a tree is rebuilt when it reaches 1
    credit_per_event: Vec  # (K,)
    share: Vec  # (K,) of the budget
    drift_at: Ints  # () event of the last drift; 0 for none
    warning_at: Ints  # () event of the last warning
    moved_at: Ints  # (2,) events that last asked for bins because a feature moved, the last first
    loss_statistics: Vec  # (3,) fast and slow mean of the loss, slow variance
    structure_losses: Mat  # (K, E) decayed loss of every leaf learner's score
    mean_square_gradient: Vec  # (K,) running mean
    gradient_squares: Vec  # (K,) sum since AdaGrad's sums were last updated
    # ns of bins and trees that the cost model counted for the last event, on the thread that
    # learns; 0 once the state was saved
    spent_ns: Vec  # ()
    mean_columns: Vec  # () running mean of the columns present in an event, label means included
    feature_gains: Mat  # (K, d) decayed
    columns_used: Ints  # (K,) features of the last tree
    bins_scanned: Ints  # (K,) of its histograms
    leaf_count: Ints  # (K,) of the last tree
    generator: State  # ()


class StructureParams(NamedTuple):
    """Settings of the K structures."""

    window: Ints  # (K,) events
    depth: Ints  # (K,)
    leaves: Ints  # (K,)
    min_rows: Ints  # (K,)
    bins: Ints  # (K,)
    features: Ints  # (K,) it sees the first so many
    row_fraction: Vec  # (K,) of the window that a tree sees
    eta: Vec  # (K,) learning rate
    share: Vec  # (K,) of the budget; sums to 1
    min_hessian: Vec  # (K,) of a child
    l2: Vec  # (K,) added to hessians
    leaf_rates: Vec  # (5,) of the leaf learners; the first is AdaGrad's, the last 0
    label_mean_rates: Vec  # (5,)
    budget_ns: Vec  # () work an event
    background_min_ns: Vec  # () ns of a tree from which on it may be grown in the background
    link: Ints  # () scale of scores: NUMBERS, LOG_ODDS or LOGARITHMS


class Reboosted(NamedTuple):
    """K structures of trees, rebuilt from one window."""

    params: StructureParams
    structures: tuple[Trees, ...]  # (K,)
    base_score: Vec  # (K,)
    label_means: Vec  # (5,)
    window: Window
    bins: Bins
    schedule: Schedule


@learning_only.register
def _(part: Window | Bins | TreeBuild | Schedule) -> tuple[str, ...]:
    return part._fields
