"""A grown tree is the naive twin's; walks agree; bins keep the order of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaboost
from kaboost.models.reboosted.state import STRUCTURES, Sizes, bank, tree_builds
from kaboost.models.reboosted.trees import binning as bins
from kaboost.models.reboosted.trees.grower import (
    CLEAR_HISTOGRAM,
    COUNT_ROWS,
    FIND_CUTS,
    GROW_STEP,
    NODES,
    PROGRESS,
    grow,
    init_root,
    store_tree,
)
from kaboost.models.reboosted.trees.histogram import pack
from kaboost.models.reboosted.trees.rebuild import (
    ALL_FEATURES,
    BINS,
    MIN_FEATURES,
    choose_columns,
    code_shift,
    copy_codes,
    mark_top_features,
)
from kaboost.models.reboosted.trees.traverse import add_to_prefix, traverse
from tests.naive import reboosted as naive


def made(leaves, depth, n, d):
    """A bank and the work of its only structure, for n rows of d + 5 codes."""
    one = STRUCTURES[0]._replace(
        trees=1, leaves=leaves, depth=depth, least_rows=n, least_h=2.0, lam=1.5
    )
    setup = Sizes(
        (one,), (0.7, 0.1, 0.4, 1.0, 0.0), (1.0, 0.5, 0.2, 0.05, 0.01), 4000.0, 10**8, 8192, 0
    )
    empty = bank(setup, d, 1)
    return empty, tree_builds(setup, empty.plan, d)[0]


def limits(plan):
    """Largest depth, smallest hessian of a child, and lam of the only structure."""
    return plan.depth[0], plan.min_hessian[0], plan.l2[0]


def data(n, d, gone, most):
    """Codes, a share of them missing, with slopes and hessians."""
    r = np.random.default_rng(n + d)
    codes = r.integers(0, most, size=(n, d)).astype(np.uint8)
    codes[r.random((n, d)) < gone] = naive.MISSING
    g = (
        r.normal(size=n)
        + 0.3 * (codes[:, 0] > np.max(most) // 2)
        - 0.5 * (codes[:, 1] == naive.MISSING)
    )
    return codes, g, r.uniform(0.5, 1.5, size=n)


def copy(codes, most, bins_, empty, work):
    """Let a tree choose all columns, of so many codes, and copy the rows."""
    n, d = codes.shape
    b = empty.bins
    b.counts[:d], b.lost[:d], b.lowest[:d], b.highest[:d] = most - 1, 1, 0, 1
    work.cursor[BINS], work.cursor[ALL_FEATURES] = bins_, 1
    assert choose_columns(np.zeros(d), empty.pace.generator, b, work) == d
    shift = code_shift(work, d)
    for i in range(n):
        copy_codes(codes[i], work, shift, work.codes[i * d : (i + 1) * d])


@pytest.mark.parametrize(("leaves", "depth"), [(2, 1), (8, 3), (12, 6)])
@pytest.mark.parametrize("gone", [0.0, 0.2])
@pytest.mark.parametrize("room", [1e9, 200.0])
@pytest.mark.parametrize(
    ("most", "bins_"), [(1, 64), (2, 32), (8, 64), (9, 64), (12, 32), (31, 32), (32, 32), (50, 32)]
)
def test_tree_is_its_twin(leaves, depth, gone, room, most, bins_):
    """Best-first growth on histograms, in one go or in pieces, of many codes, of few or halved,
    finds the cuts that trying all finds; what stood in the histograms before does not matter.
    """
    codes, g, h = data(120, 3, gone, most)
    said = grown(codes, g, h, (most, bins_), (leaves, depth), room)

    halved = np.where(codes < naive.MISSING, codes >> (most > bins_ - 1), naive.MISSING)
    expected = naive.grow(halved, g, h, leaves, depth, (1.5, 2.0), 0.12)
    assert said == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("most", "bins_"),
    [([61] * 3 + [7] * 4, 64), ([61] * 3 + [7, 6, 6, 5, 8], 64), ([20] * 3 + [1, 2, 3], 32)],
)
def test_columns_of_several_widths_keep_apart(most, bins_):
    """Also where their places come to as many as those of columns that are all as wide: 3 times 64
    and 4 times 8 are 7 times 32.
    """
    codes, g, h = data(160, len(most), 0.1, np.array(most))
    said = grown(codes, g, h, (np.array(most), bins_), (12, 6), 1e9)

    assert said == pytest.approx(naive.grow(codes, g, h, 12, 6, (1.5, 2.0), 0.12), abs=1e-6)


def grown(codes, g, h, bins_, limit, room):
    """Grow a tree on these rows, of so many codes and bins, and return what it says of them."""
    (n, d), (leaves, depth) = codes.shape, limit
    empty, work = made(leaves, depth, n, d)
    work.histograms[:] = (7 << 32) + 7
    copy(codes, *bins_, empty, work)
    work.gradients[:n], work.hessians[:n] = g, h
    work.scale[0], work.scale[1] = abs(g).max(), h.max()
    pack(work, n)
    init_root(work, n, d)
    while not grow(work, limits(empty.plan), d, room)[1]:
        pass
    store_tree(work, empty.plan.l2[0], empty.plan.eta[0], empty.bins.edges)
    said = np.zeros(n)
    add_to_prefix(work, depth, np.hstack([codes, np.zeros((n, 5), np.uint8)]), said)
    return said


def test_pieces_of_many_columns():
    """However growing is cut into pieces, in the midst of emptying a histogram, of counting rows
    or of comparing columns, the tree is the same.
    """
    n, d = 300, 120
    codes, g, h = data(n, d, 0.1, 50)
    grown, cut = {}, set()
    for room in (1e9, 150.0, 20.0):
        empty, work = made(16, 6, n, d)
        copy(codes, 50, 64, empty, work)
        work.gradients[:n], work.hessians[:n] = g, h
        work.scale[0], work.scale[1] = abs(g).max(), h.max()
        pack(work, n)
        init_root(work, n, d)
        while not grow(work, limits(empty.plan), d, room)[1]:
            cut |= {int(work.cursor[GROW_STEP])} if work.cursor[PROGRESS] > 0 else set()
        store_tree(work, empty.plan.l2[0], empty.plan.eta[0], empty.bins.edges)
        grown[room] = (work.cursor[NODES], work.served_nodes.tolist(), work.node_values.tolist())

    assert cut >= {CLEAR_HISTOGRAM, COUNT_ROWS, FIND_CUTS}
    assert grown[1e9][0] == 31
    assert grown[150.0] == grown[20.0] == grown[1e9]


@pytest.mark.parametrize(("memory", "expected_strides"), [(128, {1, 2, 4, 8}), (1.2, {1, 2})])
def test_sample_is_even(memory, expected_strides):
    """Edges come from every event of a number that the stride divides, of as many as there is room
    for: before and after it has been doubled, and after the window was full and went on.
    """
    X = np.random.default_rng(3).normal(size=(60_000, 2))
    setup = {"kind": "reboosted_trees", "structures": [{"trees": 1, "leaves": 2, "depth": 1}]}
    setup["max_memory"] = memory
    booster = kaboost.build({"bank": setup, "loss": "squared"}, 2)
    here, t, strides = booster.trees.bins, 0, set()
    for until in (50, 8192, 8193, 9000, 16_384, 16_386, 25_000, 32_768, 40_000, 60_000):
        kaboost.learn_many(booster, X[t:until], X[t:until, 0])
        t, stride = until, int(here.stride)
        strides.add(stride)
        held = bins.collect_column(here, 1, t, bins.sample_rows(here, t))
        expected = bins.to_keys(X[:t:stride, 1:])[-8192:, 0]
        assert sorted(here.column[:held]) == sorted(expected)
    assert strides == expected_strides


def runs_of(row):
    """Where keys of a row and its lags are not missing."""
    runs = np.zeros(len(row) - 1, np.uint64)
    bins.column_runs(row[:-5], runs)
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
    row = np.where([*here, *[True] * 5], 7, bins.MISSING_KEY).astype(np.int32)
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
def test_richest_as_sorted(gains, part):
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


def test_walks_agree():
    """A tree says the same of an event's keys as of its codes."""
    r = np.random.default_rng(3)
    n, d = 600, 4
    X = r.normal(size=(n, d))
    X[r.random((n, d)) < 0.1] = np.nan
    empty, work = made(16, 5, n, d)
    rows = np.hstack([bins.to_keys(X), np.zeros((n, 5), np.int32)])
    for t in range(n):
        bins.observe_row(empty.bins, t, rows[t], runs_of(rows[t]))
    for _ in range(20):
        bins.update_bins(empty.bins, empty.window.codes, n, empty.pace.status)
    codes = empty.window.codes[:n]
    copy(codes[:, :d], 62, 64, empty, work)
    work.gradients[:n], work.hessians[:n] = np.nan_to_num(X[:, 0]) + r.normal(size=n), 1.0
    work.scale[0], work.scale[1] = abs(work.gradients[:n]).max(), 1.0
    pack(work, n)
    init_root(work, n, d)
    assert grow(work, limits(empty.plan), d, 1e9)[1]
    store_tree(work, empty.plan.l2[0], empty.plan.eta[0], empty.bins.edges)
    said, leaf = np.zeros(n), np.zeros(1, np.int32)
    add_to_prefix(work, 5, codes, said)
    for t in range(n):
        low = np.where(rows[t] == bins.MISSING_KEY, -bins.MISSING_KEY, rows[t])
        traverse(
            work.served_nodes[None, :], 5, np.concatenate([rows[t], low]).astype(np.int32), leaf
        )
        assert work.leaf_values[leaf[0]] == said[t]

    assert len(set(said)) > 10


def test_keys_order_as_numbers():
    """Keys order as numbers do, and turn back into them."""
    r = np.random.default_rng(4)
    x = np.concatenate([r.normal(size=50) * 10.0 ** r.integers(-30, 30, 50), [0.0, -0.0, 1e308]])
    k = bins.to_keys(x[:, None])[:, 0]
    kept = np.clip(x, -3e38, 3e38).astype(np.float32)

    assert (np.argsort(k, kind="stable") == np.argsort(kept, kind="stable")).all()
    assert [bins.from_key(int(one)) for one in k] == [float(one) for one in kept + 0.0]
    assert [bins.to_key(float(one)) for one in x] == k.tolist()


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
    rows = np.hstack([bins.to_keys(X), np.zeros((R, 5), np.int32)])
    for t in range(R):
        bins.observe_row(b, t, rows[t], runs_of(rows[t]))
        bins.encode(b.edges, rows[t], runs_of(rows[t]), window.codes[t])
        bins.update_bins(b, window.codes, t + 1, empty.pace.status)

    assert b.counts[:3].tolist() == [61, 8, 61]
    for j in range(d):
        expected = (rows[:, j, None] > b.edges[j, : b.counts[j]]).sum(axis=1)
        expected[np.isnan(X[:, j])] = naive.MISSING
        assert (window.codes[:, j] == expected).all()
        shares = np.bincount(window.codes[:, j], minlength=64)[:62] / R
        assert shares.max() < (0.2 if j == 1 else 0.03)
