"""What reboosted trees are made of: the trees that serve, and the window, bins and works that
learning needs beside them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.memory import zeros
from kaboost.models.kernels.random import State, generator
from kaboost.models.reboosted.linear import size as lines
from kaboost.models.reboosted.trees.traverse import FLOCK
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
LAGS = 5  # decayed means of labels that stand beside the features
BLOCK_EVENTS = 8192  # the window is a multiple of this
APART_FROM = 1_000_000.0  # ns of a tree from which on it may be grown beside the events
AHEAD, AHEAD_PART = 4096, 8  # most events that come in while a tree is grown; part of the window
SAMPLE = 8192  # rows kept as they are, evenly over the window: where new bins come from
TABLES = 1 << 24  # most bytes for the histograms of a tree; leaves beyond it cannot split
TABLES_PART = 8  # and they take no more than this part of a class's memory
FEATURES = (1 << 15) - 1 - LAGS  # a node has 16 bits for a feature and for where missing goes


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
    share: float  # of the work, before losses say more
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


class Work(NamedTuple):
    """The tree of one structure that is being grown, over r rows and at most c histograms."""

    at: Ints  # (20,) the step it is at, and its counters: models/reboosted/trees/rebuild.py
    scale: Vec  # (8,) largest slope and hessian, their packed units, sums of y0, y0, a residual
    state: State  # () of the generator of its rows
    codes: Bytes  # (r d,) of the chosen columns, row by row with no gap: few columns stay in cache
    slopes: Vec  # (r,)
    bends: Vec  # (r,)
    weights: Vec  # (r,)
    packed: Ints  # (r,) slope and hessian in one number
    order: NDArray[np.int32]  # (r,) rows, leaf by leaf
    spare: NDArray[np.int32]  # (r,)
    columns: NDArray[np.uint64]  # (d,) chosen features
    narrow: Ints  # (d,) 1 where two codes share a bin
    starts: NDArray[np.uint64]  # (d + 1,) first cell of every chosen column in a histogram
    tables: NDArray[np.int64]  # (c, 64 d) histograms
    nodes: NDArray[np.int64]  # (M, 10) of the tree so far
    gains: Vec  # (M,) of its leaves, -1 where they cannot split
    cuts: Ints  # (M,) its nodes as the window is walked
    keys: Ints  # (M,) its nodes as they will serve
    values: Vec  # (M,) what its leaves will say
    said: Vec  # (leaves,) the same by the leaf's number
    won: Vec  # (d,) gain of every chosen column
    sums: Ints  # (64,) scratch
    places: NDArray[np.int32]  # (256,) scratch


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
    lost: Ints  # (d,) 1 where a value was ever missing
    sample: Keys  # (S, d)
    stride: Ints  # () every so many events go to the sample
    due: Ints  # () number of the event after which bins are made anew
    joined: Ints  # () event at which a feature last came up that had been missing till then
    at: Ints  # (4,) step, feature, event, and last event of the re-coding
    fresh: Keys  # (d, 64) edges to come
    fresh_counts: Ints  # (d,)
    recode: Bytes  # (d, 64) new code of every old one
    column: Keys  # (S,) scratch of one feature, like the rest
    spare: Keys  # (S,)
    digits: Ints  # (257,)


class Pace(NamedTuple):
    """Who is regrown when."""

    time: Ints  # () events seen
    cursor: Ints  # (K,) next tree of the sweep
    grown: Ints  # (K,) trees grown so far
    busy: Ints  # (K,) 0, or how a tree is being grown: models/reboosted/trees/rebuild.py
    due: Ints  # (K,) event from which on a tree that is grown apart takes its place
    soonest: Ints  # (K,) the first event that could be, if the loss rose
    total: Vec  # () ns of work an event that the pace is set for
    credit: Vec  # (K,) regrown when it reaches 1
    step: Vec  # (K,) credit an event
    share: Vec  # (K,) of the work
    alarm: Ints  # () event at which the loss last rose clearly; 0 for never
    doubt: Ints  # () event at which it last rose enough to doubt the stack's weights
    watch: Vec  # (3,) fast and slow mean of the loss, slow variance
    losses: Mat  # (K, E) decayed loss of every leaf learner's score
    slopes: Vec  # (K,) running mean of squared slopes
    squares: Vec  # (K,) sum of them since AdaGrad's sums last took it
    spent: Vec  # () ns of work on bins and trees that the cost model counted for the last event, by
    # the thread that learns; 0 once the state was saved
    filled: Vec  # () running mean of how many columns of an event are there, lags included
    gains: Mat  # (K, d) of every feature, decayed
    chosen: Ints  # (K,) features of the last tree
    places: Ints  # (K,) of its histograms that were looked at
    leaves: Ints  # (K,) of the last tree
    state: State  # () of the generator


class Plan(NamedTuple):
    """What the structures are, as numbers."""

    window: Ints  # (K,)
    depth: Ints  # (K,)
    leaves: Ints  # (K,)
    least_rows: Ints  # (K,)
    bins: Ints  # (K,)
    features: Ints  # (K,) it sees the first so many
    part: Vec  # (K,)
    eta: Vec  # (K,)
    share: Vec  # (K,) sums to 1
    least_h: Vec  # (K,)
    lam: Vec  # (K,)
    rates: Vec  # (5,) of the leaf learners; the first is AdaGrad's, the last 0
    lag_rates: Vec  # (5,)
    budget: Vec  # () work an event in ns
    apart: Vec  # () ns of a tree from which on it may be grown beside the events
    link: Ints  # () what scores are: 0 numbers, 1 log-odds, 2 logarithms


class Reboosted(NamedTuple):
    """K structures of regrown trees with one window."""

    plan: Plan
    trees: tuple[Trees, ...]  # (K,)
    y0: Vec  # (K,) where each structure starts
    lags: Vec  # (5,)
    window: Window
    bins: Bins
    pace: Pace


@learning_only.register
def _(part: Window | Bins | Work | Pace) -> tuple[str, ...]:
    return part._fields


class Setup(NamedTuple):
    """What the sizes of the state follow from."""

    structures: tuple[Structure, ...]
    rates: tuple[float, ...]  # of the leaf learners
    lag_rates: tuple[float, ...]
    budget: float
    memory: int  # bytes
    events: int  # the longest window
    link: int  # see Plan
    classes: int = 1  # that share the memory


def bank(setup: Setup, d0: int, seed: int) -> Reboosted:
    """Return trees that have seen nothing, over d0 features and the five lags."""
    d, R = d0 + LAGS, fitting(setup, d0)
    K = len(setup.structures)
    return Reboosted(
        plan=_plan(setup, d, R),
        trees=tuple(_trees(each) for each in setup.structures),
        y0=np.zeros(len(setup.structures)),
        lags=np.zeros(LAGS),
        window=Window(zeros((R, d), np.uint8), zeros((R,)), zeros((R,)), zeros((K, R))),
        bins=_bins(d, min(SAMPLE, R)),
        pace=_pace(setup, d, seed),
    )


def works(setup: Setup, plan: Plan, d0: int) -> tuple[Work, ...]:
    """Return K works at rest; they stand beside the bank, because few kernels need them."""
    R = int(plan.window.max())
    return tuple(_work(setup, each, d0 + LAGS, R) for each in setup.structures)


def fitting(setup: Setup, d0: int) -> int:
    """Return the longest window whose whole state stays under the memory bound, of which each of
    several classes has its part.
    """
    if d0 > FEATURES:
        raise ModelError(
            f"features: reboosted_trees takes at most {FEATURES} columns, not {d0}; hash them, "
            "or take bank linear"
        )
    most, memory = setup.events, setup.memory // setup.classes
    for R in range(most, 0, -BLOCK_EVENTS):
        if size(setup, d0, R) <= memory:
            return R
    whose = f" for each of {setup.classes} classes" if setup.classes > 1 else ""
    raise ModelError(
        f"bank.max_memory: {setup.memory / 1e6:g} MB hold no window of {BLOCK_EVENTS} events of "
        f"{d0} features{whose}; give {_enough(setup, d0)} or more, fewer features, or bank linear"
    )


def _enough(setup: Setup, d0: int) -> int:
    """Return the megabytes that hold the shortest window: more of them have larger histograms."""
    R, told = min(BLOCK_EVENTS, setup.events), setup
    while setup.classes * size(told, d0, R) > told.memory:
        needed = setup.classes * size(told, d0, R)
        told = setup._replace(memory=(needed // 1_000_000 + 1) * 1_000_000)
    return told.memory // 1_000_000


@kernel
def ahead(R: int) -> int:
    """Return how many events may come into a ring of R while a tree is grown from older ones."""
    return min(AHEAD, R // AHEAD_PART)


def size(setup: Setup, d0: int, R: int) -> int:
    """Return the bytes of the state over a window of R events."""
    d, K = d0 + LAGS, len(setup.structures)
    total = (
        lines(d0) + R * (d + 16 + 8 * K) + min(SAMPLE, R) * (4 * d + 8) + d * (64 * 9 + 40 + 8 * K)
    )
    for each in setup.structures:
        M, r = 2 * each.leaves - 1, _rows(each, R)
        total += each.trees * (M * 8 + each.leaves * 4 * LANES) + M * 120
        total += r * (d + 40) + _tables(setup, each, d) * d * CODES * 8 + d * 32
    return total


def _rows(one: Structure, R: int) -> int:
    """Return the most rows a tree can see."""
    m = min(one.window or R, R)
    return min(max(one.least_rows, int(one.part * m)), m)


def _tables(setup: Setup, one: Structure, d: int) -> int:
    room = min(TABLES, setup.memory // setup.classes // TABLES_PART)
    return max(2, min(one.leaves, room // (d * CODES * 8)))


def _trees(one: Structure) -> Trees:
    nodes = np.full((one.trees, 2 * one.leaves - 1), np.int64(2**31 - 1) << 32, np.int64)
    made = Trees(nodes, np.empty((one.trees, one.leaves, LANES), np.float32))
    forget(made)
    return made


def forget(trees: Trees) -> None:
    """Let the leaves of trees that were never grown have learned nothing."""
    trees.rows[...] = 0.0
    trees.rows[:, 0, ROOT] = 1.0


def _work(setup: Setup, one: Structure, d: int, R: int) -> Work:
    r, M = _rows(one, R), 2 * one.leaves - 1
    return Work(
        at=np.zeros(20, np.int64),
        scale=np.zeros(8),
        state=generator(0),
        codes=zeros((r * d,), np.uint8),
        slopes=np.zeros(r),
        bends=np.zeros(r),
        weights=np.zeros(r),
        packed=np.zeros(r, np.int64),
        order=np.zeros(r, np.int32),
        spare=np.zeros(r, np.int32),
        columns=np.zeros(d, np.uint64),
        narrow=np.zeros(d, np.int64),
        starts=np.zeros(d + 1, np.uint64),
        tables=zeros((_tables(setup, one, d), d * CODES), np.int64),
        nodes=np.zeros((M, 10), np.int64),
        gains=np.zeros(M),
        cuts=np.zeros(M, np.int64),
        keys=np.zeros(M, np.int64),
        values=np.zeros(M),
        said=np.zeros(one.leaves),
        won=np.zeros(d),
        sums=np.zeros(64, np.int64),
        places=np.zeros(FLOCK, np.int32),
    )


def _bins(d: int, S: int) -> Bins:
    largest = np.iinfo(np.int32).max
    return Bins(
        edges=np.full((d, CODES), largest, np.int32),
        counts=np.zeros(d, np.int64),
        lowest=np.full(d, largest, np.int32),
        highest=np.full(d, -largest, np.int32),
        lost=np.zeros(d, np.int64),
        sample=zeros((S, d), np.int32),
        stride=np.ones((), np.int64),
        due=np.full((), 100, np.int64),
        joined=np.zeros((), np.int64),
        at=np.zeros(4, np.int64),
        fresh=np.full((d, CODES), largest, np.int32),
        fresh_counts=np.zeros(d, np.int64),
        recode=np.zeros((d, CODES), np.uint8),
        column=np.zeros(S, np.int32),
        spare=np.zeros(S, np.int32),
        digits=np.zeros(257, np.int64),
    )


def _pace(setup: Setup, d: int, seed: int) -> Pace:
    K = len(setup.structures)
    shares = np.array([one.share for one in setup.structures])
    return Pace(
        time=np.zeros((), np.int64),
        cursor=np.zeros(K, np.int64),
        grown=np.zeros(K, np.int64),
        busy=np.zeros(K, np.int64),
        due=np.zeros(K, np.int64),
        soonest=np.zeros(K, np.int64),
        total=np.full((), setup.budget),
        credit=np.zeros(K),
        step=np.zeros(K),
        share=shares / shares.sum(),
        alarm=np.zeros((), np.int64),
        doubt=np.zeros((), np.int64),
        watch=np.zeros(3),
        losses=np.zeros((K, len(setup.rates))),
        slopes=np.zeros(K),
        squares=np.zeros(K),
        spent=np.zeros(()),
        filled=np.zeros(()),
        gains=np.zeros((K, d)),
        chosen=np.full(K, d, np.int64),
        places=np.full(K, d * CODES // 2, np.int64),
        leaves=np.ones(K, np.int64),
        state=generator(seed),
    )


def _plan(setup: Setup, d: int, R: int) -> Plan:
    def of(field: str, kind: Any) -> Any:
        return np.array([getattr(one, field) for one in setup.structures], kind)

    window, share, most = of("window", np.int64), of("share", np.float64), R - ahead(R)
    return Plan(
        window=np.where(window == 0, most, np.minimum(window, most)),
        depth=of("depth", np.int64),
        leaves=of("leaves", np.int64),
        least_rows=of("least_rows", np.int64),
        bins=of("bins", np.int64),
        features=np.where(of("lags", np.int64) > 0, d, d - LAGS),
        part=of("part", np.float64),
        eta=of("eta", np.float64),
        share=share / share.sum(),
        least_h=of("least_h", np.float64),
        lam=of("lam", np.float64),
        rates=np.array(setup.rates),
        lag_rates=np.array(setup.lag_rates),
        budget=np.array(setup.budget),
        apart=np.array(APART_FROM),
        link=np.array(setup.link, np.int64),
    )
