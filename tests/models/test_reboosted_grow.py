"""A grown tree is the naive twin's; traversals agree; bins keep the order of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaboost
from kaboost.models.reboosted.config import MIN_FEATURES, STRUCTURES, Sizes
from kaboost.models.reboosted.initial import bank, tree_builds
from kaboost.models.reboosted.state import CLEAR_HISTOGRAM, COUNT_ROWS, FIND_CUTS
from kaboost.models.reboosted.trees import binning
from kaboost.models.reboosted.trees.grower import grow, init_root
from kaboost.models.reboosted.trees.histogram import pack
from kaboost.models.reboosted.trees.nodes import store_tree
from kaboost.models.reboosted.trees.rebinning import update_bins
from kaboost.models.reboosted.trees.rows import code_shift, copy_codes
from kaboost.models.reboosted.trees.sample import collect_column, observe_row, sample_rows
from kaboost.models.reboosted.trees.screening import choose_columns, mark_top_features
from kaboost.models.reboosted.trees.split import split_limits
from kaboost.models.reboosted.trees.traverse import add_to_prefix, traverse
from tests.naive import reboosted as naive


def made(leaves, depth, n, d):
    """A bank and the build of its only structure, for n rows of d + 5 codes."""
    one = STRUCTURES[0]._replace(
        trees=1, leaves=leaves, depth=depth, least_rows=n, least_h=2.0, lam=1.5
    )
    sizes = Sizes(
        (one,), (0.7, 0.1, 0.4, 1.0, 0.0), (1.0, 0.5, 0.2, 0.05, 0.01), 4000.0, 10**8, 8192, 0
    )
    empty = bank(sizes, d, 1)
    return empty, tree_builds(sizes, empty.params, d)[0]


def store(build, empty):
    """Store the tree of the only structure."""
    store_tree(build, split_limits(empty.params, 0), empty.params.eta[0], empty.bins.edges)


def start(build, g, h):
    """Make the tree a leaf of rows of these gradients and hessians."""
    n = len(g)
    build.gradients[:n], build.hessians[:n] = g, h
    build.scale[0].max_gradient, build.scale[0].max_hessian = abs(g).max(), h.max()
    pack(build, n)
    init_root(build, n, int(build.cursor[0].columns))


def data(n, d, gone, most):
    """Codes, a share of them missing, with gradients and hessians."""
    r = np.random.default_rng(n + d)
    codes = r.integers(0, most, size=(n, d)).astype(np.uint8)
    codes[r.random((n, d)) < gone] = naive.MISSING
    g = (
        r.normal(size=n)
        + 0.3 * (codes[:, 0] > np.max(most) // 2)
        - 0.5 * (codes[:, 1] == naive.MISSING)
    )
    return codes, g, r.uniform(0.5, 1.5, size=n)


def copy(codes, most, bins_, empty, build):
    """Let a tree choose all columns, of so many codes, and copy the rows."""
    n, d = codes.shape
    b = empty.bins
    b.counts[:d], b.has_missing[:d], b.lowest[:d], b.highest[:d] = most - 1, 1, 0, 1
    cursor = build.cursor[0]
    cursor.bins, cursor.all_features = bins_, 1
    cursor.columns = choose_columns(np.zeros(d), empty.schedule.generator, b, build)
    assert cursor.columns == d
    shift = code_shift(build)
    for i in range(n):
        copy_codes(codes[i], build, shift, build.codes[i * d : (i + 1) * d])


@pytest.mark.parametrize(("leaves", "depth"), [(2, 1), (8, 3), (12, 6)])
@pytest.mark.parametrize("gone", [0.0, 0.2])
@pytest.mark.parametrize("slice_ns", [1e9, 200.0])
@pytest.mark.parametrize(
    ("most", "bins_"), [(1, 64), (2, 32), (8, 64), (9, 64), (12, 32), (31, 32), (32, 32), (50, 32)]
)
def test_tree_is_its_twin(leaves, depth, gone, slice_ns, most, bins_):
    """Best-first growth on histograms, in one go or in pieces, of many codes, of few or halved,
    finds the cuts that trying all finds, whatever was in the histograms before.
    """
    codes, g, h = data(120, 3, gone, most)
    prefix = grown(codes, g, h, (most, bins_), (leaves, depth), slice_ns)

    halved = np.where(codes < naive.MISSING, codes >> (most > bins_ - 1), naive.MISSING)
    expected = naive.grow(halved, g, h, leaves, depth, (1.5, 2.0), 0.12)
    assert prefix == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("most", "bins_"),
    [([61] * 3 + [7] * 4, 64), ([61] * 3 + [7, 6, 6, 5, 8], 64), ([20] * 3 + [1, 2, 3], 32)],
)
def test_columns_of_several_widths_keep_apart(most, bins_):
    """Also where their places come to as many as those of columns that are all as wide: 3 times 64
    and 4 times 8 are 7 times 32.
    """
    codes, g, h = data(160, len(most), 0.1, np.array(most))
    prefix = grown(codes, g, h, (np.array(most), bins_), (12, 6), 1e9)

    assert prefix == pytest.approx(naive.grow(codes, g, h, 12, 6, (1.5, 2.0), 0.12), abs=1e-6)


def grown(codes, g, h, bins_, limit, slice_ns):
    """Grow a tree on these rows, of so many codes and bins, and return its values for them."""
    (n, d), (leaves, depth) = codes.shape, limit
    empty, build = made(leaves, depth, n, d)
    build.histograms[:] = (7 << 32) + 7
    copy(codes, *bins_, empty, build)
    start(build, g, h)
    while not grow(build, split_limits(empty.params, 0), slice_ns)[1]:
        pass
    store(build, empty)
    prefix = np.zeros(n)
    add_to_prefix(build, depth, np.hstack([codes, np.zeros((n, 5), np.uint8)]), prefix)
    return prefix


def test_pieces_of_many_columns():
    """However growing is cut into pieces, while a histogram is cleared, rows are counted or columns
    compared, the tree is the same.
    """
    n, d = 300, 120
    codes, g, h = data(n, d, 0.1, 50)
    grown, cut = {}, set()
    for slice_ns in (1e9, 150.0, 20.0):
        empty, build = made(16, 6, n, d)
        copy(codes, 50, 64, empty, build)
        start(build, g, h)
        cursor = build.cursor[0]
        while not grow(build, split_limits(empty.params, 0), slice_ns)[1]:
            cut |= {int(cursor.grow_step)} if cursor.progress > 0 else set()
        store(build, empty)
        nodes = build.served_nodes.tolist(), build.node_values.tolist()
        grown[slice_ns] = (cursor.nodes, *nodes)

    assert cut >= {CLEAR_HISTOGRAM, COUNT_ROWS, FIND_CUTS}
    assert grown[1e9][0] == 31
    assert grown[150.0] == grown[20.0] == grown[1e9]


@pytest.mark.parametrize(("memory", "expected_strides"), [(128, {1, 2, 4, 8}), (1.25, {1, 2})])
def test_sample_is_even(memory, expected_strides):
    """Edges come from every event of a number that the stride divides, of as many as there is room
    for: before and after it has been doubled, and after the window was full and went on.
    """
    X = np.random.default_rng(3).normal(size=(60_000, 2))
    structure = {"trees": 1, "leaves": 2, "depth": 1}
    settings = {"kind": "reboosted_trees", "structures": [structure], "max_memory": memory}
    booster = kaboost.build({"bank": settings, "loss": "squared"}, 2)
    here, t, strides = booster.trees.bins, 0, set()
    for until in (50, 8192, 8193, 9000, 16_384, 16_386, 25_000, 32_768, 40_000, 60_000):
        kaboost.learn_many(booster, X[t:until], X[t:until, 0])
        t, stride = until, int(here.stride)
        strides.add(stride)
        held = collect_column(here, 1, t, sample_rows(here, t))
        expected = binning.to_keys(X[:t:stride, 1:])[-8192:, 0]
        assert sorted(here.column[:held]) == sorted(expected)
    assert strides == expected_strides


def runs_of(row):
    """Where keys of a row and its lags are not missing."""
    runs = np.zeros(len(row) - 1, np.uint64)
    binning.column_runs(row[:-5], runs)
    return runs


@settings(max_examples=300)
@given(
    st.one_of(
        st.lists(st.booleans(), min_size=1, max_size=70),
        st.integers(1, 200).flatmap(
            lambda d: st.sets(st.integers(0, d - 1), max_size=4).map(
                lambda some: [j in some for j in range(d)]
            )
        ),
    )
)
def test_runs(here):
    """They hold what is there, then the lags, and nothing that is missing."""
    row = np.where([*here, *[True] * 5], 7, binning.MISSING_KEY).astype(np.int32)
    runs, found = runs_of(row), []
    i = 0
    while runs[i] < len(row):
        assert runs[i] < runs[i + 1]
        found += range(runs[i], runs[i + 1])
        i += 2

    assert found == np.flatnonzero(row == 7).tolist()
    assert len(here) in runs[: i + 1 : 2]


@given(
    st.lists(st.integers(0, 10**6) | st.integers(0, 3), min_size=1, max_size=60).filter(any),
    st.floats(0.01, 0.999),
)
@settings(max_examples=300)
def test_top_features_as_sorted(gains, part):
    """Those marked are the first of all by falling gain, equal ones as they stand, that have the
    part of the sum; six at least, where there are."""
    goal = part * sum(gains)
    marks = np.full(len(gains), 7.0)
    mark_top_features(np.array(gains, np.float64), goal, marks)
    order = sorted(range(len(gains)), key=lambda j: (-gains[j], j))
    taken = next(k for k in range(1, len(gains) + 1) if sum(gains[j] for j in order[:k]) >= goal)
    expected = np.zeros(len(gains))
    expected[order[: max(taken, MIN_FEATURES)]] = 1.0
    np.testing.assert_array_equal(marks, expected)


def test_traversals_agree():
    """A tree has the same value for an event's keys as for its codes."""
    r = np.random.default_rng(3)
    n, d = 600, 4
    X = r.normal(size=(n, d))
    X[r.random((n, d)) < 0.1] = np.nan
    empty, build = made(16, 5, n, d)
    rows = np.hstack([binning.to_keys(X), np.zeros((n, 5), np.int32)])
    for t in range(n):
        observe_row(empty.bins, t, rows[t], runs_of(rows[t]))
    for _ in range(20):
        update_bins(empty.bins, empty.window.codes, n, empty.schedule.status)
    codes = empty.window.codes[:n]
    copy(codes[:, :d], 62, 64, empty, build)
    start(build, np.nan_to_num(X[:, 0]) + r.normal(size=n), np.ones(n))
    assert grow(build, split_limits(empty.params, 0), 1e9)[1]
    store(build, empty)
    prefix, leaf = np.zeros(n), np.zeros(1, np.int32)
    add_to_prefix(build, 5, codes, prefix)
    for t in range(n):
        low = np.where(rows[t] == binning.MISSING_KEY, -binning.MISSING_KEY, rows[t])
        both = np.concatenate([rows[t], low]).astype(np.int32)
        traverse(build.served_nodes[None, :], 5, both, leaf)
        assert build.leaf_values[leaf[0]] == prefix[t]

    assert len(set(prefix)) > 10


def test_keys_order_as_numbers():
    """Keys order as numbers do, and turn back into them."""
    r = np.random.default_rng(4)
    x = np.concatenate([r.normal(size=50) * 10.0 ** r.integers(-30, 30, 50), [0.0, -0.0, 1e308]])
    k = binning.to_keys(x[:, None])[:, 0]
    kept = np.clip(x, -3e38, 3e38).astype(np.float32)

    assert (np.argsort(k, kind="stable") == np.argsort(kept, kind="stable")).all()
    assert [binning.from_key(int(one)) for one in k] == [float(one) for one in kept + 0.0]
    assert [binning.to_key(float(one)) for one in x] == k.tolist()


def test_codes_count_edges():
    """A code is the number of edges below, old codes become the new ones, and what is missing
    stays so.
    """
    r = np.random.default_rng(5)
    d, R = 3, 8192
    X = np.stack([r.normal(size=R), r.integers(0, 9, R), r.exponential(size=R)], axis=1)
    X[r.random((R, d)) < 0.05] = np.nan
    empty, _ = made(4, 2, 100, d)
    b, window = empty.bins, empty.window
    rows = np.hstack([binning.to_keys(X), np.zeros((R, 5), np.int32)])
    for t in range(R):
        observe_row(b, t, rows[t], runs_of(rows[t]))
        binning.encode(b.edges, rows[t], runs_of(rows[t]), window.codes[t])
        update_bins(b, window.codes, t + 1, empty.schedule.status)

    assert b.counts[:3].tolist() == [61, 8, 61]
    for j in range(d):
        expected = (rows[:, j, None] > b.edges[j, : b.counts[j]]).sum(axis=1)
        expected[np.isnan(X[:, j])] = naive.MISSING
        assert (window.codes[:, j] == expected).all()
        shares = np.bincount(window.codes[:, j], minlength=64)[:62] / R
        assert shares.max() < (0.2 if j == 1 else 0.03)
